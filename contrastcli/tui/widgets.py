"""Widgets that several screens use: a chart, and the bar of screens at the top."""

from __future__ import annotations

from textwrap import wrap
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.geometry import Size
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Static

from contrastcli.show.chart import Cells, Chart, draw

INKS = 6
"""Lines that have a colour of their own; they also differ in their dashes."""
POSITIVE, NEGATIVE, HARDEST = 2, 3, 4
"""Inks of the three angles, the same on every screen."""

SCREENS = {"setup": "Setup", "live": "Live", "runs": "Runs", "evaluate": "Evaluate", "query": "Query"}
"""The screens on keys 1 to 5, in that order."""


class ChartView(Widget):
    """Draws the last chart it was shown; `waiting` is what stands in its place until there is one."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"chart--axis", *(f"chart--ink-{n + 1}" for n in range(INKS))}

    def __init__(self, title: str = "", waiting: str = "", id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.border_title = title
        self._waiting = waiting
        self._chart = Chart()
        self._rows: list[Strip] | None = None
        self._drawn_at = Size()

    @property
    def chart(self) -> Chart:
        """What is shown."""
        return self._chart

    def show(self, chart: Chart, waiting: str | None = None) -> None:
        """Draw this instead; nothing is done where it is the same."""
        waiting = self._waiting if waiting is None else waiting
        if (chart, waiting) != (self._chart, self._waiting):
            self._chart, self._waiting, self._rows = chart, waiting, None
            self.refresh()

    def prepare(self) -> None:
        """Draw now what the next frame would draw, so that neither a frame nor a drawing takes long."""
        if self._rows is None or self._drawn_at != self.size:
            self._drawn_at = self.size
            self._rows = [self._strip(cells) for cells in self._drawn(*self.size)]

    def render_line(self, y: int) -> Strip:
        self.prepare()
        assert self._rows is not None
        return self._rows[y] if y < len(self._rows) else Strip.blank(self.size.width, self.rich_style)

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._rows = None

    def _strip(self, cells: Cells) -> Strip:
        segments = [Segment(text, self._style(ink)) for text, ink in cells]
        return Strip(segments).adjust_cell_length(self.size.width, self.rich_style)

    def _style(self, ink: int) -> Style:
        name = f"chart--ink-{(ink - 1) % INKS + 1}" if ink else "chart--axis"
        return self.get_component_rich_style(name)

    def _drawn(self, width: int, height: int) -> list[Cells]:
        if width < 8 or height < 3:
            return []
        return _centred(self._waiting, width, height) if self._chart.empty else draw(self._chart, width, height)


def _centred(text: str, width: int, height: int) -> list[Cells]:
    """Words in the middle of a panel that has nothing to show yet."""
    lines = wrap(text, max(1, width - 2))[:height]
    above: list[Cells] = [[] for _ in range((height - len(lines)) // 2)]
    return [*above, *([(line.center(width), 0)] for line in lines)]


class ModeBar(Horizontal):
    """The five screens by their keys, clickable, and how the watched run is."""

    def __init__(self, current: str) -> None:
        super().__init__()
        self._current = current

    def compose(self) -> ComposeResult:
        for number, (mode, title) in enumerate(SCREENS.items(), 1):
            chosen = "chosen" if mode == self._current else ""
            yield Static(f"[@click=app.mode('{mode}')]{number} {title}[/]", classes=f"mode {chosen}")
        yield Static("", id="watched", markup=False)

    def on_mount(self) -> None:
        self.watch(self.app, "watched", self._say)

    def _say(self, words: str) -> None:
        self.query_one("#watched", Static).update(words, layout=False)
