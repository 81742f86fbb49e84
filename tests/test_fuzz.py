"""Damaged inputs of every kind: each ends in two lines that a person can act on, or is accepted and the result right.

`pytest -m slow tests/test_fuzz.py` runs 100 of them; `--fuzz-cases N` and `--fuzz-seed S` run others.
What fails is written to fuzz-failures.jsonl in the working folder, in the form of support/fuzz_corpus.jsonl, which has
what once failed and is run by default.
"""

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import chdir
from itertools import islice
from pathlib import Path

import pytest

from support.damage import Thing
from support.forked import run
from support.fuzzing import ARGUMENTS, ENVIRONMENT, TARGETS, Case, fault, write_world
from support.kills import a_copy
from support.tiny import Tiny

CORPUS = Path(__file__).parent / "support" / "fuzz_corpus.jsonl"
MOVED = 0.12
"""The share of cases in which something else stands at the file's path."""

STREAMS = (Thing.EMPTY, Thing.ZEROS, Thing.DEVICE)
"""What may stand in place of stdin; a shell opens no other."""


@pytest.fixture(scope="module")
def world(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What is damaged in copies; the working folder."""
    with chdir(tmp_path_factory.mktemp("fuzz")):
        write_world(tiny)
        yield Path.cwd()


def cases(seed: int) -> Iterator[Case]:
    """Cases without end, all targets in turn."""
    draw = random.Random(seed)
    while True:
        for target in TARGETS:
            path = Path(target.path)
            if path.is_dir():
                path = draw.choice(sorted(path.rglob("*")))
            command = tuple(draw.choice(target.commands).split())
            things = STREAMS if path.name == "stdin" else list(Thing)
            if path.is_dir() or (path.parts[0] not in (ARGUMENTS, ENVIRONMENT) and draw.random() < MOVED):
                yield Case(str(path), command, draw.choice(things))
            else:
                yield Case(str(path), command, target.damage(draw, path.read_bytes()))


def test_what_once_failed_does_not_fail_again(world: Path, tmp_path: Path) -> None:
    failures = []
    for line in CORPUS.read_text().splitlines():
        case = Case.from_json(line)
        if what := try_case(world, tmp_path, case):
            failures.append(f"{what}: {line[:500]}")
    assert failures == []


@pytest.mark.slow
def test_damaged_inputs_end_in_two_lines_or_are_accepted(
    world: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    seed, count = (request.config.getoption(f"--fuzz-{name}") for name in ("seed", "cases"))
    report = request.config.invocation_params.dir / "fuzz-failures.jsonl"
    outcomes: dict[str, Counter[str]] = {}
    with open(report, "a", encoding="utf-8") as file:
        for case in islice(cases(seed), count):
            what = try_case(world, tmp_path, case, outcomes.setdefault(case.path.partition("/00")[0], Counter()))
            if what:
                file.write(case.to_json(what) + "\n")
                file.flush()
    print(f"seed {seed}: {dict(sum(outcomes.values(), Counter()))}")
    for path, counts in outcomes.items():
        print(f"{path}: {dict(counts)}")
    failed = {what for counts in outcomes.values() for what in counts} - {"accepted", "refused"}
    assert not failed, f"{sorted(failed)}: see {report}"


def try_case(world: Path, folder: Path, case: Case, counts: Counter[str] | None = None) -> str:
    """What is wrong with how the command of a case ends in a copy of the world, nothing otherwise."""
    with a_copy(world, folder / "place"):
        case.put()
        outcome = run(case.words(), Path("stdin"), case.environment())
        what = fault(case, outcome)
    if counts is not None:
        counts[what or ("accepted" if outcome.code == 0 else "refused")] += 1
    return what
