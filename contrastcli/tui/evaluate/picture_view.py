"""A chart that its picture in pixels covers, in a terminal that shows such."""

from __future__ import annotations

import asyncio

from textual import work
from textual.errors import NoWidget
from textual.geometry import Offset, Region, Size
from textual.strip import Strip

from contrastcli.show import graphics, plots
from contrastcli.show.pictures import Picture
from contrastcli.tui.chart_view import ChartView

_SETTLE = 0.1  # seconds for the size to stay the same
_STRIDE = 8  # characters; nothing that covers a part of a picture is narrower

_Drawing = tuple[Picture, Size, tuple[int, int], tuple[str, str, str]]
"""What is drawn: a picture, its size in characters, the size of one in pixels, colours as `plots.png` takes them."""


class PictureView(ChartView):
    """A chart in braille, and its picture over it while nothing else covers a part of that."""

    _picture: Picture | None = None
    _drawing: _Drawing | None = None
    _data = ""  # of the drawing; empty until it is made
    _place: Offset | None = None  # where the terminal shows it
    _overwritten = False

    def on_mount(self) -> None:
        self._protocol, self._number = None if self.app.no_color else graphics.protocol(), id(self) % 2**31
        if self._protocol:
            self.screen.screen_layout_refresh_signal.subscribe(self, self._paint)
            self.app.screen_change_signal.subscribe(self, self._paint)

    def show(self, picture: Picture, waiting: str | None = None) -> None:
        self._picture = picture
        super().show(picture, waiting)

    def render_lines(self, crop: Region) -> list[Strip]:
        self._overwritten = True
        self.call_later(self._paint)  # after this frame
        return super().render_lines(crop)

    def _paint(self, _: object = None) -> None:
        """Show the picture where it belongs, or take it away where something else is now."""
        if not self._protocol or not self.app._driver:
            return
        if (drawing := self._wanted()) != self._drawing:
            self._drawing, self._data = drawing, ""
            self._draw_pixels(self._protocol, drawing)
        place = self.content_region.offset if self._data and self._is_uncovered() else None
        if place and (self._overwritten or place != self._place):
            self.app._driver.write(f"\x1b[{place.y + 1};{place.x + 1}H{self._data}")
        elif self._place and not place:
            self.app._driver.write(graphics.removal(self._protocol, self._number))
        self._place, self._overwritten = place, False

    def _wanted(self) -> _Drawing | None:
        cell = graphics.cell_size()
        if not cell or not self._picture or self.chart.empty or not self.size or self.app.current_theme.ansi:
            return None
        background, text = self.colors[2:]
        return self._picture, self.size, cell, (background.hex6, text.hex6, self.palette())

    def _is_uncovered(self) -> bool:
        columns = (*range(self.region.x, self.region.right, _STRIDE), self.region.right - 1)
        rows = range(self.region.y, self.region.bottom)
        try:
            points = (self.screen.get_widget_at(x, y)[0] for y in rows for x in columns)
            return self.screen.is_active and all(widget is self for widget in points)
        except NoWidget:  # it is out of sight
            return False

    @work(group="picture", exclusive=True, exit_on_error=False)  # braille will do
    async def _draw_pixels(self, protocol: graphics.Protocol, drawing: _Drawing | None) -> None:
        if drawing:
            await asyncio.sleep(_SETTLE)
            png = await asyncio.to_thread(plots.png, *drawing)
            self._data = await asyncio.to_thread(graphics.encoded, png, protocol, self._number)
            self._paint()
