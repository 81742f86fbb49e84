"""A widget that draws a picture."""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import wrap
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.content import Content
from textual.events import Click
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from contrastcli.show.chart import Chart, Glyphs, draw
from contrastcli.show.pictures import Picture
from contrastcli.show.sketch import chart

_ANSI = (
    "blue green red yellow magenta cyan bright_red bright_blue bright_green bright_magenta bright_yellow bright_cyan"
)
_DARK = "#57a5e2 #8ad4a1 #e0707f #ffc473 #c98bea #52d1d1 #ff9457 #9fa8ff #b9d94a #ff8ac4 #c09a6b #a8b3bd"
_LIGHT = "#00508f #2f7d46 #b3243c #9a6400 #7b2fa8 #00757a #c2500a #3f49c8 #5f7d00 #b0287a #7a5326 #56616b"
"""A theme has four hues at most that differ, and charts need one a line."""
INKS = len(_ANSI.split())  # lines that have a colour of their own; they also differ in their dashes


class ChartView(Widget):
    """Draws the last picture it was given; `waiting` is shown while there is nothing in it."""

    @dataclass
    class Pointed(Message):
        """A place of the x axis was clicked."""

        x: float

    COMPONENT_CLASSES: ClassVar[set[str]] = {"chart--axis"}

    def __init__(self, waiting: str = "", title: str = "", id: str | None = None) -> None:
        super().__init__(id=id)
        self.border_title = title
        self._title, self._waiting = title, waiting
        self.chart = Chart()
        self._rows: list[Strip] | None = None
        self._drawn_at = Size()

    def show(self, picture: Picture, waiting: str | None = None) -> None:
        """Draw this picture from now on, under its title; nothing is done where it is the same."""
        waiting = self._waiting if waiting is None else waiting
        if picture.title != self._title:
            self._title = picture.title
            self.border_title = Content(picture.title)  # plain: a name may hold brackets
        if (new := chart(picture)) != self.chart or waiting != self._waiting:
            self.chart, self._waiting, self._rows = new, waiting, None
            self.refresh()

    def prepare(self) -> None:
        """Draw now what the next frame would draw, so that neither a frame nor a drawing takes long."""
        if self._rows is None or self._drawn_at != self.size:
            self._drawn_at = self.size
            inks = self._inks()
            self._rows = [self._strip(cells, inks) for cells in self._draw(*self.size)]

    def render_line(self, y: int) -> Strip:
        self.prepare()
        assert self._rows is not None
        return self._rows[y] if y < len(self._rows) else Strip.blank(self.size.width, self.rich_style)

    def on_click(self, event: Click) -> None:
        if self.chart.x_range and self._rows and "│" in (last := self._rows[-2].text):
            gutter, (low, high) = last.index("│") + 1, self.chart.x_range
            share = (event.x - self.gutter.left - gutter + 0.5) / max(1, self.size.width - gutter)
            self.post_message(self.Pointed(low + min(max(share, 0.0), 1.0) * (high - low)))

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._rows = None

    def _inks(self) -> list[Style]:
        """The style of the axes, then that of each colour."""
        colours = (self.rich_style + Style(color=colour) for colour in self.palette().split())
        return [self.get_component_rich_style("chart--axis"), *colours]

    def palette(self) -> str:
        """The colours of the inks from 1, with spaces between them."""
        theme = self.app.current_theme
        return _ANSI if theme.ansi else _DARK if theme.dark else _LIGHT

    def _strip(self, cells: Glyphs, inks: list[Style]) -> Strip:
        styles = (inks[(ink - 1) % INKS + 1 if ink > 0 else 0] for _, ink in cells)
        segments = [Segment(text, style) for (text, _), style in zip(cells, styles, strict=True)]
        return Strip(segments).adjust_cell_length(self.size.width, self.rich_style)

    def _draw(self, width: int, height: int) -> list[Glyphs]:
        if width < 8 or height < 3:
            return []
        if not self.chart.empty:
            return draw(self.chart, width, height)
        lines = wrap(self._waiting, width - 2)[:height]
        above: list[Glyphs] = [[] for _ in range((height - len(lines)) // 2)]
        return [*above, *([(line.center(width), 0)] for line in lines)]
