"""The n-th write, fsync, rename, unlink or open of any command that writes fails: two lines, nothing lost, and the same
command called again comes to the same result. A power cut there, which loses all that is not flushed, harms as little.

`pytest -m "" tests/test_failing_disks.py` lets three of them fail in each command; `--failures N` more, 0 every one.
"""

import errno
import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import test_kills as kills
from test_kills import Kind, training, world

from contrastcli.errors import EXIT_CODES
from contrastcli.runs import directory, status
from support import forked
from support.failing import POWER_CUT, Commands, Failed, commands
from support.kills import a_copy

__all__ = ["world"]

SHORT = "--max-steps 4 --save-every 2 --set dev.every=2"
KINDS = {
    # A cache that could not be written costs time alone.
    "train": replace(training("simcse", "sentences", SHORT), folders=()),
    "mined": replace(training("simcse", "pairs", f"{SHORT} --mine-every 2"), folders=()),
    "sweep": replace(kills.KINDS["sweep"], folders=()),
    "papers run": kills.KINDS["papers run"],
    "resume": Kind("train --resume simple --max-steps 10 --no-ui", folders=("runs/simple/checkpoints",)),
    **{
        name: kills.KINDS[name]
        for name in (
            *("tokens", "vectors", "export", "export over another", "eval", "eval --out", "encode npy"),
            *("encode safetensors", "encode parquet", "mine", "encode over another", "rm", "prune"),
        )
    },
}
ERRORS = {"ENOSPC": True, "EIO": False, "EINTR": False, "power cut": False}
"""The errors, and whether they stay: a disk stays full."""

HELPS = {"ENOSPC": "make room on the disk of /", "EIO": "check the disk", "EINTR": ""}

QUICK = ("train", "encode npy")
"""The kinds of which the quick tests have some failures."""

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")


@pytest.fixture(scope="module")
def disks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    """Runs commands on failing disks."""
    with commands(tmp_path_factory.mktemp("failing")) as made:
        yield made


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name not in QUICK)) for name in KINDS])
def test_no_failing_write_loses_anything(
    world: Path, tmp_path: Path, disks: Commands, name: str, request: pytest.FixtureRequest
) -> None:
    failures = fail_some(world, tmp_path, disks, name, request.config.getoption("--failures"))
    assert failures == []


def fail_some(world: Path, tmp_path: Path, disks: Commands, name: str, count: int) -> list[dict[str, object]]:
    """What was wrong after so many failures, spread over all changes of a command and all errors; 0: after each."""
    kind = KINDS[name]
    with a_copy(world, tmp_path / "place"):
        whole = disks(kind.next_command())
        assert whole.code == 0 and whole.changes > 0, whole
        expected = kills.results(kind)
    every = [(n, error) for n in range(1, whole.changes + 1) for error in ERRORS]
    # Not a multiple of the number of errors, so that each has its turn.
    step = len(every) // count | 1 if count else 1
    wrong: list[dict[str, object]] = []
    for n, error in every[step // 2 :: step]:
        with a_copy(world, tmp_path / "place"):
            failed = disks(kind.next_command(), n, getattr(errno, error, POWER_CUT), stays=ERRORS[error])
            try:
                if error != "power cut":
                    check_report(failed, error)
                check_runs(disks, name)
                again = disks(kind.next_command())
                assert kills.is_done(forked.Outcome(again.code, again.out, again.err, 0)), f"then {again}"
                actual = kills.results(kind)
                assert [key for key in expected if actual.get(key) != expected[key]] == []
            except (AssertionError, Exception) as fault:
                record = {"kind": name, "n": n, "error": error, "change": failed.change}
                wrong.append(record | {"fault": str(fault)[:1500], "code": failed.code, "err": failed.err[-600:]})
    print(f"{name}: {len(every[step // 2 :: step])} of {len(every)} failures, {len(wrong)} wrong")
    return wrong


def check_runs(disks: Commands, name: str) -> None:
    """Every run is whole, unless it is being deleted, and is not said to be in progress."""
    for run in directory.list_runs(Path("runs")):
        assert run.status().state not in status.IN_PROGRESS or not run.events_path.exists(), run.status()
        if name != "rm":
            kills.check_whole(run)
            checks = json.loads(disks(["runs", "verify", run.name, "--json"]).out)
            assert [check for check in checks if not check["ok"]] == []


def check_report(failed: Failed, error: str) -> None:
    """The command has done its work, or says in two lines which file cannot be written, and what helps."""
    assert failed.code in EXIT_CODES, "no documented exit code"
    assert "Traceback" not in failed.err and "Error:" not in failed.err
    if failed.code:
        what, hint = failed.err.splitlines()[-2:]
        assert failed.code == 1 and what.startswith("contrast: error: ") and hint.startswith("hint: ")
        assert os.strerror(getattr(errno, error)) in what and HELPS[error] in hint, failed.err
        assert re.search(r"cannot (write|read|be)|[/.]", what)
        assert failed.err.count("contrast: error") == 1
