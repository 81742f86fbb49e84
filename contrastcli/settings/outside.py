"""What other packages bring under a group of entry points, such as objectives."""

import os
import re
from collections.abc import Callable
from typing import Protocol, TypeVar

from contrastcli.boundary import PROGRESS, narrate
from contrastcli.errors import UsageError, error_text


class Named(Protocol):
    """What an entry point names has a name of its own."""

    @property
    def name(self) -> str: ...


T = TypeVar("T", bound=Named)


def package_of(group: str, name: str) -> dict[str, str]:
    """The version of the package that brings a `module:object` under a group, by its name; empty for contrast's own."""
    from importlib.metadata import entry_points

    package = re.split("[.:]", name)[0]
    if package == "contrastcli":
        return {}
    entries = [entry for entry in entry_points(group=group) if re.split("[.:]", entry.value)[0] == package]
    return {entry.dist.name: entry.dist.version for entry in entries if entry.dist}


def load_outside(group: str, check: Callable[[object], T]) -> tuple[tuple[T, ...], dict[str, UsageError]]:
    """What the entry points of a group name, as `check` returns it, and the errors of those that it or Python refuses.

    Each error is a note on stderr too: a broken package stops nothing that does not need it.
    """
    # Imported here: it is a tenth of what `contrast --help` takes.
    from importlib.metadata import entry_points

    loaded, broken = dict[str, T](), dict[str, UsageError]()
    for entry in sorted(entry_points(group=group), key=lambda entry: entry.value):
        try:
            one = check(entry.load())
            if one.name in loaded:
                raise ValueError(f"another package has a '{one.name}' too")
            loaded[one.name] = one
        except (Exception, SystemExit) as error:
            what = f"'{entry.name}' of {group} ({entry.value}) cannot be loaded: {error_text(error)}"
            package = entry.dist.name if entry.dist else entry.value.partition(".")[0]
            broken[entry.name] = UsageError(what, f"fix its package, or: pip uninstall {package}")
            if os.environ.get(PROGRESS) != "json":
                narrate(f"note: {what}")
    return tuple(loaded.values()), broken
