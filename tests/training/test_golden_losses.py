"""The first steps of every objective are those recorded in golden_losses.json.

    CONTRAST_GOLDEN=write python -m pytest tests/training/test_golden_losses.py

writes the file again, for a change that is meant to alter them: look at the difference, and say why in the commit.
"""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from contrastcli.runs.measured import Angles, Step
from contrastcli.settings.catalogue import built_in
from contrastcli.settings.objective import Spec
from support.tiny import Tiny, told

STEPS = 20
TOLERANCE = 1e-4
"""Of the largest number of its line: in 20 steps the rounding of another instruction set grows to a quarter of it."""

Numbers = list[float | None]

_PATH = Path(__file__).with_name("golden_losses.json")
_RENEW = os.environ.get("CONTRAST_GOLDEN") == "write"  # read before a fixture clears the environment


def first_steps(tiny: Tiny, folder: Path, spec: Spec) -> dict[str, Numbers]:
    """The numbers of each step, by `objective number`; angles are in degrees."""
    settings = {"train__max_steps": STEPS, "dev__data": "none"}
    run = tiny.trained(folder / spec.name, spec.name, spec.needs[0], **settings)
    steps, angles = told(run, Step), told(run, Angles)
    numbers: dict[str, Numbers] = {name: [getattr(one, name) for one in steps] for name in ("loss", "grad_norm")}
    numbers |= {name: [getattr(one, name) for one in angles] for name in ("positive", "negative", "hardest")}
    return {f"{spec.name} {name}": values for name, values in numbers.items()}


def recorded() -> dict[str, Numbers]:
    lines: dict[str, Numbers] = json.loads(_PATH.read_text())
    return lines


def record(numbers: dict[str, Numbers]) -> None:
    """Replace lines of the file, and drop those of objectives that are no more."""
    lines = (recorded() if _PATH.exists() else {}) | numbers
    short = {name: [None if n is None else float(f"{n:.7g}") for n in values] for name, values in lines.items()}
    kept = [name for spec in built_in() for name in short if name.split()[0] == spec.name]
    _PATH.write_text("{\n" + ",\n".join(f"{json.dumps(name)}: {json.dumps(short[name])}" for name in kept) + "\n}\n")


@pytest.mark.parametrize("spec", built_in(), ids=lambda spec: spec.name)
def test_the_first_steps_are_as_recorded(tiny: Tiny, tmp_path: Path, spec: Spec) -> None:
    numbers = first_steps(tiny, tmp_path, spec)
    if _RENEW:
        record(numbers)
    expected = {name: values for name, values in recorded().items() if name.split()[0] == spec.name}
    assert numbers.keys() == expected.keys(), f"not the lines of {_PATH}; CONTRAST_GOLDEN=write writes it again"
    for name, values in numbers.items():
        assert len(values) == STEPS
        one, other = (np.array(some, dtype=np.float64) for some in (values, expected[name]))
        limit = TOLERANCE * np.nanmax(np.abs(other), initial=0.0)
        np.testing.assert_allclose(one, other, rtol=0, atol=limit, err_msg=f"{name}; CONTRAST_GOLDEN=write rewrites")


def test_the_file_has_no_other_objectives() -> None:
    assert {name.split()[0] for name in recorded()} == {spec.name for spec in built_in()}
