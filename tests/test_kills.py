"""SIGKILL at any moment of any command that writes: nothing is lost or half written, and the same bits in the end.

`pytest -m slow tests/test_kills.py` kills 8 times; `--kills N` and `--kill-seed S` kill otherwise.
What fails is written to kill-failures.jsonl in the working folder.
"""

import json
import random
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import chdir
from dataclasses import dataclass
from functools import cache
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from contrastcli.model.folder import load_encoder
from contrastcli.runs import directory
from contrastcli.runs.directory import Run
from contrastcli.runs.events import Done, decode
from support import sts_files
from support.forked import Outcome, run
from support.kills import Course, a_copy, contents, detached, drafts, kill_detached, kill_somewhere, observe
from support.resuming import story
from support.tiny import Tiny
from support.waiting import wait_until

SETTINGS = (
    "--backbone tiny/backbone --dev tiny/dev.jsonl --batch-size 8 --max-steps 8 --save-every 2 --set dev.every=3"
    " --lr 1e-3 --log-every 1 --device cpu --precision fp32"
)
PAPER = (
    "--rows SimACE --backbones BERT-base --scale 0.00004 --seeds 1 --data-dir senteval"
    " --set model.backbone=tiny/backbone --set data.train=tiny/sentences.jsonl --set dev.data=tiny/dev.jsonl"
    " --set train.batch_size=8 --set train.device=cpu --set train.precision=fp32 --set train.log_every=1"
)
SEARCH = "query --model simple --corpus tiny/sentences.jsonl --json"
SCORES = "eval simple --suite sts,geometry --data-dir senteval --json"


@dataclass(frozen=True)
class Kind:
    """A command that is killed, the one that continues it once the file `begun` exists, and what they write.

    An output is absent, as before or complete; what is in `folders` is complete in the end.
    """

    command: str
    begun: str = ""
    again: str = ""
    outputs: Sequence[str] = ()
    folders: Sequence[str] = ()
    detaches: bool = False

    def next_command(self) -> list[str]:
        return (self.again if self.begun and Path(self.begun).exists() else self.command).split()


def training(objective: str, form: str, changes: str = "", how: str = "--no-ui") -> Kind:
    """A run of an objective on a form of rows."""
    command = f"train --objective {objective} --data tiny/{form}.jsonl {SETTINGS} --name one {changes} {how}"
    again = "train --resume one --no-ui"
    return Kind(command, "runs/one/config.toml", again, folders=("cache/tokens",), detaches=how == "--detach")


KINDS: dict[str, Kind] = {
    "simcse": training("simcse", "sentences"),
    "arccon": training("arccon", "pairs", "--schedule cosine --warmup 0.3"),
    "pairsupcon": training("pairsupcon", "labelled", "--head keep --head-lr 1e-2"),
    "supcon": training("supcon", "grouped", "--positives 1 --negatives 4"),
    "augment": training("augment", "grouped"),
    "softmax": training("softmax", "labelled", "--pooling cls"),
    "pcl": training("pcl", "sentences", "--max-steps 5"),
    "rankcse": training("rankcse", "pairs", "--teachers tiny/backbone:cls=2,tiny/backbone"),
    "masked tokens": training("simcse", "triplets", "--mlm-weight 0.1 --head train-only"),
    "mined": training("simcse", "pairs", "--mine-every 3"),
    "chunks": training("simcse", "pairs", "--token-budget 64 --max-steps 4"),
    "bf16": training("simcse", "sentences", "--precision bf16"),
    "patience": training("simcse", "sentences", "--set dev.patience=2 --max-steps 40 --lr 0.03"),
    "best before last": training("simcse", "pairs", "--lr 0.03"),
    "three kept": training("dcl", "pairs", "--set train.keep=3 --max-steps 10"),
    "two epochs": training("pairsupcon", "labelled", "--limit 64 --epochs 2 --max-steps 0"),
    "detach": training("simcse", "sentences", "--max-steps 40", "--detach"),
    "sweep": Kind(
        f"sweep --objective simcse --data tiny/sentences.jsonl {SETTINGS} --name one --grid objective.tau=0.05,0.1",
        *("runs/one.sweep.toml", "sweep --resume one"),
        detaches=True,
    ),
    "papers run": Kind(f"papers run simace table-2 {PAPER}", detaches=True),
    "tokens": Kind(f"{SEARCH} bo", folders=("cache/tokens", "cache/vectors", "cache/checksums")),
    "vectors": Kind(f"{SEARCH} da", folders=("cache/vectors", "cache/checksums")),
    "export": Kind("export simple out", "out", "export simple out --overwrite", ("out",)),
    "export over another": Kind("export simple old --overwrite", outputs=("old",)),
    "eval": Kind(SCORES, folders=("runs/simple/scores.json", "cache/scores")),
    "eval --out": Kind(f"{SCORES} --out pictures", folders=("pictures/scores.json", "cache/scores")),
    **{
        f"encode {end}": Kind(f"encode tiny/sentences.jsonl -o out.{end} --model simple", outputs=(f"out.{end}",))
        for end in ("npy", "safetensors", "parquet")
    },
    "mine": Kind("mine tiny/pairs.jsonl -o out.jsonl --model simple", outputs=("out.jsonl", "out.jsonl.mined")),
    "encode over another": Kind("encode tiny/sentences.jsonl -o old.npy --model simple", outputs=("old.npy",)),
    "rm": Kind("runs rm simple --yes", folders=("runs",)),
    "prune": Kind("runs prune", folders=("runs",)),
}


@pytest.fixture(scope="module")
def world(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data, a finished run, and outputs to be replaced."""
    folder = tmp_path_factory.mktemp("world")
    shutil.copytree(tiny.backbone.parent, folder / "tiny")
    sts_files.write_all(folder / "senteval")
    with chdir(folder):
        simple = training("simcse", "sentences").command.replace("--name one", "--name simple")
        for command in (
            simple,
            "export tiny/backbone old",
            "encode tiny/sentences.jsonl -o old.npy --model tiny/backbone",
        ):
            outcome = run(command.split())
            assert outcome.code == 0, outcome
    return folder


@pytest.mark.slow
def test_no_kill_damages_anything(world: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    count = request.config.getoption("--kills")
    draw = random.Random(request.config.getoption("--kill-seed"))
    report = Path.cwd() / "kill-failures.jsonl"
    kills: Counter[str] = Counter()
    failures = []

    @cache
    def undisturbed(name: str) -> tuple[Course, dict[str, Any]]:
        with a_copy(world, tmp_path / "place"):
            course = observe(KINDS[name].next_command())
            assert course.outcome.code == 0, course.outcome
            finish_detached()
            return course, results(KINDS[name])

    for name in cycle(draw.sample([*KINDS], len(KINDS))):
        if kills.total() >= count:
            break
        course, expected = undisturbed(name)
        most = draw.randint(1, max(1, min(6, count // 20)))
        places: list[str] = []
        with a_copy(world, tmp_path / "place"):
            try:
                for place in kill_often(KINDS[name], draw, course, expected, most):
                    places.append(place)
            except (AssertionError, ValueError) as error:
                failures.append({"kind": name, "killed": places, "error": str(error)[:2000]})
        kills[name] += len(places)
    print(f"{kills.total()} kills: {dict(kills)}")
    report.write_text("".join(json.dumps(failure) + "\n" for failure in failures))
    assert not failures, f"{len(failures)} failures: see {report}"


def kill_often(kind: Kind, draw: random.Random, course: Course, expected: dict[str, Any], most: int) -> Iterator[str]:
    """Kill a command and those that continue it until one ends by itself; yields where each was killed."""
    before = {name: contents([Path(name)]) for name in kind.outputs}
    for _ in range(most):
        place, outcome = kill_somewhere(draw, kind.next_command(), course)
        killed = outcome.code == -9
        if killed:
            yield place
        if kind.detaches:
            for _ in range(kill_detached(draw, Path.cwd())):
                killed = True
                yield "in the process that it started"
        assert killed or is_done(outcome), f"{place}: {outcome}"
        check_runs(kind)
        for name in kind.outputs:
            now = contents([Path(name)])
            assert now in ({}, before[name], expected[name]), f"{place}: {name} is half written: {sorted(now)}"
        if not killed:
            break
    else:
        outcome = run(kind.next_command())
        assert is_done(outcome), f"{kind.next_command()}: {outcome}"
        finish_detached()
    check_runs(kind)
    actual = results(kind)
    assert actual.keys() == expected.keys(), f"{sorted(actual)} instead of {sorted(expected)}"
    assert [name for name in expected if actual[name] != expected[name]] == []


def is_done(outcome: Outcome) -> bool:
    """Whether a command has done its work, also where a killed one had removed the run already."""
    return outcome.code == 0 or "there is no run" in outcome.err


def results(kind: Kind) -> dict[str, Any]:
    """What a kind has written, with what it has left."""
    runs = [one for one in directory.list_runs(Path("runs")) if one.name != "simple"]
    return {
        **{f"{one.name}: checkpoints": contents([one.checkpoints_dir, one.checkpoints_path]) for one in runs},
        **{f"{one.name}: events": story(one) for one in runs},
        **{name: contents([Path(name)]) for name in kind.outputs},
        **{name: contents([Path(name)]) for name in kind.folders},
        "left": sorted(str(path) for path in drafts()),
    }


def finish_detached() -> None:
    wait_until(lambda: not detached(Path.cwd()))


def check_runs(kind: Kind) -> None:
    """Every run is whole, unless it is being deleted, and the command line says how it ended."""
    listed = run(["runs", "list", "--json"])
    assert listed.code == 0, listed
    by_name = {one["name"]: one for one in json.loads(listed.out)}
    runs = directory.list_runs(Path("runs"))
    assert by_name.keys() == {one.name for one in runs}
    assert all(json.loads(path.read_bytes()) for path in Path().glob("[!.]*/*.json"))  # drafts may be torn
    for one in runs:
        check_whole(one)
        checks = json.loads(run(["runs", "verify", one.name, "--json"]).out) if kind is not KINDS["rm"] else []
        assert [check for check in checks if not check["ok"]] == []
        ends = [event.status for event in one.events()[-1:] if isinstance(event, Done)]
        expected = set(ends) or {"killed"} | ({"starting"} if not one.alive_path.exists() else set())
        assert by_name[one.name]["state"] in expected, (by_name[one.name], expected)


def check_whole(one: Run) -> None:
    """What checkpoints.json names loads, and no file of the run is torn; only an event's last line may be."""
    lines = one.events_path.read_bytes().splitlines() if one.events_path.exists() else []
    assert [line for line in lines[:-1] if decode(line) is None] == []
    one.config()
    for path in [one.environment_path, one.checkpoints_path, one.alive_path, one.scores_path]:
        assert not path.exists() or json.loads(path.read_bytes())
    for which, name in one.checkpoints().items():
        folder = one.checkpoints_dir / name
        load_encoder(folder)
        for path in folder.rglob("*.json"):
            json.loads(path.read_text())
        if which == "last":
            for path in folder.rglob("*.safetensors"):
                load_file(path)
