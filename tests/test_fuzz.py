"""Damaged inputs of every kind: each ends in two lines that a person can act on, or is accepted.

`pytest -m slow tests/test_fuzz.py` runs 100 of them; `--fuzz-cases N` and `--fuzz-seed S` run others.
What fails is written to fuzz-failures.jsonl in the working folder.
"""

from __future__ import annotations

import base64
import gzip
import io
import json
import os
import random
import re
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from socket import gethostname
from typing import NamedTuple

import pytest
from datasets import Dataset

from contrastcli.errors import EXIT_CODES
from support.damage import Damage, damage_bytes, damage_gzip, damage_json, damage_place, damage_toml
from support.tiny import Tiny

TIMEOUT = 60
"""Seconds after which a command hangs."""
MEMORY_MB = 2_000
MOVED = 0.15
"""The share of cases in which something else stands at the file's path."""

TRAIN = [
    *("train", "--objective", "pairsupcon", "--backbone", "tiny/backbone", "--data", "tiny/labelled.jsonl"),
    *("--dev", "tiny/dev.jsonl", "--batch-size", "8", "--max-steps", "2", "--no-ui", "--device", "cpu"),
    *("--precision", "fp32"),
]
LOOK = (
    ["runs"],
    ["runs", "--json"],
    ["runs", "show", "simple"],
    ["runs", "show", "simple", "--json"],
    ["watch", "simple"],
    ["watch", "simple", "--json"],
    ["compare", "simple", "other"],
    ["stop", "simple"],
    ["runs", "rm", "simple", "--yes"],
    ["runs", "prune", "--yes"],
)
RESUME = (["train", "--resume", "simple", "--max-steps", "6", "--no-ui"],)
QUERY = (["query", "--model", "simple", "bo da", "ka len"], ["export", "simple", "out"])
TINY = ["--model", "tiny/backbone"]
SEARCH = ["query", *TINY, "--corpus", "data/sentences.txt", "bo da"]
SETTINGS = ["--config", "settings.toml"]
SWEEP = (["runs"], ["sweep", "--resume", "grid"], ["compare", "grid"], ["runs", "show", "grid"])
MODEL = (
    ["query", "--model", "model", "bo da", "ka len"],
    ["encode", "tiny/sentences.jsonl", "out.npy", "--model", "model"],
    [*TRAIN, "--backbone", "model"],
)


def data(name: str) -> Sequence[list[str]]:
    """Commands that read a file of data."""
    return (
        [*TRAIN, "--objective", "simcse", "--data", name, "--dry-run"],
        [*TRAIN, "--objective", "simcse", "--data", name],
        ["query", *TINY, "--corpus", name, "bo da"],
        ["encode", name, "out.npy", *TINY],
        [*TRAIN, "--dev", name],
    )


@dataclass(frozen=True)
class Target:
    """A file, how it is damaged, and the commands that meet it."""

    path: str
    damage: Damage
    commands: Sequence[Sequence[str]]


TARGETS: tuple[Target, ...] = (
    Target("runs/simple/events.jsonl", damage_json, (*LOOK, *RESUME)),
    Target("runs/simple/events.jsonl", damage_bytes, (*LOOK, *RESUME)),
    Target("runs/simple/alive", damage_json, (*LOOK[:4], *RESUME)),  # `watch` waits for a process that may be alive
    Target("runs/simple/config.toml", damage_toml, (*LOOK, *RESUME, *QUERY)),
    Target("runs/simple/scores.json", damage_json, (*LOOK, *QUERY)),
    Target("runs/simple/environment.json", damage_json, (*LOOK, *RESUME)),
    Target("runs/simple/checkpoints.json", damage_json, (*LOOK, *RESUME, *QUERY)),
    Target("runs/simple/checkpoints/000004/training/position.json", damage_json, (*RESUME, *QUERY)),
    Target("runs/simple/checkpoints/000004/training/optimizer.safetensors", damage_bytes, RESUME),
    Target("runs/simple/checkpoints/000004/model.safetensors", damage_bytes, (*RESUME, *QUERY)),
    Target("runs/simple/checkpoints/000004/config.json", damage_json, (*RESUME, *QUERY)),
    Target("runs/simple/checkpoints", damage_bytes, (*LOOK, *RESUME, *QUERY)),
    Target("runs/grid.sweep.toml", damage_toml, SWEEP),
    Target("model/config.json", damage_json, MODEL),
    Target("model/tokenizer.json", damage_json, MODEL),
    Target("model/tokenizer.json", damage_bytes, MODEL),
    Target("model/tokenizer_config.json", damage_json, MODEL),
    Target("model/modules.json", damage_json, MODEL),
    Target("model/1_Pooling/config.json", damage_json, MODEL),
    Target("model/sentence_bert_config.json", damage_json, MODEL),
    Target("model/model.safetensors", damage_bytes, MODEL),
    Target("data/labelled.jsonl", damage_json, data("data/labelled.jsonl")),
    Target("data/labelled.jsonl", damage_bytes, data("data/labelled.jsonl")),
    Target("data/labelled.csv", damage_bytes, data("data/labelled.csv")),
    Target("data/labelled.tsv", damage_bytes, data("data/labelled.tsv")),
    Target("data/sentences.txt", damage_bytes, data("data/sentences.txt")),
    Target("data/rows.json", damage_json, data("data/rows.json")),
    Target("data/labelled.jsonl.gz", damage_gzip, data("data/labelled.jsonl.gz")),
    Target("data/labelled.parquet", damage_bytes, data("data/labelled.parquet")),
    Target(
        "settings.toml", damage_toml, ([*TRAIN, "--config", "settings.toml"], ["config", "--config", "settings.toml"])
    ),
    Target("contrast.toml", damage_toml, (TRAIN, ["config", "show"], ["runs"])),
    Target("cache/tokens", damage_bytes, (TRAIN,)),
    Target(
        "cache/vectors",
        damage_bytes,
        (["query", "--model", "tiny/backbone", "--corpus", "data/sentences.txt", "bo da"],),
    ),
    Target(
        "stdin",
        damage_bytes,
        (["query", "--model", "tiny/backbone", "-"], ["encode", "-", "out.npy", "--model", "tiny/backbone"]),
    ),
)


@dataclass(frozen=True)
class Case:
    """A target, by its number, the seed of the damage, and the command that meets it."""

    target: int
    seed: int
    command: Sequence[str]


def cases(seed: int) -> Iterator[Case]:
    """Cases without end, all targets in turn."""
    draw = random.Random(seed)
    while True:
        for number, target in enumerate(TARGETS):
            yield Case(number, draw.randrange(2**32), draw.choice(target.commands))


def damage(case: Case) -> bytes | None:
    """Damage the case's file in the working folder; returns what it then holds, None where it is no file any more."""
    draw, target = random.Random(case.seed), TARGETS[case.target]
    path = Path(target.path)
    if path.is_dir():
        path = draw.choice(sorted(path.rglob("*")))
    if path.is_dir() or (target.path != "stdin" and draw.random() < MOVED):
        damage_place(draw, path)
        return None
    damaged = target.damage(draw, path.read_bytes())
    path.write_bytes(damaged)
    return damaged


class Outcome(NamedTuple):
    """How a command ended: its exit code or the negative number of a signal, its output, and its memory."""

    code: int
    out: str
    err: str
    memory_mb: float

    def fault(self, *, watched: bool = False) -> str:  # noqa: PLR0911 - a fault each
        """What is wrong with it; nothing for an accepted input and for an error of two lines."""
        if self.code == -signal.SIGALRM:
            return "hangs"
        if self.code < 0:
            return f"ends by signal {-self.code}"
        if self.memory_mb > MEMORY_MB:
            return f"takes {self.memory_mb:,.0f} MB"
        if "Traceback" in self.err:
            return "traceback"
        if "--debug" in self.err:
            return "unexpected exception"
        if control := set(re.findall(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", self.out + self.err.replace("\r", ""))):
            return f"control characters {sorted(control)}"
        if self.code == 0 or watched:
            return ""
        if self.code not in EXIT_CODES:
            return f"exit code {self.code}"
        lines = self.err.splitlines()[-2:]
        starts = ("contrast: error: ", "hint: ")
        is_clean = len(lines) == 2 and all(map(str.startswith, lines, starts))
        return "" if is_clean else "no error of two lines"


def run_forked(command: Sequence[str], stdin: Path | None = None) -> Outcome:
    """Run a command line in a fork of this process, which has imported everything."""
    pid = os.fork()
    if pid == 0:
        signal.alarm(TIMEOUT)
        for stream, path, flags in (
            (0, stdin or Path(os.devnull), os.O_RDONLY),
            (1, Path("out.txt"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
            (2, Path("err.txt"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
        ):
            os.dup2(os.open(path, flags), stream)
        sys.stdin, sys.stdout, sys.stderr = (
            io.TextIOWrapper(open(stream, mode, closefd=False), "utf-8")  # noqa: SIM115 - until this process ends
            for stream, mode in ((0, "rb"), (1, "wb"), (2, "wb"))
        )
        sys.argv = ["contrast", *command]
        os.environ.update(CONTRAST_CACHE=str(Path("cache").resolve()), CONTRAST_RUNS="runs")
        code = 255
        try:
            from contrastcli.cli import main

            code = main()
            sys.stdout.flush()
        finally:
            sys.stderr.flush()
            os._exit(code)
    _, status, usage = os.wait4(pid, 0)
    out, err = (Path(name).read_text("utf-8", "replace") for name in ("out.txt", "err.txt"))
    return Outcome(os.waitstatus_to_exitcode(status), out, err, usage.ru_maxrss / 1024)


@pytest.fixture(scope="session")
def world(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with runs, a sweep, an exported model, data of every format and caches."""
    folder = tmp_path_factory.mktemp("world")
    shutil.copytree(tiny.backbone.parent, folder / "tiny")
    (folder / "data").mkdir()
    rows = [json.loads(line) for line in (folder / "tiny/labelled.jsonl").read_text().splitlines()][:40]
    texts = {
        "labelled.jsonl": "".join(json.dumps(row) + "\n" for row in rows),
        "rows.json": json.dumps({"data": rows}),
        "labelled.csv": "".join(",".join(line) + "\n" for line in [rows[0], *(row.values() for row in rows)]),
        "labelled.tsv": "".join("\t".join(line) + "\n" for line in [rows[0], *(row.values() for row in rows)]),
        "sentences.txt": "".join(f"{row['premise']}\n" for row in rows),
    }
    for name, text in texts.items():
        (folder / "data" / name).write_text(text)
    (folder / "data/labelled.jsonl.gz").write_bytes(gzip.compress(texts["labelled.jsonl"].encode()))
    Dataset.from_list(rows).to_parquet(folder / "data/labelled.parquet")
    (folder / "stdin").write_text("bo da\tka len\nmo ra\tto sa\n" * 20)
    (folder / "settings.toml").write_text("[train]\nlr = 1e-3\n[objective]\ntau = 0.1\n[dev]\nevery = 1\n")
    (folder / "contrast.toml").write_text('[train]\nlr = 1e-3\n[model]\npooling = "mean"\n')
    before = Path.cwd()
    os.chdir(folder)
    try:
        for command in (
            [*TRAIN, "--name", "simple", "--max-steps", "4"],
            [*TRAIN, "--name", "other"],
            [
                "sweep",
                *(word for word in TRAIN[1:] if word != "--no-ui"),
                "--name",
                "grid",
                "--grid",
                "objective.tau=0.1,0.2",
            ],
            ["export", "simple", "model"],
            SEARCH,
            ["eval", "simple", "--suite", "geometry"],
        ):
            outcome = run_forked(command)
            assert outcome.code == 0, outcome
        Path("runs/simple/alive").write_text(json.dumps({"host": gethostname(), "pid": 2**30, "process_start": 0.0}))
    finally:
        os.chdir(before)
    return folder


@pytest.mark.slow
def test_damaged_inputs_end_in_two_lines_or_are_accepted(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    count = request.config.getoption("--fuzz-cases")
    report = Path.cwd() / "fuzz-failures.jsonl"
    outcomes: Counter[str] = Counter()
    for case in islice(cases(request.config.getoption("--fuzz-seed")), count):
        place = tmp_path / "place"
        shutil.copytree(world, place, symlinks=True)
        monkeypatch.chdir(place)
        damaged = damage(case)
        outcome = run_forked(case.command, Path("stdin"))
        fault = outcome.fault(watched=case.command[0] == "watch")
        outcomes[fault or ("accepted" if outcome.code == 0 else "refused")] += 1
        if fault:
            content = None if damaged is None else base64.b64encode(damaged[:20_000]).decode()
            path = TARGETS[case.target].path
            line = {"fault": fault, "path": path, **asdict(case), "err": outcome.err[-600:], "damaged": content}
            with open(report, "a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        monkeypatch.chdir(tmp_path)
        shutil.rmtree(place)
    faults = {fault: number for fault, number in outcomes.items() if fault not in ("accepted", "refused")}
    assert not faults, f"{dict(outcomes)}: see {report}"
