"""Live: a run as it trains, or as it was."""

import asyncio
import time
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType

from contrastcli.boundary import to_copy
from contrastcli.errors import ContrastError, error_text
from contrastcli.runs.alerts import notice
from contrastcli.runs.directory import Run
from contrastcli.runs.events import Alert, Done
from contrastcli.runs.process import left_out
from contrastcli.runs.status import IN_PROGRESS, Digest
from contrastcli.settings.sections import Alerts
from contrastcli.show.format import as_csv
from contrastcli.tui.history.feed import Feed
from contrastcli.tui.live.header import RunHeader, Snapshot, poll, progress_text, summary
from contrastcli.tui.live.panels import AnyPanel, run_readings
from contrastcli.tui.live.view_screen import ViewScreen
from contrastcli.tui.widgets import PlainText, hidden_key

DRAW_SECONDS = 0.25
POLL_SECONDS = 1.0
_TOLERATED = 10  # failures to read in a row

_FRAME_SECONDS = 0.02  # so that none draws two panels


class LiveScreen(ViewScreen):
    """A run: its state, its panels, and what can be done with it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        hidden_key("d", "detach", "detach", "show no run any more; training continues"),
    ]

    here: Snapshot | None = None

    def __init__(self) -> None:
        super().__init__()
        self._header = RunHeader()

    def body(self) -> ComposeResult:
        yield PlainText("No run is shown.\n\nPress 1 to set up and start a run, or 3 to choose one.", id="nothing")
        yield self._header
        yield self._area

    def on_mount(self) -> None:
        self.add_class("-empty")
        if self.contrast.run_shown:
            self.choose(self.contrast.run_shown)
        self._draw()

    def choose(self, run: Run) -> None:
        """Follow a run, in progress or ended, with all panels; one that is followed already stays as it is."""
        if self.feed and self.contrast.run_shown == run:
            return
        if self.feed:
            self._zoom("")
        self.contrast.run_shown = run
        self.here, self._paused, self._area.negatives.left_out = None, False, frozenset()
        self.feed = Feed(Run(run.path.resolve()).events_path, self._news.set)
        self.view = replace(self.view, history=self.feed.history, cursor=None)
        self._header.announce(run)
        self.remove_class("-empty")
        self.refresh_bindings()
        self.workers.cancel_group(self, "run")
        self.feed.start(self, "run")
        self._poll(run, self.feed)

    @work(group="run")
    async def _poll(self, run: Run, feed: Feed) -> None:
        self._area.negatives.left_out = await asyncio.to_thread(left_out, run)
        alerts = await asyncio.to_thread(alerts_of, run)
        began, told, failures = time.time(), 0, 0
        while True:
            # A copy, since events arrive while the thread looks; none of a file that is not yet read.
            before, known = self.here, copy(feed.history) if feed.is_read else Digest()
            try:
                self.here = snapshot = await asyncio.to_thread(poll, run, known, before)
            except (ContrastError, OSError) as error:
                end = _end_of_view(run, error)
                failures += 1
                if (end or failures == _TOLERATED) and run not in self.contrast.deleted:
                    self.contrast.fail(end or f"{run.path} cannot be read: {error_text(error)}")
                if end:
                    self._show_no_run()
                    return
                await asyncio.sleep(POLL_SECONDS)
                continue
            self.contrast.watched, failures = summary(snapshot), 0
            self._paused &= snapshot.is_live
            # None of what happened before.
            calls = [event for event in feed.history.calls_for_attention if event.time > began]
            for text in notices(calls[told:], before, snapshot, alerts):
                self.contrast.alert(text)
            told = len(calls)
            if before is None or (snapshot.status.state, snapshot.is_saved) != (before.status.state, before.is_saved):
                self.refresh_bindings()
            self._news.set()
            await asyncio.sleep(POLL_SECONDS)

    @work(group="drawing")
    async def _draw(self) -> None:
        """Draw what has changed and can be seen, one panel at a time, so that keys are answered in between.

        While it is paused a panel is drawn only where it is looked at otherwise than before.
        """
        looks: dict[AnyPanel, object] = {}
        while True:
            await self._news.wait()
            self._news.clear()
            feed, snapshot = self.feed, self.here
            if feed and snapshot and self.is_current:
                self._draw_header(feed, snapshot)
                if self._area.has_probes != (has_probes := bool(feed.history.series["probed"].steps)):
                    self._area.has_probes = has_probes
                    self._arrange()
                for panel in self._area.visible_panels():
                    if feed is not self.feed:
                        break
                    before, looks[panel] = looks.get(panel), self._look(panel)
                    is_still = self._paused and before == looks[panel]
                    if not is_still and panel.show_view(self.view):
                        await asyncio.sleep(_FRAME_SECONDS)
            # What comes first is shown at once.
            await asyncio.sleep(DRAW_SECONDS if feed and feed.history.step else _FRAME_SECONDS)

    def _look(self, panel: AnyPanel) -> object:
        """What a panel is drawn for, besides later events of the run, and those of a baseline that come later."""
        baseline = self._baseline and (id(self.view.baseline), self._baseline[1].is_read)
        return id(self.feed), self.view, baseline, panel.size, panel.has_class("-zoomed"), self._area.negatives.left_out

    def _draw_header(self, feed: Feed, snapshot: Snapshot) -> None:
        name, other = self._baseline or ("", None)
        baseline = other.history if other and other.path != feed.path else None
        self.view = replace(self.view, history=feed.history, baseline=baseline)
        is_beyond = other and self.view.place > replace(self.view, history=other.history).x_range[1]
        ended = f"step {other.history.last_step:,}, the last of " if other and is_beyond else ""
        notes = {
            "view paused": self._paused,
            f"reading earlier events, {100 * (feed.earlier or 0.0):.0f} %": feed.earlier is not None,
            f"Δ to {ended}{name}": self.view.baseline is not None,
        }
        progress = progress_text(snapshot, self.view, self.size.width - 2, notes)
        self._header.show(snapshot, feed.history, progress)

    @property
    def is_ready(self) -> bool:
        return self.contrast.run_shown is None or self.here is not None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("pause", "detach"):
            return self.here is not None and self.here.is_live
        if action in ("leave_out", "write_violated"):
            return bool(self._area.negatives.listed)
        is_of_view = f"action_{action}" in vars(ViewScreen)
        return self.feed is not None if is_of_view else super().check_action(action, parameters)

    def action_detach(self) -> None:
        if run := self.contrast.run_shown:
            self.app.notify(f"{run.name} continues training; 3 lists it", markup=False)
            self._show_no_run()

    @work
    async def action_leave_out(self) -> None:
        """Leave the chosen anchor and its negative out of each other's negatives, or take that back."""
        panel, run = self._area.negatives, self.contrast.run_shown
        one = panel.listed[panel.chosen]
        undo = ["--undo"] if (pair := (one.anchor, one.negative)) in panel.left_out else []
        if run and await self.contrast.change_run("runs", "exclude", *undo, "--", str(run.path.resolve()), *pair):
            panel.left_out ^= {pair}
            is_live = self.here is not None and self.here.is_live
            since = "from the next step on" if is_live else "where it is resumed, or trained again by t"
            what = "a negative again" if undo else "left out"
            self.app.notify(f"{what} {since}; x takes it back", markup=False)
        self._news.set()

    def action_write_violated(self) -> None:
        """Write the pairs that were left out, or all where none was, as data.false_negatives takes them."""
        panel = self._area.negatives
        listed = {
            (one.anchor, one.negative): (one.positive, one.times, " ".join(f"{a:.1f}/{b:.1f}" for a, b in one.angles))
            for one in panel.listed
        }
        # Of a pair that is left out training tells nothing more.
        pairs = [*(pair for pair in listed if pair in panel.left_out), *sorted(panel.left_out - listed.keys())]
        rows = [(*pair, *listed.get(pair, ("", "", ""))) for pair in pairs or listed]
        run = self.contrast.run_shown
        # A run's name may be as long as that of a file.
        stem = f"false-negatives-{run.name[-50:] if run else ''}"
        # An earlier list may have been edited.
        names = (f"{stem}{f'-{n}' if n > 1 else ''}.csv" for n in count(1))
        path = next(path for path in map(Path, names) if not path.exists()).resolve()
        text = as_csv(("anchor", "negative", "positive", "times", "angles"), rows)
        told = f"{path} has the pairs ({len(rows)}); Setup's field false negatives takes it"
        self.contrast.write(path, f"{text}\n", told)

    def clipboard_text(self) -> str:
        if not (self.feed and self.here):
            return ""
        history = self.feed.history
        rows = ((one.name, f"{one.value} {one.unit}".strip()) for one in run_readings(self.view))
        numbers = "\n".join(f"{name:<14} {text}" for name, text in rows)
        return "\n\n".join([summary(self.here), numbers, "\n".join(history.log)])

    def _show_no_run(self) -> None:
        self.workers.cancel_group(self, "run")
        self.feed = self.here = self.contrast.run_shown = None
        self.contrast.watched = ""
        self.add_class("-empty")
        self.refresh_bindings()


def _end_of_view(run: Run, error: ContrastError | OSError) -> str:
    """Why a run can be shown no more; empty for an error that may pass, as a shared disk fails for a moment."""
    if isinstance(error, ContrastError):
        return error.what
    is_missing = isinstance(error, FileNotFoundError | NotADirectoryError) and not run.exists()
    return f"{run.name} no longer exists" if is_missing else ""


def alerts_of(run: Run) -> Alerts:
    """The settings of a run's alerts; the usual ones where they cannot be read."""
    try:
        return run.config().alerts
    except ContrastError:
        return Alerts()


def notices(calls: Sequence[Alert | Done], before: Snapshot | None, now: Snapshot, alerts: Alerts) -> list[str]:
    """What a run calls for attention with: the events that do, and the end of its process."""
    status = now.status
    is_untold = status.state == "silent" or (status.ended and not now.tells_end)
    if before and before.status.state in IN_PROGRESS and is_untold:
        calls = [*calls, Alert(step=status.step, rule=status.state, text=status.message, hint=status.hint)]
    return [to_copy(text) for event in calls if (text := notice(now.run.name, event, alerts))]
