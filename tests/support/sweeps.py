"""Sweeps in tests: over any settings, under the name `s`."""

from collections.abc import Mapping
from pathlib import Path

from contrastcli.commands.job import flag_layer
from contrastcli.runs import sweeps
from contrastcli.runs.sweeps import Sweep
from contrastcli.settings.config import Layer
from support.settings import layer


def flags(*assignments: str) -> Layer:
    """What `--set KEY=VALUE` gives."""
    return flag_layer(assignments)


def make_sweep(
    directory: Path, below: Mapping[str, object], *grid: str, seeds: int = 1, set_: tuple[str, ...] = ()
) -> Sweep:
    """A sweep over `grid`, words as KEY=VALUE,VALUE; `set_` holds the assignments for all cells."""
    above = flags(*set_)
    return sweeps.make([layer(below)], above, sweeps.parse(grid, above), seeds, "s", directory)


def names(sweep: Sweep) -> list[str]:
    """The names of a sweep's cells, in order."""
    return [cell.name for cell in sweep.cells(Path())]
