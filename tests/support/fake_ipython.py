"""Stands for IPython, which the development environment need not have."""

from __future__ import annotations

import importlib

import pytest


class FakeIPython:
    """Stands for IPython.display: remembers what a notebook would show."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.updates: list[str] = []

    def HTML(self, html: str) -> str:  # noqa: N802
        return html

    def display(self, html: str, *, display_id: bool) -> FakeIPython:
        assert display_id
        self.shown.append(html)
        return self

    def update(self, html: str) -> None:
        self.updates.append(html)


def fake_ipython(monkeypatch: pytest.MonkeyPatch) -> FakeIPython:
    """`IPython.display` is the returned object until the test ends."""
    fake = FakeIPython()
    original = importlib.import_module
    monkeypatch.setattr(importlib, "import_module", lambda name: fake if name == "IPython.display" else original(name))
    return fake
