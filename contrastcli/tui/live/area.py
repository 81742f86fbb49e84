"""The panels of Live on the screen: which, in which order, in how many columns, and the one that fills it."""

from collections.abc import Iterator, Sequence

from textual.containers import VerticalScroll

from contrastcli.tui.live.lines import LinesPanel, NegativesPanel
from contrastcli.tui.live.panels import AnyPanel, all_panels

_LEAST_COLUMNS, _LEAST_ROWS = 38, 8
_TALL_SCREEN_ROWS, _WIDE_SCREEN_COLUMNS = 34, 110
"""From here on panels of lines are higher, and two of them share a row."""
_HIDDEN_UNLESS_CHOSEN = ("system", "dev-pairs", "probes")
_ROWS_AROUND_PANELS = 4


class PanelArea(VerticalScroll, can_focus=False, inherit_bindings=False):
    """A grid of charts, lines and the log below. It has no keys: arrows go from one panel to the next."""

    def __init__(self) -> None:
        self.panels: dict[str, AnyPanel] = {panel.id or "": panel for panel in all_panels()}
        self.negatives = next(panel for panel in self.panels.values() if isinstance(panel, NegativesPanel))
        self.has_probes = False
        self.shown = self._usual
        super().__init__(*self.panels.values(), id="panels")

    @property
    def _usual(self) -> list[str]:
        hidden = set(_HIDDEN_UNLESS_CHOSEN) - ({"probes"} if self.has_probes else set())
        return [name for name in self.panels if name not in hidden]

    def lay_out(self, chosen: Sequence[str], width: int, height: int) -> None:
        """Show the chosen panels in their order, the usual ones where there is none, on a screen of this size.

        Charts and numbers come first, in a grid of two cells each; then lines, and the log.
        """
        known = dict.fromkeys(name for name in chosen if name in self.panels) or self._usual
        self.shown = sorted(known, key=lambda name: (isinstance(self.panels[name], LinesPanel), name == "log"))
        for name, panel in self.panels.items():
            panel.set_class(name not in self.shown, "-hidden")
        self.sort_children(key=lambda panel: self.shown.index(panel.id) if panel.id in self.shown else len(self.shown))
        columns = min(max(1, width // _LEAST_COLUMNS), 3)
        lines = [name for name in self.shown if isinstance(self.panels[name], LinesPanel)]
        charts = [name for name in self.shown if name not in lines]
        spans = dict.fromkeys(charts, 2) | dict.fromkeys(lines, 2 * columns)
        if charts:
            spans[charts[-1]] += 2 * (-len(charts) % columns)  # fills its row
        if len(lines) > 1 and width >= _WIDE_SCREEN_COLUMNS:
            spans |= dict.fromkeys(lines[:2], columns)
        for name, span in spans.items():
            self.panels[name].styles.column_span = span
        chart_rows, low = -(-len(charts) // columns), 10 if height >= _TALL_SCREEN_ROWS else 7
        low_rows = sum(spans[name] for name in lines) // (2 * columns)
        room = (height - _ROWS_AROUND_PANELS - low_rows * low) // max(1, chart_rows)
        self.styles.grid_size_columns = 2 * columns
        heights = ["1fr" if room > _LEAST_ROWS else str(_LEAST_ROWS)] * chart_rows + [str(low)] * low_rows
        self.styles.grid_rows = " ".join(heights)

    def zoom(self, name: str) -> None:
        """Let a panel fill the screen; show all where there is no name."""
        self.set_class(bool(name), "-zooming")
        for panel in self.panels.values():
            panel.set_class(panel.id == name, "-zoomed")
        if name:
            self.panels[name].focus()
        else:
            self.call_after_refresh(self.on_resize)

    @property
    def focused_name(self) -> str:
        return next((name for name in self.shown if self.panels[name] is self.screen.focused), "")

    def neighbour(self, name: str, by: int, below: bool) -> str:
        """The name of the next panel, or of the one below."""
        ring = self.shown
        if below and name in ring:
            x = self.panels[name].region.x
            ring = [n for n in ring if self.panels[n].region.x <= x < self.panels[n].region.right]
        there = ring.index(name) + by if name in ring else min(by, 0)
        return ring[there % len(ring)]

    def visible_panels(self) -> Iterator[AnyPanel]:
        """The panels of which some row is on the screen."""
        for name in self.shown:
            if self.panels[name].display and self.panels[name].region.overlaps(self.region):
                yield self.panels[name]

    def on_resize(self) -> None:
        """Keep the focused panel in sight when the header grows, and among all panels again."""
        if focused := self.focused_name:
            self.panels[focused].scroll_visible(animate=False)
