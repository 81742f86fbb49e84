"""The screens and their keys, to read outside the app."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from textual.binding import Binding, BindingType
from textual.keys import format_key

from contrastcli.tui.app import ContrastApp
from contrastcli.tui.evaluate.screen import EvaluateScreen
from contrastcli.tui.live.screen import LiveScreen
from contrastcli.tui.query.screen import QueryScreen
from contrastcli.tui.runs.screen import RunsScreen
from contrastcli.tui.screen import SCREENS, ModeScreen
from contrastcli.tui.setup.screen import SetupScreen

Rows = Sequence[tuple[str, str]]


def screens() -> Rows:
    """Every screen with what it shows, each followed by its keys; those that every screen has come last."""
    classes = (SetupScreen, LiveScreen, RunsScreen, EvaluateScreen, QueryScreen)
    rows = [row for screen in classes for row in _screen(screen)]
    return [*rows, ("All screens", ""), *_keys([*ModeScreen.BINDINGS, *ContrastApp.BINDINGS])]


def _screen(screen: type[ModeScreen]) -> Rows:
    number = list(SCREENS).index(screen.mode) + 1
    bases = [base for base in screen.__mro__ if issubclass(base, ModeScreen) and base is not ModeScreen]
    keys = [binding for base in bases for binding in vars(base).get("BINDINGS", ())]
    return [(f"{number} {SCREENS[screen.mode]}", " ".join(screen.help_text.split())), *_keys(keys)]


def _keys(bindings: Iterable[BindingType]) -> Rows:
    """What each key does; keys that do the same are listed together."""
    keys: dict[str, list[str]] = {}
    for binding in bindings:
        if isinstance(binding, Binding):
            names = binding.key_display or " ".join(map(format_key, binding.key.split(",")))
            keys.setdefault(binding.tooltip or binding.description, []).append(names)
    return [(f"  {' '.join(dict.fromkeys(names))}", does) for does, names in keys.items()]
