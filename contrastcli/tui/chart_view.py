"""A widget that draws a picture."""

from dataclasses import dataclass
from textwrap import wrap
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.content import Content
from textual.events import Click
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from contrastcli.boundary import has_braille
from contrastcli.show.canvas import FULL, Face, Glyph, Glyphs, Ink
from contrastcli.show.chart import Drawing, draw
from contrastcli.show.pictures import HARDEST, NEGATIVE, POSITIVE, Picture

_ANSI = (
    "blue green red yellow magenta cyan bright_red bright_blue bright_green bright_magenta bright_yellow bright_cyan"
)
_DARK = "#57a5e2 #8ad4a1 #e0707f #ffc473 #c98bea #52d1d1 #ff9457 #9fa8ff #b9d94a #ff8ac4 #c09a6b #a8b3bd"
_LIGHT = "#00508f #2f7d46 #b3243c #9a6400 #7b2fa8 #00757a #c2500a #3f49c8 #5f7d00 #b0287a #7a5326 #56616b"
"""A theme has four hues at most that differ, and charts need one a line."""

INKS = len(_ANSI.split())
"""Lines that have a colour of their own; they also differ in their dashes."""


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
        self._waiting = waiting
        self.picture = Picture("", title, "lines", "", "", ())
        self._drawing: Drawing | None = None
        self._strips: list[Strip] = []
        self._styles: dict[tuple[Ink, Ink], Style] = {}
        self._drawn_at = Size()

    def show(self, picture: Picture, waiting: str | None = None) -> None:
        """Draw this picture from now on, under its title; nothing is done where it is the same."""
        waiting = self._waiting if waiting is None else waiting
        if picture.title != self.picture.title:
            self.border_title = Content(picture.title)  # plain: a name may hold brackets
        if picture.note != self.picture.note:
            self.border_subtitle = Content(picture.note)
        if picture != self.picture or waiting != self._waiting:
            self.picture, self._waiting, self._drawing = picture, waiting, None
            self.refresh()

    def prepare(self) -> None:
        """Draw now what the next frame would draw, so that neither a frame nor a drawing takes long."""
        if self._drawing is None or self._drawn_at != self.size:
            self._drawn_at = self.size
            self._drawing = self._draw(*self.size)
            self._strips = [self._strip(row) for row in self._drawing.rows]

    def render_line(self, y: int) -> Strip:
        self.prepare()
        return self._strips[y] if y < len(self._strips) else Strip.blank(self.size.width, self.rich_style)

    def on_click(self, event: Click) -> None:
        if self._drawing and self.picture.kind == "lines" and not self.picture.empty:
            gutter, (low, high) = self._drawing.gutter, self._drawing.x
            share = (event.x - self.gutter.left - gutter + 0.5) / max(1, self.size.width - gutter)
            self.post_message(self.Pointed(low + min(max(share, 0.0), 1.0) * (high - low)))

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._drawing = None
        self._styles.clear()

    def _strip(self, row: Glyphs) -> Strip:
        segments = [Segment(glyph.text, self._style(glyph.ink, glyph.ground)) for glyph in row]
        return Strip(segments).adjust_cell_length(self.size.width, self.rich_style)

    def _style(self, ink: Ink, ground: Ink) -> Style:
        if (ink, ground) not in self._styles:
            base = (
                self.rich_style if isinstance(ink, tuple) or ink > 0 else self.get_component_rich_style("chart--axis")
            )
            self._styles[ink, ground] = base + Style(color=self._colour(ink), bgcolor=self._colour(ground))
        return self._styles[ink, ground]

    def _colour(self, ink: Ink) -> str | None:
        """The colour of a line by its number, or of an area by what it has of positives and negatives."""
        theme = self.app.current_theme
        names = (_ANSI if theme.ansi else _DARK if theme.dark else _LIGHT).split()
        if isinstance(ink, int):
            return names[(ink - 1) % INKS] if ink > 0 else None
        first = POSITIVE if ink[0] > ink[1] else NEGATIVE
        if theme.ansi:
            return names[(HARDEST if all(ink) else first) - 1]
        mixed = Color.parse(names[first - 1]).blend(Color.parse(names[HARDEST - 1]), min(ink) / max(ink))
        return self.background_colors[1].blend(mixed, max(ink) / FULL).hex6

    def _draw(self, width: int, height: int) -> Drawing:
        if width < 8 or height < 3:
            return Drawing([], 0, (0.0, 1.0))
        if not self.picture.empty:
            return draw(self.picture, width, height, Face(colours=not self.app.no_color, braille=has_braille()))
        lines = wrap(self._waiting, width - 2)[:height]
        above: list[Glyphs] = [[] for _ in range((height - len(lines)) // 2)]
        return Drawing([*above, *([Glyph(line.center(width))] for line in lines)], 0, (0.0, 1.0))
