"""The history of a run: extremes stay visible, gaps stay gaps, a resume voids later steps."""

import asyncio
import math
import random
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from statistics import mean

import msgspec
import pytest

from contrastcli.runs import event_file
from contrastcli.runs.event import Event
from contrastcli.runs.event_file import read
from contrastcli.runs.events import Done, Note, Progress, Queued, decode, encode
from contrastcli.runs.measured import Probed, Step
from contrastcli.runs.status import Writer
from contrastcli.show.axes import number
from contrastcli.show.chart import text
from contrastcli.tui.history import feed
from contrastcli.tui.history.feed import Feed
from contrastcli.tui.history.history import LOG_LINES, SAMPLES, History
from contrastcli.tui.history.series import AXES, Axis, SeriesGroup, outline
from contrastcli.tui.live import panels
from contrastcli.tui.live.view import LiveView
from support.recorded import BEGIN, angles, append, evaluated, recorded, started, stepped, training

ME = Writer("here", 1, 1.0)


def noise(count: int) -> list[float]:
    """Numbers that floats hold exactly, so that they and their means can be compared."""
    draw = random.Random(3)
    return [draw.randrange(1000) / 8 for _ in range(count)]


def taken(*events: Event) -> History:
    history = History()
    for event in events:
        history.add(event)
    return history


def test_few_values_are_drawn_as_they_are_and_without_room_as_in_a_column() -> None:
    values = noise(90)
    assert outline(range(11, 51), values[:40], 10) == ([float(n) for n in range(11, 51)], values[:40])
    assert outline(range(90), values, 0) == outline(range(90), values, -3) == outline(range(90), values, 1)


@pytest.mark.parametrize("count", [1000, 4096, 70_000])
@pytest.mark.parametrize("columns", [1, 7, 160])
def test_a_line_of_many_values_keeps_the_extremes_of_every_column(count: int, columns: int) -> None:
    values = noise(count)
    x, y = outline(range(count), values, columns)
    assert x == sorted(x) and (x[0], x[-1]) == (0, count - 1 if columns > 1 else 0)
    edges = [count * n // columns for n in range(columns + 1)]
    assert [{*y[2 * n : 2 * n + 2]} for n in range(columns)] == [
        {min(values[begin:end]), max(values[begin:end])} for begin, end in pairwise(edges)
    ]


def test_a_smoothed_line_of_many_values_reaches_the_last() -> None:
    x, y = outline(range(5000), [float(n) for n in range(5000)], 80, smooth=0.05)
    assert len(x) == len(y) == 80 and x[-1] == 4999 and y == sorted(y) and y[0] == mean(range(62))


@pytest.mark.parametrize("smooth", [0.0, 0.05])
def test_a_stretch_of_missing_numbers_is_a_gap_and_a_single_one_hides_nothing(smooth: float) -> None:
    values = [2.0] * 10_000
    values[3] = math.nan
    values[5000:6000] = [math.nan] * 1000
    x, y = outline(range(10_000), values, 50, smooth)
    assert {value for step, value in zip(x, y, strict=True) if step < 4900 or step > 6300} == {2.0}
    assert all(math.isnan(value) for step, value in zip(x, y, strict=True) if 5200 < step < 5900)


def test_a_part_that_appears_later_begins_with_a_gap() -> None:
    table = SeriesGroup()
    table.add(1, {"loss": 2.0})
    table.add(2, {"loss": 1.0, "mlm": 5.0})
    table.add(3, {"loss": 0.5})
    x, y = table.line("mlm", (0, 3), 10)
    assert x == [1, 2, 3] and math.isnan(y[0]) and y[1] == 5.0 and math.isnan(y[2])


def test_a_value_at_a_step_is_the_last_one_measured_until_then() -> None:
    table = SeriesGroup()
    table.add(10, {"lr": 0.5})
    table.add(20, {"lr": None})
    assert [table.at("lr", step) for step in (9, 10, 19, 20)] == [None, 0.5, 0.5, None]
    assert table.at("unknown", 10) is None
    table.add(30, {"lr": 0.1})
    table.add(40, {"lr": 0.25})
    assert [table.between("lr", step) for step in (9, 10, 15, 25, 40, 99)] == [None, 0.5, 0.5, None, 0.25, 0.25]
    assert table.between("lr", 35) == pytest.approx(0.175)


def test_before_the_first_evaluation_no_baseline_is_said_to_have_another_score() -> None:
    baseline = taken(started(ME), evaluated(10, best=True))
    assert panels.dev(LiveView(taken(started(ME)), baseline=baseline), 80).note == ""


def test_a_score_is_rounded_as_in_tables() -> None:
    score = taken(msgspec.structs.replace(evaluated(10, best=True), score=0.54455)).series["evaluated"].at("score", 10)
    assert score == 54.455 and number(score) == "54.45"


def test_a_resume_voids_later_steps() -> None:
    before = [started(ME), evaluated(0, best=False), *training(1, 300)]
    after = [started(ME, resumed_from=200), *training(201, 260)]
    resumed, straight = taken(*before, *after), taken(*before[:2], *training(1, 200), *training(201, 260))
    assert resumed.series.keys() == straight.series.keys() == {"step", "angles", "evaluated"}
    for one, other in zip(resumed.series.values(), straight.series.values(), strict=True):
        assert one.steps == other.steps
        assert one.by_name == other.by_name
    assert resumed.best == straight.best == evaluated(200, best=True)
    assert resumed.histograms.newest == straight.histograms.newest == angles(260)
    assert resumed.histograms.kept == straight.histograms.kept


def test_a_queue_takes_no_minutes_of_training() -> None:
    later = Queued(step=100, time=BEGIN + 3 * 86_400, behind="other")
    history = taken(started(ME), stepped(100), later)
    assert history.minutes == taken(started(ME), stepped(100)).minutes


def test_a_status_from_the_history_is_that_from_the_file(tmp_path: Path) -> None:
    for kind in ("finished", "stopped", "resumed", "diverged", "killed", "silent"):
        run = recorded(tmp_path, kind)
        known = taken(*_all(run.events_path))
        assert run.status(known) == run.status()


def _all(path: Path) -> Iterator[Event]:
    """Every event of a file, void or not."""
    return (event for line in path.read_bytes().splitlines() if (event := decode(line)))


def test_histograms_cover_the_whole_run_and_stay_few_and_a_resume_keeps_the_newest_that_it_does_not_void() -> None:
    history = History()
    for step in range(1, 5 * SAMPLES):
        history.add(msgspec.structs.replace(angles(30), step=step))
    kept = [event.step for event in history.histograms.kept]
    assert len(kept) <= SAMPLES and kept[0] == 1 and kept[-1] > 4.9 * SAMPLES
    assert len({b - a for a, b in pairwise(kept)}) == 1
    for _ in range(2):
        newest = history.histograms.newest
        assert newest and newest.step == 5 * SAMPLES - 1 > kept[-1]
        history.add(started(ME, resumed_from=newest.step))


def test_the_log_tells_what_happened_and_stays_short() -> None:
    history = taken(started(ME), Note(step=0, text="columns not used: source"), *training(1, 400))
    history.add(Done(step=400, status="diverged", code=4, message="the loss is not a finite number", hint="lower --lr"))
    words = "\n".join(history.log)
    assert "columns not used: source" in words and "step 300  Spearman · starter 72.85 (best)" in words
    assert "step 400  Spearman · starter 73.10  alignment" in words, "an evaluation that is no best too"
    assert "diverged  step 400  the loss is not a finite number" in history.log[-1]
    for n in range(LOG_LINES):
        history.add(Note(step=400, text=f"note {n}"))
    assert len(history.log) == LOG_LINES and history.log[-1].endswith(f"note {LOG_LINES - 1}")


def test_progress_is_shown_until_training_continues_and_a_resume_takes_back_the_end() -> None:
    over = Done(step=300, status="stopped", code=0)
    assert taken(started(ME), *training(1, 300), over).done == over
    assert taken(started(ME), *training(1, 300), over, started(ME, resumed_from=300)).done is None
    work = Progress(step=0, what="tokenising", done=5, total=10)
    assert taken(started(ME), work).progress == work
    assert taken(started(ME), work, stepped(1)).progress is None
    assert taken(started(ME), work, started(ME, resumed_from=0)).progress is None, "of a process that was killed"


@pytest.fixture
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even a recorded run is a large file."""
    monkeypatch.setattr(feed, "WINDOW_BYTES", 20_000)
    monkeypatch.setattr(feed, "BLOCK_BYTES", 5_000)


@asynccontextmanager
async def followed(path: Path, on_change: Callable[[], None] = lambda: None) -> AsyncIterator[Feed]:
    """A feed that follows a file during the body."""
    follower = Feed(path, on_change)
    task = asyncio.create_task(follower.follow())
    yield follower
    task.cancel()


async def test_a_feed_reads_old_and_new_events(tmp_path: Path) -> None:
    run = recorded(tmp_path, "running")
    async with followed(run.events_path) as follower:
        await _wait_for(lambda: follower.history.last_step == 350)
        with open(run.events_path, "ab") as file:  # half a line, and its rest a little later
            file.write(encode(stepped(360))[:20])
            file.flush()
            await asyncio.sleep(2 * feed.POLL_SECONDS)
            assert follower.history.last_step == 350
            file.write(encode(stepped(360))[20:])
        await _wait_for(lambda: follower.history.last_step == 360)
    steps = [event for event in read(run.events_path) if type(event).__name__ == "Step"]
    assert list(follower.history.series["step"].steps) == [event.step for event in steps]


async def _wait_for(condition: Callable[[], object]) -> None:
    end = asyncio.get_running_loop().time() + 60
    while not condition():
        assert asyncio.get_running_loop().time() < end
        await asyncio.sleep(0.01)


@pytest.mark.usefixtures("small_windows")
async def test_of_a_large_file_the_end_is_shown_first_and_then_the_whole(tmp_path: Path) -> None:
    run = recorded(tmp_path, "finished")
    whole = taken(*_all(run.events_path))
    shown: list[History] = []
    async with followed(run.events_path, lambda: shown.append(follower.history)) as follower:
        await _wait_for(lambda: follower.earlier is None and list(follower.history.log) == list(whole.log))
    window = shown[0]
    assert window.started == whole.started and window.begin > 300, "what it is, and no more than its end"
    assert window.last_step == 600 and window.series["step"].steps[0] >= window.begin
    assert window is not follower.history
    assert follower.history.series["step"].steps == whole.series["step"].steps and follower.history.begin == 0


@pytest.mark.usefixtures("small_windows")
async def test_of_a_large_file_each_event_is_taken_once_though_reading_fails_and_events_arrive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "POLL_SECONDS", 0.01)
    run = recorded(tmp_path, "finished")
    reads: list[int] = []

    def read_lines(path: Path, position: int, size: int) -> tuple[list[bytes], int]:
        reads.append(position)
        is_failing = position > 5_000 and reads.count(position) == 1
        return ([], position) if is_failing else event_file.read_lines(path, position, size)

    monkeypatch.setattr(feed, "read_lines", read_lines)
    later = iter(range(601, 900))

    def arrive() -> None:
        if follower.earlier is not None:
            append(run, stepped(next(later)))

    async with followed(run.events_path, arrive) as follower:
        await _wait_for(lambda: follower.history.last_step > 600 and follower.earlier is None)
        await asyncio.sleep(2 * feed.POLL_SECONDS)
    steps = [event.step for event in _all(run.events_path) if isinstance(event, Step)]
    assert list(follower.history.series["step"].steps) == steps


@pytest.mark.usefixtures("small_windows")
async def test_a_large_file_that_goes_away_is_looked_for_at_leisure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = recorded(tmp_path, "finished")
    reads: list[int] = []

    def read_lines(path: Path, position: int, size: int) -> tuple[list[bytes], int]:
        reads.append(position)
        return [], position

    monkeypatch.setattr(feed, "read_lines", read_lines)
    async with followed(run.events_path):
        await asyncio.sleep(feed.POLL_SECONDS)
    assert 2 < len(reads) < 9


def test_the_plane_has_only_points_that_were_measured() -> None:
    noisy = random.Random(5)
    points = [(noisy.randrange(-24, 0) / 8, noisy.randrange(8) / 8) for _ in range(1000)]
    history = History()
    for step, (uniformity, alignment) in enumerate(points):
        event = evaluated(step, best=False)
        history.add(msgspec.structs.replace(event, uniformity=uniformity, alignment=alignment))
    (path,) = panels.plane(LiveView(history), 76).series
    drawn = list(zip(path.x, path.y, strict=True))
    assert set(drawn) <= set(points) and (drawn[0], drawn[-1]) == (points[0], points[-1])


@pytest.mark.parametrize("axis", AXES)
def test_a_probe_has_its_first_angle_whatever_is_along_x(axis: str) -> None:
    first, last = (Probed(step=step, time=BEGIN + 6 + step, angles={"a | b": 50.0 - step}) for step in (0, 20))
    picture = panels.probes(LiveView(taken(started(ME), first, stepped(10), last), axis=axis), 160)
    assert picture.series[0].readings[0] == "50.0° → 30.0°"


def test_at_the_cursor_no_later_memory_or_time_of_a_step_is_told() -> None:
    history = taken(started(ME), stepped(10), stepped(20))
    told = {one.name: one.value for one in panels.run_readings(LiveView(history, cursor=10.0))}
    assert told["memory"] == "–" and "a step takes" not in told and told["learning rate"] != "–"


def test_the_columns_of_the_waterfall_have_the_batches_of_their_steps() -> None:
    history = taken(started(ME), *training(1, 600))
    heat = panels.waterfall(LiveView(history, share="the last tenth"), 3).heat
    assert heat
    for column, steps in ((0, (540, 550)), (2, (580, 590, 600))):
        for counts, kind in zip(heat.counts[column], ("positive_histogram", "negative_histogram"), strict=True):
            assert sum(counts) == sum(sum(getattr(angles(step), kind)) for step in steps)


@pytest.mark.parametrize("kind", ["positive_histogram", "negative_histogram"])
def test_a_batch_with_half_a_histogram_is_none_to_draw(kind: str) -> None:
    history = taken(started(ME), msgspec.structs.replace(angles(10), **{kind: []}))
    assert all(panels.histogram(LiveView(history, one_batch=one), 76).empty for one in (True, False))


@pytest.mark.parametrize(
    ("values", "readings"),
    [
        ({}, ("loss 0.00613", "contrast 0.00303", "@64 0.000490", "@128 0.00262")),
        ({"loss@256": 0.0042}, ("━ loss ", "contrast", "@64", "@128", "@256")),
        (
            {"loss": 15.8, "contrast": 4.52, "loss@64": 5.32, "loss@128": 5.27, "classification": 0.663},
            ("los 15.8", "con 4.52", "@64 5.32", "@128 5.27", "cla 0.663"),
        ),
    ],
)
def test_small_values_of_many_curves_stay_in_a_narrow_legend_and_all_of_their_names(
    values: dict[str, float], readings: Sequence[str]
) -> None:
    parts = {"loss": 0.006132, "contrast": 0.003034, "loss@64": 0.00049, "loss@128": 0.002615, **values}
    history = taken(started(ME), msgspec.structs.replace(stepped(20), loss=parts.pop("loss"), parts=parts))
    legend = text(panels.loss(LiveView(history), 36), 36, 9)
    for reading in readings:
        assert reading in legend


def test_the_first_value_of_a_range_is_that_at_its_begin_or_after_it() -> None:
    group = SeriesGroup()
    for step, value in ((10, 1.0), (40, None), (46, 1.75), (50, 0.5)):
        group.add(step, {"loss": value}, minutes=step / 10)
    assert [group.first("loss", x) for x in (0, 10, 11, 46, 47, 51)] == [1.0, 1.0, 1.75, 1.75, 0.5, None]
    assert group.first("loss", 4.5, Axis("minutes", timed=True)) == 1.75 and group.first("other", 0) is None
