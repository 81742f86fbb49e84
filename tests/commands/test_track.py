"""The numbers of a run arrive in each tracker as its own reader reads them, and a tracker that fails harms no run."""

import json
import os
import sqlite3
import struct
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from contrastcli.commands import track
from contrastcli.commands.track import Log
from contrastcli.runs.directory import Run
from contrastcli.runs.event import Event
from contrastcli.runs.event_file import EventWriter
from contrastcli.runs.events import Done, Note
from contrastcli.runs.measured import Step
from contrastcli.runs.process import CONTRAST, hold
from contrastcli.training import process
from support.command import COMMAND, Contrast
from support.kills import contents
from support.recorded import recorded as recorded_run
from support.signs import started
from support.tiny import Tiny, train
from support.waiting import wait_until

Curves = dict[str, dict[int, float]]
"""By name, the values at the steps."""


class Records:
    """A tracker that keeps curves in memory, and can fail at a step."""

    def __init__(self, fails_at: int | None = None) -> None:
        self.curves: Curves = defaultdict(dict)
        self._fails_at = fails_at

    @contextmanager
    def new(self, run: Run) -> Iterator[Log]:
        def log(step: int, at: float, numbers: Mapping[str, float]) -> None:
            assert at > 0
            if step == self._fails_at:
                raise ConnectionError("no route to the tracker\nin two lines")
            for name, value in numbers.items():
                self.curves[name][step] = value

        yield log


def answer_with(monkeypatch: pytest.MonkeyPatch, records: Records) -> Records:
    monkeypatch.setattr(track, "TRACKERS", {"wandb": (records.new, "wandb login")})
    return records


def recorded(run: Run) -> Curves:
    """What a run has recorded of its curves, from the bytes of its events."""
    curves: Curves = defaultdict(dict)
    for event in map(json.loads, run.events_path.read_text().splitlines()):
        kind, step = event["event"], event.get("step", 0)
        if kind == "step":
            for name in ("loss", "lr", "grad_norm"):
                curves[f"step/{name}"][step] = event[name]
            for name, value in event["parts"].items():
                curves[f"step/{name}"][step] = value
        if kind == "angles":
            for name in ("positive", "negative", "hardest"):
                curves[f"angles/{name}"][step] = event[name]
        if kind == "evaluated":
            curves["evaluated/score"][step] = 100 * event["score"]
    return curves


def assert_has(curves: Curves, run: Run) -> None:
    """Assert that curves have what a run has recorded, as exactly as float32 keeps it."""
    for name, values in recorded(run).items():
        assert curves[name] == pytest.approx(values, rel=1e-6), name
    assert len(recorded(run)) == 9 and len(recorded(run)["step/loss"]) == 4


def test_every_curve_arrives_at_its_steps(contrast: Contrast, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    records, before = answer_with(monkeypatch, Records()), contents([run.path])
    answer = contrast("runs", "log", "simple", "--to", "wandb")
    assert (answer.code, answer.out) == (0, "") and "simple" in answer.err
    assert_has(records.curves, run)
    assert contents([run.path]) == before


def test_a_run_is_followed_to_its_end_without_what_a_resume_has_voided(
    contrast: Contrast, tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    records, run = answer_with(monkeypatch, Records()), tiny.run(Path("runs/live"))

    def step(number: int, loss: float) -> Event:
        return Step(step=number, loss=loss, lr=1e-3, epoch=0.1)

    with hold(run) as writer:
        write = EventWriter(run.events_path)
        for event in (started(writer), step(1, 5.0), step(2, 4.0), started(writer, step=1, resumed_from=1)):
            write(event)
        following = Thread(target=contrast, args=("runs", "log", "live", "--to", "wandb", "--follow"))
        following.start()
        wait_until(lambda: records.curves["step/loss"] == {1: 5.0})
        write(step(2, 3.0))
        wait_until(lambda: records.curves["step/loss"] == {1: 5.0, 2: 3.0})
        assert following.is_alive()
        write(step(3, 2.0))
        write(Done(step=3, status="finished", code=0))
        write.close()
        following.join(20)
    assert records.curves["step/loss"] == {1: 5.0, 2: 3.0, 3: 2.0} and not following.is_alive()


def test_how_a_run_has_ended_that_is_followed_is_told(
    contrast: Contrast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer_with(monkeypatch, Records())
    recorded_run(tmp_path / "runs", "killed", "lost")
    answer = contrast("runs", "log", "lost", "--to", "wandb", "--follow")
    assert answer.code == 0 and "\nlost killed: " in answer.err and "--resume lost" in answer.err


def test_a_tracker_that_fails_is_an_error_that_touches_no_run(
    contrast: Contrast, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer_with(monkeypatch, Records(fails_at=2))
    before = contents([run.path])
    answer = contrast("runs", "log", "simple", "--to", "wandb")
    assert (answer.code, answer.out) == (1, "")
    assert answer.err.endswith("contrast: error: wandb: no route to the tracker\nhint: wandb login\n")
    assert contents([run.path]) == before


@pytest.mark.parametrize("name", track.TRACKERS)
def test_a_tracker_that_is_not_installed_is_named_with_its_extra(
    contrast: Contrast, run: Run, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setitem(sys.modules, {"tensorboard": "torch.utils.tensorboard"}.get(name, name), None)
    answer = contrast("runs", "log", "simple", "--to", name)
    hint = f'contrast: error: {name} is not installed here\nhint: pip install "contrastcli[{name}]"\n'
    assert answer.code == 2 and answer.err == hint
    monkeypatch.setattr(track, "find_spec", lambda name: None)
    words = ("train", "--preset", "starter", "--set", f"track.to={name}")
    assert contrast(*words, "--dry-run").err.endswith(hint) and contrast(*words).err.endswith(hint)


@pytest.mark.parametrize("is_there", [True, False])
def test_training_has_a_process_follow_it_and_notes_where_that_has_ended(
    tiny: Tiny, place: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    commands: list[list[str]] = []

    def start(command: list[str], log: Path) -> int:
        commands.append([*command, str(log)])
        ended = subprocess.Popen([sys.executable, "-c", ""])
        ended.wait()
        return os.getpid() if is_there else ended.pid

    monkeypatch.setattr(process, "start_detached", start)
    run = tiny.trained(place, train__max_steps=2, track__to="trackio")
    words = ["runs", "log", str(run.path.resolve()), "--to", "trackio", "--follow", str(run.log_path)]
    assert [command[len(CONTRAST) :] for command in commands] == [words]
    texts = [event.text for event in run.events() if isinstance(event, Note) and "trackio" in event.text]
    assert len(texts) == (not is_there) and all(text.endswith("contrast runs log one --to trackio") for text in texts)
    assert run.status().state == "finished"


def test_a_full_disk_starts_no_tracker_and_stops_no_run(
    tiny: Tiny, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tiny.run(place, train__max_steps=2, track__to="trackio")
    run.log_path.mkdir()
    train(run)
    assert run.status().state == "finished"
    assert sum("trackio" in event.text for event in run.events() if isinstance(event, Note)) == 1


def of_tensorboard(folder: Path, home: Path) -> Curves:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    [place] = (folder / "tensorboard" / "simple").iterdir()
    events = EventAccumulator(str(place))
    events.Reload()
    return {tag: {one.step: one.value for one in events.Scalars(tag)} for tag in events.Tags()["scalars"]}


def of_trackio(folder: Path, home: Path) -> Curves:
    curves: Curves = defaultdict(dict)
    [database] = home.rglob("contrast.db")
    query = "select step, metrics from metrics where run_name = 'simple'"
    for step, metrics in sqlite3.connect(database).execute(query):
        for name, value in json.loads(metrics).items():
            curves[name][step] = value
    return curves


def of_wandb(folder: Path, home: Path) -> Curves:
    wandb_internal_pb2 = pytest.importorskip("wandb.proto.wandb_internal_pb2")
    curves: Curves = defaultdict(dict)
    [path] = folder.glob("wandb/offline-run-*/*.wandb")
    for data in log_records(path.read_bytes()):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        for item in record.history.item:
            name = item.key or "/".join(item.nested_key)
            curves[name][record.history.step.num] = json.loads(item.value_json)
    return curves


def log_records(data: bytes) -> Iterator[bytes]:
    """The records of a file of wandb: a log of LevelDB after a head of seven bytes."""
    position, record = 7, b""
    while position + 7 <= len(data):
        left = 32768 - position % 32768
        if left < 7:
            position += left
            continue
        _, length, kind = struct.unpack_from("<IHB", data, position)
        record += data[position + 7 : position + 7 + length]
        position += 7 + length
        if kind in (1, 4):  # whole, or the last part
            yield record
            record = b""


def of_mlflow(folder: Path, home: Path) -> Curves:
    from mlflow import MlflowClient

    client: Any = MlflowClient(f"sqlite:///{folder}/curves.db")
    [record] = client.search_runs([client.get_experiment_by_name("contrast").experiment_id])
    names = record.data.metrics
    return {
        name: {one.step: one.value for one in client.get_metric_history(record.info.run_id, name)} for name in names
    }


READERS: Mapping[str, Callable[[Path, Path], Curves]] = {
    "tensorboard": of_tensorboard,
    "trackio": of_trackio,
    "wandb": of_wandb,
    "mlflow": of_mlflow,
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", READERS)
def test_each_tracker_reads_the_curves_back(run: Run, tmp_path: Path, name: str) -> None:
    pytest.importorskip(name)
    home = tmp_path / "home"
    config = run.config().with_values({"alerts.webhook": "https://hooks.example.org/s3cret"})
    run.write_config(config)
    offline = {"WANDB_MODE": "offline", "MLFLOW_TRACKING_URI": f"sqlite:///{tmp_path}/curves.db"}
    environment = os.environ | offline | {"HOME": str(home), "HF_HOME": str(home)}
    words = [*COMMAND, "runs", "log", str(run.path), "--to", name]
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert_has(READERS[name](tmp_path, home), run)
    files = [path for path in tmp_path.rglob("*") if path.is_file() and run.path.resolve() not in path.parents]
    # SQLite removes its log when the last reader leaves.
    files = [path for path in files if path.suffix not in (".db-wal", ".db-shm")]
    assert files and not [path for path in files if b"s3cret" in path.read_bytes()]
