"""`contrast compare`: runs side by side, and whether one method beats the other."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from contrastcli.errors import UsageError
from contrastcli.evaluation import comparison
from contrastcli.runs.directory import Run
from contrastcli.runs.methods import Group
from contrastcli.runs.results import Compared, Paired
from contrastcli.show import console, pictures
from contrastcli.show.pictures import Picture

if TYPE_CHECKING:
    from contrastcli.runs.results import Welch


def check(named: Sequence[Run], bootstrap: bool, dev: str | None) -> list[Run]:
    """The runs that are meant, each once. Raises UsageError where there are not two, or `dev` serves nothing."""
    chosen = list({run.path: run for run in named}.values())
    if len(chosen) < 2:
        raise UsageError("there is only one run to compare", "name two or more runs: see contrast runs")
    if dev and not bootstrap:
        raise UsageError("--dev names the pairs of --bootstrap, which is not asked for", "add --bootstrap")
    return chosen


def compare(chosen: Sequence[Run], bootstrap: bool, dev: str | None) -> Compared:
    """Compare runs; with `bootstrap` also two models on the pairs of `dev`, by default those that chose both.

    Raises DataError and UsageError.
    """
    sides = comparison.compare(chosen)
    pair = _two(chosen, sides.groups) if bootstrap else None
    return Compared(sides, _welch(sides.groups), _paired(*pair, dev) if pair else None)


def draw(chosen: Sequence[Run]) -> list[Picture]:
    """What the runs reported while they trained."""
    labels = pictures.labels([str(run.path) for run in chosen])
    return pictures.of_runs({labels[str(run.path)]: run.events() for run in chosen})


def _welch(groups: Sequence[Group]) -> dict[str, Welch]:
    """Welch's test of each number of two methods; of one, or of three, none."""
    if len(groups) != 2 or any(len(group.counted) < 2 for group in groups):
        return {}
    from contrastcli.evaluation.significance import welch

    first, second = (group.spreads for group in groups)
    return {name: welch(first[name].values, second[name].values) for name in first if name in second}


def _two(chosen: Sequence[Run], groups: Sequence[Group]) -> tuple[Run, Run]:
    """The two runs to set against each other: those named, or the first of each method."""
    if len(chosen) == 2:
        return chosen[0], chosen[1]
    if len(groups) != 2:
        raise UsageError(f"--bootstrap compares two methods, and these are {len(groups)}", "name two runs")
    first, second = (next(run for run in chosen if run.name == group.members[0].name) for group in groups)
    return first, second


def _paired(first: Run, second: Run, dev: str | None) -> Paired:
    from contrastcli.evaluation.significance import compare_models

    data = dev or _dev_of_both(first, second)
    with console.progress() as advance:
        test = compare_models(str(first.path), str(second.path), data, partial(advance, "encoding"))
    return Paired(first.name, second.name, data, test)


def _dev_of_both(first: Run, second: Run) -> str:
    one, other = (run.config().dev.data for run in (first, second))
    if one != other:
        raise UsageError(f"the dev sets of the runs differ: {one} and {other}", "name scored pairs: --dev FILE")
    return one
