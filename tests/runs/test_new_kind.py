"""A kind of event that the package does not know: its type and a panel are all that it takes to see it everywhere."""

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import pytest

from contrastcli.runs.directory import list_runs
from contrastcli.runs.event import Event
from contrastcli.runs.event_file import read
from contrastcli.runs.events import decode, encode
from contrastcli.show.pictures import Picture
from contrastcli.tui.app import ContrastApp
from contrastcli.tui.history.history import History, metrics
from contrastcli.tui.live import area
from contrastcli.tui.live.panels import Panel, all_panels
from contrastcli.tui.live.view import LiveView
from support.command import Contrast
from support.recorded import append, recorded
from support.screens import screen_text, show, until


class Recall(Event, frozen=True, kw_only=True):
    """Retrieval on the dev set: the shares of queries whose positive is nearest, and is among the ten nearest."""

    at_1: float
    at_10: float

    titles: ClassVar[Mapping[str, str]] = {"at 1": "recall at 1, %"}

    def numbers(self) -> Mapping[str, float | None]:
        return {"at 1": 100 * self.at_1, "at 10": 100 * self.at_10}


RECALLS = [Recall(step=step, at_1=step / 1000, at_10=0.9) for step in (200, 400, 600)]


def curve(view: LiveView, width: int) -> Picture:
    """The panel's picture: recall over the steps."""
    return view.over_steps(metrics()["at 1"], width)


def test_it_is_written_and_read_like_any_other(tmp_path: Path) -> None:
    assert encode(RECALLS[0]) == b'{"event":"recall","step":200,"at_1":0.2,"at_10":0.9}\n'
    assert decode(encode(RECALLS[0])) == RECALLS[0]
    run = recorded(tmp_path, "finished")
    append(run, *RECALLS)
    assert read(run.events_path)[-3:] == RECALLS


def test_a_console_and_watch_show_its_numbers(contrast: Contrast) -> None:
    run = recorded(Path("runs"), "finished")
    append(run, *RECALLS)
    assert RECALLS[0].line() == "recall    step 200  at 1 20.00  at 10 90.00"
    answer = contrast("watch", run.name)
    assert answer.code == 0 and RECALLS[2].line() in answer.err.splitlines()
    assert contrast("watch", run.name, "--json").out.endswith(encode(RECALLS[2]).decode())


def test_runs_may_be_overlaid_by_it() -> None:
    metric = metrics()["at 1"]
    history = History()
    for recall in RECALLS:
        history.add(recall)
    (series,) = metric.series(history, 80)
    assert (metric.title, series.name) == ("recall at 1, %", "at 1")
    assert list(series.x) == [200, 400, 600] and list(series.y) == pytest.approx([20, 40, 60])


async def test_live_has_it_in_the_log_and_a_panel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = recorded(tmp_path, "finished")
    append(run, *RECALLS)
    panel = Panel("recall", "recall", curve, "at each evaluation")
    monkeypatch.setattr(area, "all_panels", lambda: [panel, *all_panels()])
    app = ContrastApp(tmp_path, list_runs(tmp_path)[0])
    async with show(app) as pilot:
        await until(pilot, lambda: not panel.picture.empty and "recall    step 600" in screen_text(app))
        assert "─ recall at 1, %  60.00 (+40.00) ─" in screen_text(app)
        assert [round(y) for y in panel.picture.series[0].y] == [20, 40, 60]
