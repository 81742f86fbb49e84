"""`contrast compare`: runs side by side, and whether one method beats the other."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from msgspec import structs

from contrastcli.errors import UsageError
from contrastcli.evaluation import comparison
from contrastcli.runs.directory import Run
from contrastcli.runs.results import Bootstrap, Comparison, Method, Welch
from contrastcli.show import console, pictures
from contrastcli.show.pictures import Picture


def check(named: Sequence[Run], bootstrap: bool, dev: str | None) -> list[Run]:
    """The runs that are meant, each once. Raises UsageError where there are not two, or `dev` serves nothing."""
    chosen = list({run.path: run for run in named}.values())
    if len(chosen) < 2:
        raise UsageError("there is only one run to compare", "name two or more runs: see contrast runs")
    if dev and not bootstrap:
        raise UsageError("--dev names the pairs of --bootstrap, which is not asked for", "add --bootstrap")
    return chosen


def compare(chosen: Sequence[Run], bootstrap: bool, dev: str | None) -> Comparison:
    """Compare runs; with `bootstrap` also two models on the pairs of `dev`, by default those that chose both.

    Raises DataError and UsageError.
    """
    compared = comparison.compare(chosen)
    tested = structs.replace(compared, welch=_welch(compared.groups))
    return structs.replace(tested, bootstrap=_bootstrap(*_two(chosen, compared.groups), dev)) if bootstrap else tested


def draw(chosen: Sequence[Run]) -> list[Picture]:
    """What the runs reported while they trained."""
    labels = pictures.labels([str(run.path) for run in chosen])
    return pictures.of_runs({labels[str(run.path)]: run.events() for run in chosen})


def _welch(methods: Sequence[Method]) -> dict[str, Welch]:
    """Welch's test of each number of two methods; of one, or of three, none."""
    if len(methods) != 2 or any(method.n < 2 for method in methods):
        return {}
    from contrastcli.evaluation.significance import welch

    first, second = (method.scores for method in methods)
    return {name: welch(first[name].values, second[name].values) for name in first if name in second}


def _two(chosen: Sequence[Run], methods: Sequence[Method]) -> tuple[Run, Run]:
    """The two runs to set against each other: those named, or the first of each method."""
    if len(chosen) == 2:
        return chosen[0], chosen[1]
    if len(methods) != 2:
        raise UsageError(f"--bootstrap compares two methods, and these are {len(methods)}", "name two runs")
    first, second = (next(run for run in chosen if run.name == method.runs[0].name) for method in methods)
    return first, second


def _bootstrap(first: Run, second: Run, dev: str | None) -> Bootstrap:
    from contrastcli.evaluation.significance import compare_models

    data = dev or _dev_of_both(first, second)
    with console.progress() as advance:
        tested = compare_models(str(first.path), str(second.path), data, partial(advance, "encoding"))
    return structs.replace(tested, runs=(first.name, second.name))


def _dev_of_both(first: Run, second: Run) -> str:
    one, other = (run.config().dev.data for run in (first, second))
    if one != other:
        raise UsageError(f"the dev sets of the runs differ: {one} and {other}", "name scored pairs: --dev FILE")
    return one
