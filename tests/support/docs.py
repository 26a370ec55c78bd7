"""The documentation as data: pages, blocks, links, anchors, and the names that are said in them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])

_FENCE = re.compile(r"^```(\w*)(.*)$")
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced block; `line` is that of its first line of text, `title` names the file it stands for."""

    language: str
    title: str
    line: int
    text: str


def page_id(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path, language: str | None = None) -> list[Block]:
    """The fenced blocks of a page, in order."""
    return [block for block in _blocks(page.read_text(encoding="utf-8")) if language in (None, block.language)]


def prose(page: Path) -> str:
    """The page without its fenced blocks."""
    lines, inside = [], False
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("```"):
            inside = not inside
        elif not inside:
            lines.append(line)
    return "\n".join(lines)


def commands(page: Path) -> list[list[str]]:
    """The words after `steadyrl` of every command in the console blocks, comments left out."""
    found = []
    for block in blocks(page, "console"):
        for line in block.text.splitlines():
            match = re.match(r"\$ (?:\.venv/bin/)?steadyrl (.*)$", line)
            if match:
                found.append(shlex.split(match[1], comments=True))
    return found


def links(page: Path) -> list[str]:
    """Targets of all links that stay in the repository."""
    return [target for target in _LINK.findall(prose(page)) if "://" not in target]


def anchors(page: Path) -> set[str]:
    """The anchors that a git host gives the headings of a page."""
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in _HEADING.findall(prose(page))}


def _blocks(text: str) -> Iterator[Block]:
    language, title, start, inside = "", "", 0, False
    lines: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        fence = _FENCE.match(line)
        if fence and not inside:
            inside, language, title, start = True, fence[1], fence[2].strip().removeprefix("title="), number + 1
            lines = []
        elif fence:
            inside = False
            yield Block(language, title, start, "\n".join(lines) + "\n")
        elif inside:
            lines.append(line)
