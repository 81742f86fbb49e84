"""A whole step runs on a device that is not the CPU, without mixing devices and without waiting for it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.fake_gpu import REFUSED, chosen
from support.trainers import case_id


@pytest.mark.slow
def test_a_step_of_every_objective_stays_on_its_device() -> None:
    tests = Path(__file__).parents[1]
    command = [sys.executable, "-m", "support.fake_gpu"]
    answer = subprocess.run(command, cwd=tests, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    errors = dict(json.loads(line) for line in answer.stdout.splitlines())
    assert {name for name in REFUSED if errors.pop(name)} == REFUSED.keys()  # the device finds what it is for
    assert errors.pop("several devices") == ""
    assert errors == {case_id(case): "" for case in chosen()}
