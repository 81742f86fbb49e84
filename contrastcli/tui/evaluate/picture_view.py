"""A chart that its picture in pixels covers, in a terminal that shows such."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple, cast

from textual import work
from textual.containers import VerticalScroll
from textual.errors import NoWidget
from textual.geometry import Region, Size
from textual.strip import Strip

from contrastcli.show import graphics, plots
from contrastcli.show.pictures import Picture
from contrastcli.tui.chart_view import ChartView

if TYPE_CHECKING:
    from contrastcli.tui.app import ContrastApp

_SETTLE = 0.1  # seconds for the size to stay the same
_LETTERS = 6.5  # dots an inch, a pixel of a character's height: letters as large as those around
_STRIDE = 8  # characters; nothing that covers a part of the picture is narrower


class _Drawing(NamedTuple):
    """What a picture in pixels is made from."""

    picture: Picture
    size: Size  # in characters
    cell: tuple[int, int]  # of a character, in pixels
    colours: tuple[str, str, str]  # background, text, those of the series


class PictureView(ChartView):
    """A chart in braille, and its picture over it wherever nothing else covers a part of that."""

    _picture: Picture | None = None
    _drawing: _Drawing | None = None
    _data = ""  # of the drawing; empty until it is made
    _painted = False

    def on_mount(self) -> None:
        for parent in self.ancestors:
            if isinstance(parent, VerticalScroll):
                self.watch(parent, "scroll_y", self._paint_later, init=False)

    def show(self, picture: Picture, waiting: str | None = None) -> None:
        self._picture = picture
        super().show(picture, waiting)

    def render_lines(self, crop: Region) -> list[Strip]:
        self.call_later(self.paint)  # after this frame, which writes over a part of it
        return super().render_lines(crop)

    def on_hide(self) -> None:
        self.paint()

    def _paint_later(self) -> None:
        self.call_after_refresh(self.paint)

    def paint(self) -> None:
        """Paint the picture in pixels, or take it away where something else is now."""
        app = cast("ContrastApp", self.app)
        if app.graphics is None or app._driver is None:
            return
        if (wanted := self._wanted()) != self._drawing:
            self._drawing, self._data = wanted, ""
            self._draw_pixels(app.graphics, wanted)
        if self._data and self._is_uncovered():
            x, y = self.content_region.offset
            app._driver.write(f"\x1b7\x1b[{y + 1};{x + 1}H{self._data}\x1b8")
            self._painted = True
        elif self._painted:
            app._driver.write(graphics.removal(app.graphics, id(self)))
            self._painted = False

    def _wanted(self) -> _Drawing | None:
        cell = graphics.cell_size()
        if not cell or not self._picture or self.chart.empty or not self.size or self.app.current_theme.ansi:
            return None
        background, text = self.colors[2:]
        return _Drawing(self._picture, self.size, cell, (background.hex6, text.hex6, self.palette()))

    def _is_uncovered(self) -> bool:
        if not self.screen.is_active:
            return False
        place = self.region
        columns = (*range(place.x, place.right, _STRIDE), place.right - 1)
        try:
            points = ((x, y) for y in range(place.y, place.bottom) for x in columns)
            return all(self.screen.get_widget_at(x, y)[0] is self for x, y in points)
        except NoWidget:  # it is out of sight
            return False

    @work(group="picture", exclusive=True, exit_on_error=False)  # braille will do
    async def _draw_pixels(self, protocol: graphics.Protocol, drawing: _Drawing | None) -> None:
        if drawing:
            await asyncio.sleep(_SETTLE)
            self._data = await asyncio.to_thread(_data, protocol, drawing, id(self))
            self.paint()


def _data(protocol: graphics.Protocol, drawing: _Drawing, number: int) -> str:
    (columns, rows), (width, height) = drawing.size, drawing.cell
    background, text, inks = drawing.colours
    style = plots.theme(background, text, inks.split())
    png = plots.png(drawing.picture, _LETTERS * height, (columns * width, rows * height), style)
    return graphics.encoded(png, protocol, number)
