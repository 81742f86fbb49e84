"""Packages whose files are loaded when they are first used."""

from __future__ import annotations

from collections.abc import Callable, Collection
from importlib import import_module
from types import ModuleType


def files_of(package: str, names: Collection[str]) -> Callable[[str], ModuleType]:
    """The `__getattr__` of a package that loads these of its files (PEP 562)."""

    def load(name: str) -> ModuleType:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return import_module(f"{package}.{name}")

    return load
