"""The user's own themes and keys: app.toml, next to the file of the user's settings."""

from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import fields, replace
from typing import Any

import msgspec
from textual.app import App
from textual.binding import Binding, BindingType
from textual.color import ColorParseError
from textual.theme import Theme

from contrastcli.errors import ContrastError, nearest
from contrastcli.files import user_file
from contrastcli.settings.config import read_toml


class Custom(msgspec.Struct, forbid_unknown_fields=True):
    """The file: the fields of each theme by its name, and the keys of commands, SCREEN.NAME, with commas between."""

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


def customise(app: App[None], command_names: Callable[[], Set[str]]) -> Iterator[str]:
    """Add the user's themes to an app and set its keys; yields what is wrong, each with a remedy.

    `command_names` returns the ids of all bindings, which takes the code of every screen.
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
        except (ColorParseError, ValueError, OverflowError) as error:
            yield f"the theme {name} of {path}: {error}\nwrite colours as #1f77b4 or by a name of CSS"
    app.set_keymap(custom.keys)
    known = command_names() if custom.keys else set()
    for name in custom.keys:
        if name not in known:
            yield f"[keys] of {path}: there is no {name}\n{nearest(name, known)}"


def _theme(name: str, table: dict[str, Any]) -> Theme:
    """A theme of Textual. Raises ColorParseError, and ValueError or OverflowError for another wrong field."""
    known = [field.name for field in fields(Theme) if field.name != "variables"]
    for field in table:
        if field not in known:
            raise msgspec.ValidationError(f"there is no {field}; {nearest(field, known)}")
    theme = msgspec.convert({**table, "name": name}, Theme)
    theme.to_color_system().generate()
    return theme
