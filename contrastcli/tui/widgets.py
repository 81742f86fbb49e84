"""What every screen is made of: plain text, rows of a form, keys that the footer leaves out."""

import re
import time
from collections.abc import Iterable, Sequence
from typing import ClassVar, TypeVar

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.table import Table
from rich.text import Text
from textual.binding import ActiveBinding, Binding, BindingType
from textual.color import Color
from textual.containers import Horizontal
from textual.content import Content
from textual.events import Paste
from textual.filter import LineFilter
from textual.reactive import reactive
from textual.screen import Screen
from textual.style import Style
from textual.visual import VisualType
from textual.widget import Widget
from textual.widgets import DataTable, Input, Label, Static

from contrastcli.boundary import CONTROLS, printable
from contrastcli.runs.events import Progress
from contrastcli.runs.text import duration
from contrastcli.show.format import Fields

T = TypeVar("T", bound=str)
_CONTROLS = re.compile("[\0-\x1f\x7f-\x9f\u2028\u2029]+")
_LEAST_SECONDS = 2.0  # of work to guess the rest


class PlainText(Static):
    """A text that may hold brackets, since data and paths do."""

    def __init__(self, text: str = "", *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(text, markup=False, id=id, classes=classes)

    def update(self, content: VisualType = "", *, layout: bool = True) -> None:
        if content != self.content:
            super().update(content, layout=layout)


class WithoutControls(LineFilter):
    """Leaves out of every line the characters that control a terminal: they take no cells, so that all else stays."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [s if s.text.isprintable() else s._replace(text=CONTROLS.sub("", s.text)) for s in segments]


def styled(*parts: str | tuple[str, str]) -> Content:
    """Texts, each alone or with its style. Textual strips some control characters and misplaces the styles then.

    It also shows $text-muted in full where a text has several styles: $foreground-muted is dim there.
    """
    return Content.assemble(*(printable(p) if isinstance(p, str) else (printable(p[0]), p[1]) for p in parts))


def fields_table(fields: Fields) -> Table:
    """Names, and next to each its text, which wraps in its own column."""
    table = Table.grid()
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in fields:
        # Padding of the cells would take as long as all else.
        table.add_row(Text(f"{name}  "), Text(printable(" ".join(text.split()))))
    return table


class Links(Static):
    """A line of texts to click, in their own colours."""

    auto_links = reactive(False)


class KeyBar(Links):
    """The keys of the screen, to be clicked too: one widget, where Textual's Footer makes one a key at every change."""

    keys: Sequence[ActiveBinding] = ()

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self._show_keys)

    def _show_keys(self, screen: Screen[object]) -> None:
        shown = [active for active in screen.active_bindings.values() if active.binding.show]
        first_keys = {active.binding.action: active for active in reversed(shown)}
        self.keys = [*first_keys.values()][::-1]
        self.update(Content("").join(map(self._text, self.keys)), layout=False)

    def _text(self, active: ActiveBinding) -> Content:
        binding = active.binding
        name = (f" {self.app.get_key_display(binding)} ", "bold $footer-key-foreground")
        text = Content.assemble(name, f"{binding.description} ")
        click = Style.from_meta({"@click": f"app.simulate_key('{binding.key}')"})
        return text.stylize(click).stylize("" if active.enabled else "dim")


class LineInput(Input):
    """A line to type, into which all of several pasted lines go, with a space for each control character."""

    def _on_paste(self, event: Paste) -> None:
        event.stop()
        # Textual's own takes the first line alone.
        event.prevent_default()
        self.replace(" ".join(filter(None, map(str.strip, _CONTROLS.split(event.text)))), *self.selection)


class FormRow(Horizontal):
    """A name and one or several fields in a row."""

    def __init__(self, name: str, *fields: Widget) -> None:
        super().__init__(Label(name, classes="row-name"), *fields)


def cut(text: str, cells: int, *, at_start: bool = False) -> str:
    """A text without its end if it is wider than so many cells; or without its start, in which paths are alike."""
    if cell_len(text) <= cells:
        return text
    return f"…{set_cell_size(text[::-1], cells - 1)[::-1]}" if at_start else f"{set_cell_size(text, cells - 1)}…"


def hidden_key(key: str, action: str, name: str, tooltip: str = "", display: str | None = None) -> Binding:
    """A key that help and the palette list, and the footer does not; without a tooltip, help leaves it out too."""
    return Binding(key, action, name, show=False, key_display=display, tooltip=tooltip)


class RowTable(DataTable[Text]):
    """A table with a cursor of one row, which Home and End take to the first one and the last."""

    BINDINGS: ClassVar[list[BindingType]] = [
        hidden_key("home", "scroll_top", ""),
        hidden_key("end", "scroll_bottom", ""),
    ]

    def __init__(self, id: str) -> None:
        super().__init__(id=id, cursor_type="row")


def progress_bar(share: float, width: int = 24) -> str:
    """A bar of text of that many characters, filled to a share in 0..1."""
    full = round(width * min(max(share, 0.0), 1.0))
    return "━" * full + "╌" * (width - full)


class Bars:
    """The last four kinds of work that reported progress."""

    def __init__(self) -> None:
        self._works: dict[str, tuple[Progress, Progress, float]] = {}
        """By its name the last and the first report of a work, and the time of the first."""

    def update(self, event: Progress) -> str:
        """Update the bar of a work; returns all bars as text."""
        before, first, began = self._works.pop(event.what, (event, event, time.monotonic()))
        if event.done < before.done or before.total != event.total:  # begun again
            first, began = event, time.monotonic()
        self._works[event.what] = event, first, began
        return "\n".join(_bar(*work) for work in list(self._works.values())[-4:])


def _bar(event: Progress, first: Progress, began: float) -> str:
    done, seconds, rest = event.done - first.done, time.monotonic() - began, event.total - event.done
    is_known = done > 0 and rest > 0 and seconds > _LEAST_SECONDS
    left = f"  {duration(seconds * rest / done)} left" if is_known else ""
    return f"{event.what}  {event.done:,} of {event.total:,}{left}\n{progress_bar(event.done / max(1, event.total))}"


def has_words(text: str, typed: str) -> bool:
    """Whether a text has each of the typed words, in any order and case."""
    return all(word in text.lower() for word in typed.lower().split())


def after(name: T, names: Iterable[T]) -> T:
    """The next one of some names, the first after the last and after one that is not known."""
    ring = list(names)
    return ring[(ring.index(name) + 1) % len(ring) if name in ring else 0]


def known(name: T, names: Iterable[T]) -> T:
    """A name that was remembered, or the first of some names where it is none of them: another version knows others."""
    ring = list(names)
    return name if name in ring else ring[0]
