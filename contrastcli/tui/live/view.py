"""What of a history Live shows: the part of it, the x axis, smoothing, the cursor, and the run to compare with."""

import re
from dataclasses import dataclass, field, replace

from contrastcli.runs.text import MISSING
from contrastcli.show.axes import number
from contrastcli.show.pictures import GREY, Picture, Range
from contrastcli.tui.history.history import E, History, Metric, Samples
from contrastcli.tui.history.series import STEPS, Axis

SHARES = {"all steps": 1.0, "the last third": 1 / 3, "the last tenth": 0.1}
"""How much of the steps charts show, by what the header says of it."""

SMOOTHING = {"not smoothed": 0.0, "smoothed over 5 %": 0.05, "smoothed over 20 %": 0.2}
"""Over how much of what is shown charts smooth, by what the header says of it."""


@dataclass(frozen=True)
class LiveView:
    """How panels look at a history: names in SHARES, SMOOTHING and AXES, and a cursor."""

    history: History = field(default_factory=History, compare=False)
    log: bool = False
    share: str = "all steps"
    smoothing: str = "not smoothed"
    axis: str = STEPS.name
    one_batch: bool = False
    """Whether the angles of one batch are shown in place of those over all steps."""
    cursor: float | None = None
    """The place of the x axis at which values are read; None for the newest."""
    baseline: History | None = field(default=None, compare=False)
    """The history of another run to compare with."""

    @property
    def x_axis(self) -> Axis:
        return self.history.axis(self.axis)

    @property
    def x_range(self) -> Range:
        """The first and the last place that are shown."""
        axis = self.x_axis
        begin, end, least = 0.0, self.history.minutes, 1 / 60
        if not axis.timed:
            end, least = axis.unit * self.history.last_step, axis.unit
            begin = min(axis.unit * self.history.begin, end - least)
        return max(end * (1 - SHARES[self.share]), begin), max(end, least)

    @property
    def place(self) -> float:
        """The place of the x axis at which values are read: that of the cursor, or the last one."""
        return self.x_range[1] if self.cursor is None else self.cursor

    @property
    def step(self) -> int:
        """The last logged step up to that place."""
        logged = self.history.series["step"]
        return logged.steps[max(0, logged.count(self.place, self.x_axis) - 1)] if logged.steps else 0

    def value(self, kind: str, name: str) -> float | None:
        """A number of a kind of event at the cursor, or the newest."""
        return self.history.series[kind].at(name, self.place, self.x_axis)

    def sample(self, samples: Samples[E]) -> E | None:
        return samples.newest if self.cursor is None else samples.at(self.step)

    def over_steps(self, metric: Metric, width: int) -> Picture:
        """A metric over what is shown of the x axis, with its values, below it those of the baseline."""
        x_range, axis, smooth = self.x_range, self.x_axis, SMOOTHING[self.smoothing]
        series = [
            replace(one, name=re.sub("^(loss|score)@", "@", one.name), readings=self.readings(metric, one.name))
            for one in metric.series(self.history, width, x_range, axis=axis, smooth=smooth)
        ]
        other = self.baseline
        below = other and metric.series(other, width, x_range, axis=other.axis(self.axis), smooth=smooth)
        below = [replace(one, name="", ink=GREY) for one in below or () if one.x]
        title = metric.title
        if len(series) == 1:
            fitting = [text for text in series[0].readings if len(title) + len(text) + 7 <= width // 2]
            title = "  ".join([title, *(fitting[:1] or series[0].readings[-1:])])
            series = [replace(series[0], name="")]
        shown = (*series, *below)
        return Picture(metric.kind, title, "lines", axis.name, "", shown, x_range=x_range, cursor=self.cursor)

    def readings(self, metric: Metric, name: str) -> tuple[str, ...]:
        """A value at the cursor or the newest, and in brackets how it has changed; with a baseline, Δ to that there."""
        last, axis, values = self.place, self.x_axis, self.history.series[metric.kind]
        value = values.at(name, last, axis)
        if value is None:
            return ()
        if other := self.baseline:
            # Where the value was measured, which may be before the cursor.
            place = values.place(values.steps[values.count(last, axis) - 1], axis)
            sign, before = "Δ", other.series[metric.kind].between(name, place, other.axis(self.axis))
        else:
            sign, before = "", values.first(name, self.x_range[0], axis)
        change = MISSING
        if before is not None:
            change = f"{value - before:+.2f}" if 0.1 <= abs(value - before) < 1000 else f"{value - before:+.2g}"
        whole = f"{value:#.4g}" if 0.001 <= abs(value) < 1000 else number(value)
        least = f"{value:.1g}" if abs(value) < 0.01 else f"{value:#.3g}"
        return f"{whole} ({sign}{change})", whole, f"{value:#.3g}", least
