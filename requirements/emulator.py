"""Runs a static aarch64 Linux program in an emulator and passes on what it prints (`make test-neon`).

    python requirements/emulator.py PROGRAM

Only the system calls that a C++ program with one thread makes before, while and after it prints are known.
"""

import struct
import sys
from pathlib import Path

from elftools.elf.elffile import ELFFile
from unicorn import UC_ARCH_ARM64, UC_HOOK_INTR, UC_MODE_ARM, UC_PROT_ALL, Uc, UcError
from unicorn import arm64_const as arm

PAGE = 0x1000
STACK, STACK_SIZE = 0x7FFF_0000_0000, 8 << 20
HEAP, HEAP_SIZE = 0x1000_0000_0000, 64 << 20
MAPS = 0x2000_0000_0000
ENOSYS = -38


class Machine:
    """One emulated process.

    Args:
        program: A statically linked ELF file for aarch64.
    """

    def __init__(self, program: Path) -> None:
        self.status: int | None = None
        self._cpu = Uc(UC_ARCH_ARM64, UC_MODE_ARM)
        self._cpu.reg_write(arm.UC_ARM64_REG_CPACR_EL1, 3 << 20)  # floating point and vectors are allowed
        self._heap, self._maps = HEAP, MAPS
        self._cpu.mem_map(HEAP, HEAP_SIZE, UC_PROT_ALL)
        self._load(program)
        self._cpu.hook_add(UC_HOOK_INTR, self._interrupted)

    def _load(self, program: Path) -> None:
        with program.open("rb") as file:
            elf = ELFFile(file)
            for segment in elf.iter_segments("PT_LOAD"):
                start = segment["p_vaddr"] & -PAGE
                end = -(-(segment["p_vaddr"] + segment["p_memsz"]) // PAGE) * PAGE
                self._cpu.mem_map(start, end - start, UC_PROT_ALL)
                self._cpu.mem_write(segment["p_vaddr"], segment.data())
            self._entry = elf["e_entry"]
            headers = next(s["p_vaddr"] for s in elf.iter_segments("PT_LOAD") if s["p_offset"] == 0) + elf["e_phoff"]
            auxiliary = {3: headers, 4: elf["e_phentsize"], 5: elf["e_phnum"], 6: PAGE, 9: self._entry, 25: STACK}
        self._cpu.mem_map(STACK - STACK_SIZE, STACK_SIZE + PAGE, UC_PROT_ALL)
        pairs = [number for pair in {**auxiliary, 0: 0}.items() for number in pair]
        words = [1, STACK + 64, 0, 0, *pairs]  # one argument, no environment
        self._cpu.mem_write(STACK + 64, b"program\0")
        stack = (STACK - 8 * len(words) - 4096) & -16
        self._cpu.mem_write(stack, struct.pack(f"<{len(words)}Q", *words))
        self._cpu.reg_write(arm.UC_ARM64_REG_SP, stack)

    def run(self) -> int:
        """Until it ends; its exit status."""
        try:
            self._cpu.emu_start(self._entry, 0)
        except UcError as error:
            at = self._cpu.reg_read(arm.UC_ARM64_REG_PC)
            raise SystemExit(f"the program went wrong at {at:#x}: {error}") from error
        return 1 if self.status is None else self.status

    def _interrupted(self, cpu: Uc, number: int, _: object) -> None:
        if number != 2:  # not a system call
            raise SystemExit(f"exception {number} at {cpu.reg_read(arm.UC_ARM64_REG_PC):#x}")
        call = cpu.reg_read(arm.UC_ARM64_REG_X8)
        x0, x1, x2 = (
            cpu.reg_read(register) for register in (arm.UC_ARM64_REG_X0, arm.UC_ARM64_REG_X1, arm.UC_ARM64_REG_X2)
        )
        result = ENOSYS
        if call in (93, 94):  # exit
            self.status = x0
            cpu.emu_stop()
        elif call == 64:  # write
            result = self._print(x1, x2)
        elif call == 66:  # writev
            parts = struct.unpack(f"<{2 * x2}Q", cpu.mem_read(x1, 16 * x2))
            result = sum(self._print(*part) for part in zip(parts[::2], parts[1::2], strict=True))
        elif call == 214:  # brk
            if HEAP < x0 < HEAP + HEAP_SIZE:
                self._heap = x0
            result = self._heap
        elif call == 222:  # mmap
            size = -(-x1 // PAGE) * PAGE
            result, self._maps = self._maps, self._maps + size
            cpu.mem_map(result, size, UC_PROT_ALL)
        elif call in (29, 96, 135, 172, 178, 215, 226, 233):  # ioctl, ids, signals, unmapping and advice on memory
            result = 0
        cpu.reg_write(arm.UC_ARM64_REG_X0, result & (1 << 64) - 1)

    def _print(self, address: int, size: int) -> int:
        sys.stdout.buffer.write(self._cpu.mem_read(address, size))
        return size


if __name__ == "__main__":
    sys.exit(Machine(Path(sys.argv[1])).run())
