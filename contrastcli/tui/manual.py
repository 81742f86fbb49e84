"""The screens and their keys, to read outside the app."""

from collections.abc import Iterable

from textual.binding import Binding, BindingType
from textual.keys import format_key

from contrastcli.show.format import Fields
from contrastcli.tui.app import ContrastApp, make_screen
from contrastcli.tui.screen import SCREENS, ModeScreen


def screens() -> Fields:
    """Every screen with what it shows, each followed by its keys; those that every screen has come last."""
    rows: list[tuple[str, str]] = []
    for number, (mode, title) in enumerate(SCREENS.items(), 1):
        screen = make_screen(mode)
        bases = [base for base in type(screen).__mro__ if issubclass(base, ModeScreen) and base is not ModeScreen]
        rows.append((f"{number} {title}", " ".join(screen.help_text.split())))
        rows += _keys(key for base in bases for key in vars(base).get("BINDINGS", ()))
    return [*rows, ("All screens", ""), *_keys([*ModeScreen.BINDINGS, *ContrastApp.BINDINGS])]


def _keys(bindings: Iterable[BindingType]) -> Fields:
    """What each key does; keys that do the same are listed together."""
    keys: dict[str, list[str]] = {}
    for binding in bindings:
        if isinstance(binding, Binding):
            names = binding.key_display or " ".join(map(format_key, binding.key.split(",")))
            keys.setdefault(binding.tooltip or binding.description, []).append(names)
    return [(f"  {' '.join(dict.fromkeys(names))}", does) for does, names in keys.items()]
