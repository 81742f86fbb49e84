"""`contrast compare`: runs side by side, and tests of one method against another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from contrastcli.errors import DataError, UsageError, Use
from contrastcli.evaluation import run_scores
from contrastcli.runs.directory import Run
from contrastcli.runs.results import Bootstrap, Comparison, Method, Welch
from contrastcli.show import console, pictures, plots
from contrastcli.show.pictures import Picture

if TYPE_CHECKING:
    from contrastcli.data.dev_data import DevData


def check(runs: Sequence[Run], bootstrap: bool, dev: str | None, pictures_dir: Path | None) -> list[Run]:
    """The runs, each once, and a folder for pictures that can be written.

    Raises UsageError if there is only one run, or if `dev` is not used; RunError if the folder cannot be written.
    """
    chosen = list({run.path: run for run in runs}.values())
    if len(chosen) < 2:
        raise UsageError("there is only one run to compare", "name two or more runs: see contrast runs")
    if dev and not bootstrap:
        raise UsageError("--dev names the pairs of --bootstrap, which is not set", "add --bootstrap")
    if pictures_dir:
        plots.check(pictures_dir)
    return chosen


def compare(chosen: Sequence[Run], bootstrap: bool, dev: str | None) -> Comparison:
    """Compare runs; with `bootstrap` also two models on the pairs of `dev`, by default the dev set of both.

    Raises DataError and UsageError.
    """
    compared = run_scores.compare(chosen)
    compared = structs.replace(compared, welch=_welch(compared.groups))
    if bootstrap:
        first, second = _two_runs(chosen, compared.groups)
        compared = structs.replace(compared, bootstrap=_bootstrap(first, second, dev))
    return compared


def draw(chosen: Sequence[Run]) -> list[Picture]:
    """Pictures of what the runs reported while they trained."""
    labels = pictures.labels([str(run.path) for run in chosen])
    return pictures.of_runs({labels[str(run.path)]: run.events() for run in chosen})


def _welch(methods: Sequence[Method]) -> dict[str, Welch]:
    """Welch's test of each number of two methods; nothing for one method or for three."""
    if len(methods) != 2 or any(method.n < 2 for method in methods):
        return {}
    from contrastcli.evaluation.significance import welch

    first, second = (method.scores for method in methods)
    return {name: welch(first[name].values, second[name].values) for name in first if name in second}


def _two_runs(chosen: Sequence[Run], methods: Sequence[Method]) -> tuple[Run, Run]:
    """The two runs to compare: those that were named, or the first of each method."""
    if len(chosen) == 2:
        return chosen[0], chosen[1]
    if len(methods) != 2:
        raise UsageError(f"--bootstrap compares two methods, and these are {len(methods)}", "name two runs")
    first, second = (next(run for run in chosen if run.name == method.runs[0].name) for method in methods)
    return first, second


def _bootstrap(first: Run, second: Run, dev: str | None) -> Bootstrap:
    from contrastcli.evaluation.significance import compare_models

    data = _dev_data(first, second, dev)
    with console.progress() as advance:
        tested = compare_models(str(first.path), str(second.path), data, partial(advance, "encoding"))
    return structs.replace(tested, runs=(first.name, second.name))


def _dev_data(first: Run, second: Run, dev: str | None) -> DevData:
    """The data to compare two runs on: those of `dev`, or the dev set of both.

    Of rows that the first run held out, those that the second did not train on. Pairs without scores are ranked among
    the texts that they were among while the first run trained.
    """
    from contrastcli.data.dev_data import named_pairs, unseen
    from contrastcli.data.sources import SPLIT
    from contrastcli.training.plan import make_plan

    config, other = first.config(), second.config()
    if dev is not None:
        config = replace(config, dev=structs.replace(config.dev, data=dev, metric="auto"))
    elif config.dev.data != other.dev.data:
        what = f"the dev sets of the runs differ: {config.dev.data} and {other.dev.data}"
        raise UsageError(what, Use("--dev", "FILE", "name pairs that neither trained on:"))
    if config.dev.data == "none":
        raise DataError("there are no dev pairs to compare on", Use("--dev", "FILE or stsb", "name pairs:"))
    if (pairs := named_pairs(config.dev, config.data)) is not None:
        return pairs
    data = make_plan(config).dev
    if data is not None and config.dev.data.startswith(SPLIT):
        data = unseen(data, make_plan(other).examples)
    if data is None or len(data) < 2:
        what = f"{second.name} trained on what {first.name} held out"
        raise UsageError(what, Use("--dev", "FILE", "name pairs that neither trained on:"))
    return data
