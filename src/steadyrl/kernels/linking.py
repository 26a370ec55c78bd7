"""The last step from collected instructions to a program: what is not needed goes, what remains gets memory."""

from __future__ import annotations

import array
import struct
from collections.abc import Iterable
from dataclasses import dataclass

from steadyrl.kernels.assembler import ALONG, ARGUMENTS, LOOPS, Assembler, Instruction, Operand, Register

_CONSTANTS, _ARENA, _FIRST_INPUT = 0, 1, 2  # bases, as in native/bind_tape.cpp
_ALIGNMENT = 16  # floats of a cache line
_NO_OPERAND = (0,) * (2 + LOOPS + ALONG)


@dataclass(frozen=True, slots=True)
class Linked:
    """What `native.Tape` takes besides the tokens."""

    inputs: list[tuple[int, tuple[int, ...]] | None]
    constants: bytes
    code: bytes
    arena_size: int
    instructions: int


def link(assembler: Assembler, n_inputs: int, codes: dict[str, int]) -> Linked:
    """Give every needed register its memory and write the instructions down.

    Args:
        assembler: With instructions into output registers.
        n_inputs: Tensors and numbers among the arguments.
        codes: Number of each operation.
    """
    registers = assembler.registers
    instructions = _straight(registers, _needed(registers, assembler.instructions))
    constants, places = _constants(registers, instructions)
    inputs: list[tuple[int, tuple[int, ...]] | None] = [None] * n_inputs
    arena = _Arena()
    for number, register in enumerate(registers):
        if register.kind == "output":
            places[number] = (_FIRST_INPUT + n_inputs + register.number, 0)
    last_use = {r: i for i, instruction in enumerate(instructions) for r in _all(instruction)}
    for number in last_use:
        if registers[number].kind == "input":
            inputs[registers[number].number] = (arena.take(number, registers[number].size), registers[number].strides)
            places[number] = (_FIRST_INPUT + registers[number].number, 0)
    words = array.array("q")
    for i, instruction in enumerate(instructions):
        out = instruction.out.register
        if out not in places:
            places[out] = (_ARENA, arena.take(out, registers[out].size))
        _write(words, instruction, codes, places)
        for r in set(_all(instruction)):
            if last_use[r] == i:
                arena.give(r)
    return Linked(inputs, constants.tobytes(), words.tobytes(), arena.size, len(instructions))


def _reads(instruction: Instruction) -> Iterable[int]:
    return (operand.register for operand in instruction.args)


def _all(instruction: Instruction) -> Iterable[int]:
    yield instruction.out.register
    yield from _reads(instruction)


def _needed(registers: list[Register], instructions: list[Instruction]) -> list[Instruction]:
    """Those that an output depends on, in order."""
    wanted = {number for number, register in enumerate(registers) if register.kind == "output"}
    kept = []
    for instruction in reversed(instructions):
        if instruction.out.register in wanted:
            wanted.update(_reads(instruction))
            kept.append(instruction)
    return kept[::-1]


def _straight(registers: list[Register], instructions: list[Instruction]) -> list[Instruction]:
    """Without copies to an output of a register that can be that output from the start."""
    moved: dict[int, Operand] = {}
    kept = []
    for instruction in reversed(instructions):
        source = instruction.args[0]
        whole = (
            instruction.op == "copy"
            and registers[instruction.out.register].kind == "output"
            and registers[source.register].kind == "temporary"
            and source.offset == 0
            and source.strides == instruction.out.strides
            and registers[source.register].size == _count(instruction)
            and source.register not in moved
        )
        if whole:
            moved[source.register] = instruction.out
        else:
            kept.append(instruction)
    for instruction in kept:
        instruction.out = _moved(instruction.out, moved)
        instruction.args = tuple(_moved(operand, moved) for operand in instruction.args)
    return kept[::-1]


def _count(instruction: Instruction) -> int:
    count = 1
    for size in instruction.sizes:
        count *= size
    return count


def _moved(operand: Operand, moved: dict[int, Operand]) -> Operand:
    target = moved.get(operand.register)
    if target is None:
        return operand
    return operand._replace(register=target.register, offset=target.offset + operand.offset)


def _constants(
    registers: list[Register], instructions: list[Instruction]
) -> tuple[array.array[float], dict[int, tuple[int, int]]]:
    numbers = array.array("f")
    places: dict[int, tuple[int, int]] = {}
    for instruction in instructions:
        for number in _reads(instruction):
            if registers[number].kind == "constant" and number not in places:
                places[number] = (_CONSTANTS, len(numbers))
                numbers.extend(registers[number].data)
    return numbers, places


class _Arena:
    """Memory of values while they are needed; a freed place goes to the next value of its size."""

    def __init__(self) -> None:
        self.size = 0
        self._free: dict[int, list[int]] = {}
        self._held: dict[int, tuple[int, int]] = {}

    def take(self, register: int, size: int) -> int:
        rounded = -(-size // _ALIGNMENT) * _ALIGNMENT
        free = self._free.get(rounded)
        if free:
            place = free.pop()
        else:
            place, self.size = self.size, self.size + rounded
        self._held[register] = (place, rounded)
        return place

    def give(self, register: int) -> None:
        if register in self._held:
            place, rounded = self._held.pop(register)
            self._free.setdefault(rounded, []).append(place)


def _write(
    words: array.array[int], instruction: Instruction, codes: dict[str, int], places: dict[int, tuple[int, int]]
) -> None:
    words.append(codes[instruction.op])
    words.append(struct.unpack("q", struct.pack("d", instruction.value))[0])
    words.extend(instruction.sizes)
    words.extend(instruction.along)
    for operand in (instruction.out, *instruction.args):
        base, start = places[operand.register]
        words.append(base)
        words.append(start + operand.offset)
        words.extend(operand.strides)
        words.extend(operand.along)
    for _ in range(ARGUMENTS - len(instruction.args)):
        words.extend(_NO_OPERAND)
