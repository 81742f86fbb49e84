"""The panels of Live on the screen: which, in which order, in how many columns, and the one that fills it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from textual.containers import VerticalScroll
from textual.widget import Widget

from contrastcli.tui.live.panels import LogPanel, NumbersPanel, Panel, all_panels

_NARROWEST, _LOWEST = 38, 8  # columns and rows of a panel, at least
_TALL = 34  # rows of a screen on which the log has more of them
_AROUND = 4  # rows of the screen above and below the panels


class PanelArea(VerticalScroll, can_focus=False, inherit_bindings=False):
    """A grid of panels, the log below. Arrow keys go from one panel to the next, so it has no keys of its own."""

    def __init__(self) -> None:
        self.panels: dict[str, Panel | NumbersPanel | LogPanel] = {panel.id or "": panel for panel in all_panels()}
        self.shown = list(self.panels)
        self._columns = 1
        super().__init__(*self.panels.values(), id="panels")

    def lay_out(self, chosen: Sequence[str], width: int, height: int) -> None:
        """Show the chosen panels in their order, all where there is none, on a screen of this size."""
        known = [name for name in chosen if name in self.panels] or list(self.panels)
        self.shown = sorted(known, key=lambda name: name == "log")
        for name, panel in self.panels.items():
            panel.set_class(name not in self.shown, "-hidden")
        self.sort_children(key=self._rank)
        self._columns = min(max(1, width // _NARROWEST), 3)
        has_log = "log" in self.shown
        rows, log = -(-(len(self.shown) - has_log) // self._columns), 9 if height >= _TALL else 7
        room = (height - _AROUND - has_log * log) // max(1, rows)
        self.styles.grid_size_columns = self.panels["log"].styles.column_span = self._columns
        self.styles.grid_rows = " ".join(["1fr" if room > _LOWEST + 2 else str(_LOWEST)] * rows + [str(log)])

    def zoom(self, name: str) -> None:
        """Let a panel fill the screen; show all where there is no name."""
        self.set_class(bool(name), "-zooming")
        for panel in self.panels.values():
            panel.set_class(panel.id == name, "-zoomed")
        if name:
            self.panels[name].focus()

    @property
    def focused_name(self) -> str:
        return next((name for name in self.shown if self.panels[name] is self.screen.focused), "")

    def neighbour(self, name: str, by: int, below: bool) -> str:
        """The name of the next panel, or of the one in the next row."""
        stride = self._columns if below else 1
        there = self.shown.index(name) + by * stride if name in self.shown else min(by, 0)
        return self.shown[there % len(self.shown)]

    def visible_panels(self) -> Iterator[Panel | NumbersPanel | LogPanel]:
        """The panels of which some row is on the screen."""
        for name in self.shown:
            if self.panels[name].display and self.panels[name].region.overlaps(self.region):
                yield self.panels[name]

    def on_resize(self) -> None:
        """Keep the focused panel in sight when the header grows."""
        if focused := self.focused_name:
            self.panels[focused].scroll_visible(animate=False)

    def _rank(self, panel: Widget) -> int:
        return self.shown.index(panel.id) if panel.id in self.shown else len(self.shown)
