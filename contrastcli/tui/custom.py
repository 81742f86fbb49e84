"""The user's own themes and keys: app.toml, next to the file of the user's settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
from textual.app import App
from textual.binding import Binding, BindingType
from textual.color import ColorParseError
from textual.dom import DOMNode
from textual.keys import _normalize_key_list
from textual.theme import Theme

from contrastcli.errors import ContrastError, nearest
from contrastcli.files import user_file
from contrastcli.settings.config import read_toml

Keys = Mapping[str, str]
"""Names of commands, SCREEN.NAME, each with its keys, with commas between them."""


class Custom(msgspec.Struct, forbid_unknown_fields=True):
    """The file: the fields of each theme by its name, and keys."""

    themes: dict[str, dict[str, Any]] = {}
    keys: dict[str, str] = {}


def named(scope: str, bindings: Iterable[BindingType]) -> list[BindingType]:
    """Bindings with ids, by which a user's key map names them: those that have none get SCOPE.DESCRIPTION, once."""
    made, ids = [], {""}
    for one in bindings:
        if isinstance(one, Binding) and not one.id:
            id = f"{scope}.{one.description.replace(' ', '-')}" if one.description else ""
            one = one if id in ids else replace(one, id=id)
            ids.add(id)
        made.append(one)
    return made


def commands(*nodes: DOMNode) -> Keys:
    """The keys of screens and widgets as they are without a key map."""
    keys: dict[str, list[str]] = {}
    for key, binding in (pair for node in nodes for pair in node._bindings):
        keys.setdefault(binding.id or "", []).append(key)
    return {name: ",".join(those) for name, those in keys.items() if name}


def customise(app: App[None], screens: Callable[[], Sequence[Keys]]) -> Iterator[str]:
    """Add the user's themes to an app and set its keys; yields what is wrong, each with a remedy.

    `screens` returns the commands of each screen with their usual keys.
    """
    path = user_file().with_name("app.toml")
    if not path.is_file():
        return
    try:
        custom = msgspec.convert(read_toml(path), Custom)
    except (ContrastError, msgspec.ValidationError) as error:
        yield f"{path} is not used: {error}\nsee contrast help app"
        return
    for name, table in custom.themes.items():
        try:
            app.register_theme(_theme(name, table))
        except (ColorParseError, msgspec.ValidationError) as error:
            yield f"the theme {name} of {path}: {error}\nwrite colours as #1f77b4 or by a name of CSS"
    if custom.keys:
        keys, problems = checked(custom.keys, screens())
        app.set_keymap(keys)
        yield from (f"[keys] of {path}: {problem}" for problem in problems)


def _theme(name: str, table: Mapping[str, Any]) -> Theme:
    """A theme of Textual. Raises ColorParseError, and msgspec.ValidationError for a wrong field."""
    if unknown := [field for field in table if field not in Theme.__annotations__]:
        raise msgspec.ValidationError(f"there is no {unknown[0]}; {nearest(unknown[0], Theme.__annotations__)}")
    theme = msgspec.convert({**table, "name": name}, Theme)
    theme.to_color_system().generate()
    return theme


def checked(keys: Keys, screens: Sequence[Keys]) -> tuple[dict[str, str], list[str]]:
    """The keys that can be used, and what is wrong with the others: an unknown name, or a key of another command."""
    known = {name: "" for screen in screens for name in screen}
    problem = next(((name, f"there is no {name}\n{nearest(name, known)}") for name in keys if name not in known), None)
    problem = problem or next(_conflicts(keys, screens), None)
    if problem is None:
        return dict(keys), []
    others, problems = checked({name: text for name, text in keys.items() if name != problem[0]}, screens)
    return others, [problem[1], *problems]


def _conflicts(keys: Keys, screens: Sequence[Keys]) -> Iterator[tuple[str, str]]:
    """The names whose key another command of a screen has, each with the problem in words."""
    for screen in screens:
        now = {name: set(_normalize_key_list(keys.get(name, usual)).split(",")) for name, usual in screen.items()}
        for name in (name for name in keys if name in screen):
            for other in (other for other in now if other != name and now[other] & now[name]):
                yield name, f"{name} cannot be {keys[name]}, the key of {other}\ngive one of them another key"
