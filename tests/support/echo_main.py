"""A module with a `main`, to be run as a program of its own."""

from __future__ import annotations


def main(*arguments: str) -> None:
    """Say what it was given."""
    print(arguments)
