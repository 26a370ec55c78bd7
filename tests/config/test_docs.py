from dataclasses import dataclass, fields

import pytest

from steadyrl.config import field_docs
from steadyrl.configs import A2CConfig, PPOConfig
from steadyrl.configs.run import RunSettings


@dataclass
class Base:
    kept: int = 1
    """From the base."""
    changed: int = 2
    """In the base."""


@dataclass
class Derived(Base):
    changed: int = 3
    """In the derived class,
    over two lines."""
    silent: int = 4


def test_docs_are_the_strings_below_the_fields() -> None:
    assert field_docs(Derived) == {"kept": "From the base.", "changed": "In the derived class, over two lines."}


@pytest.mark.parametrize("cls", [PPOConfig, A2CConfig, RunSettings])
def test_every_field_of_a_public_configuration_is_documented(cls: type) -> None:
    docs = field_docs(cls)
    assert [field.name for field in fields(cls) if not docs.get(field.name, "").endswith(".")] == []


def test_a_derived_doc_wins() -> None:
    assert field_docs(A2CConfig)["normalize_advantage"].endswith("in each update.")
    assert field_docs(PPOConfig)["normalize_advantage"].endswith("in each minibatch.")
