"""A line of a form: a name, and the fields that it names."""

from __future__ import annotations

from textual.containers import Horizontal
from textual.widget import Widget
from textual.widgets import Label


class FormRow(Horizontal):
    """A name and one or several fields in a row."""

    def __init__(self, name: str, *fields: Widget) -> None:
        super().__init__(Label(name, classes="row-name"), *fields)
