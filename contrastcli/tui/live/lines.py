"""Panels of lines: the log, pairs of texts, and the anchors that have a closer negative again and again."""

import math
from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.binding import BindingType
from textual.content import Content
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.visual import Visual

from contrastcli.runs.measured import ViolatedAnchor
from contrastcli.tui.history.history import History
from contrastcli.tui.live.view import LiveView
from contrastcli.tui.widgets import hidden_key, styled

_INDENT = 10
"""Cells of what stands before a text; its further rows begin below it."""
_LEAST_ROWS = 5  # of an anchor
_KEYS = "↑↓ next  x leave out  y write {}  z all panels"
_SPARK = "▁▂▃▄▅▆"
"""Without the highest, so that those of two rows do not touch."""


class LinesPanel(ScrollView, can_focus=True):
    """Lines, of which the long ones are wrapped; `follows` keeps the last one in sight until the user scrolls."""

    def __init__(
        self,
        id: str,
        make: Callable[[LiveView], tuple[str, list[str]]],
        waiting: str = "",
        legend: str = "",
        *,
        follows: bool = False,
    ) -> None:
        super().__init__(id=id, classes="lines")
        self.border_title, self.border_subtitle = make(LiveView())[0], legend
        self._make, self._waiting, self._legend, self._follows = make, waiting, legend, follows
        self._lines: list[Content] = []
        self._rows: list[Content] = []

    def show_view(self, view: LiveView) -> bool:
        title, lines = self._make(view)
        return self.show_lines(title, [Content(line) for line in lines or [self._waiting]], self._legend)

    def show_lines(self, title: str, lines: list[Content], legend: str) -> bool:
        if (title, lines, legend) == (self.border_title, self._lines, self.border_subtitle):
            return False
        self.border_title, self._lines, self.border_subtitle = title, lines, legend
        self._lay_out()
        return True

    def on_mount(self) -> None:
        if self._follows:
            self.anchor()

    def on_resize(self) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        """Wrap the lines to the width, with the continued rows indented."""
        width = max(20, self.scrollable_content_region.width - 1)
        self._rows = []
        for line in self._lines:
            first, *rest = line[_INDENT:].wrap(width - _INDENT) or [Content()]
            self._rows += [line[:_INDENT] + first, *(row.pad_left(_INDENT) for row in rest)]
        self.virtual_size = Size(width, len(self._rows))
        self.refresh()

    def render_line(self, y: int) -> Strip:
        row = round(self.scroll_y) + y
        text = self._rows[row].pad_left(1) if row < len(self._rows) else Content()
        return Visual.to_strips(self, text, self.size.width, 1, self.visual_style, pad=True)[0]


class NegativesPanel(LinesPanel):
    """The hardest negatives of a batch; alone on the screen, the anchors that have a closer one again and again."""

    BINDINGS: ClassVar[list[BindingType]] = [
        hidden_key("down", "next(1)", "next anchor", "to the next anchor"),
        hidden_key("up", "next(-1)", "previous anchor", "to the previous anchor"),
        hidden_key("x", "screen.leave_out", "leave out", "leave the pair out of the negatives, or take that back"),
        hidden_key("y", "screen.write_violated", "write the list", "write a file of the pairs left out; if none, all"),
    ]

    listed: Sequence[ViolatedAnchor] = ()
    """The anchors, the most often violated first; none while the negatives of a batch are shown."""
    chosen = 0
    left_out: frozenset[tuple[str, str]] = frozenset()

    def show_view(self, view: LiveView) -> bool:
        self._view, before, history = view, self.listed, view.history
        self.listed = history.violated_anchors if self.has_class("-zoomed") else ()
        if bool(before) != bool(self.listed):
            self.screen.refresh_bindings()
        if not self.listed:
            return super().show_view(view)
        last = before[self.chosen].anchor if before else ""
        self.chosen = next((n for n, one in enumerate(self.listed) if one.anchor == last), 0)
        fitting = self.listed[self.chosen :][: 1 + self.size.height // _LEAST_ROWS]
        shown = [line for number, one in enumerate(fitting) for line in self._lines_of(one, history, number == 0)]
        worst = f", the worst of {total:,}" if (total := history.violated_total) > len(self.listed) else ""
        title = f"Violated again and again · {self.chosen + 1} of {len(self.listed)}{worst}"
        return self.show_lines(title, shown, _KEYS.format(f"{len(self.left_out)} left out" if self.left_out else "all"))

    def _lines_of(self, one: ViolatedAnchor, history: History, is_chosen: bool) -> list[Content]:
        """An anchor with its positive and its negative, in which the words that the other lacks stand out."""
        epochs = history.violated[one.anchor][0] * history.axis("epoch").unit
        (positive, negative), gaps = one.angles[-1], [negative - positive for positive, negative in one.angles]
        out = "  left out" if (one.anchor, one.negative) in self.left_out else ""
        often = f"{'▶' if is_chosen else ' '}{one.times:>3} times in {epochs:.1f} epochs"
        head = f"{often} {spark(gaps)}  {gaps[-1]:+.1f}°{out}"
        return [
            styled((head, "bold" if is_chosen else "")),
            styled(f"{'':{_INDENT}}{one.anchor}"),
            styled(f"+{positive:>6.1f}°  ", *_marked(one.positive, one.negative, "bold $text-success")),
            styled(f"−{negative:>6.1f}°  ", *_marked(one.negative, one.positive, "bold $text-error")),
            Content(),
        ]

    def action_next(self, by: int) -> None:
        if self.listed:
            self.chosen = min(max(self.chosen + by, 0), len(self.listed) - 1)
            self.show_view(self._view)
            self.scroll_home(animate=False)
        else:
            self.scroll_relative(y=by)


def _marked(text: str, other: str, style: str) -> list[tuple[str, str]]:
    """The words of a text, with a style those that another text lacks."""
    known = set(other.lower().split())
    return [(f"{word} ", "" if word.lower() in known else style) for word in text.split()]


def spark(values: Sequence[float]) -> str:
    """A line in a few characters."""
    finite = [value for value in values if math.isfinite(value)]
    if len(finite) < 2 or min(finite) == max(finite):
        return ""
    low, scale = min(finite), (len(_SPARK) - 1) / (max(finite) - min(finite))
    return "".join(_SPARK[round((value - low) * scale)] if math.isfinite(value) else " " for value in values)
