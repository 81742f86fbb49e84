"""`contrast compare`: runs and models side by side, and tests of one against another."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import structs

from contrastcli.boundary import narrate
from contrastcli.errors import DataError, Unmet, UsageError, Use
from contrastcli.evaluation import run_scores
from contrastcli.model.locate import ModelRef, is_word_vectors, resolve
from contrastcli.runs.directory import Run, list_runs
from contrastcli.runs.results import Bootstrap, Comparison, Method, ScoreName, Welch
from contrastcli.runs.verdict import against
from contrastcli.settings.setting import Value
from contrastcli.show import console, pictures, plots
from contrastcli.show.pictures import Picture

if TYPE_CHECKING:
    from contrastcli.data.dev_data import DevData
    from contrastcli.training.plan import Plan

Compared = Run | ModelRef
"""A run, or a model that is none."""

_UNSEEN = Use("--dev", "FILE", "name pairs that none of them trained on:")


def check(
    words: Sequence[str], directory: Path, *, dev: str | None, require: str | None, out: Path | None, **how: object
) -> list[Compared]:
    """The runs and models that words name, each once, and a folder for pictures that can be written.

    A sweep, or a method with several seeds, is all its runs. Raises UsageError if there is only one, DataError for a
    model that is not there; RunError if the folder cannot be written.
    """
    refs = [resolve(name, directory) for word in words for name in _named(word, directory)]
    chosen = list({ref.place: ref.run or ref for ref in refs}.values())
    if how["columns"] and not dev:
        raise UsageError("--columns says what the data of --dev hold, and there are none", "add --dev FILE")
    for ref in refs:
        if not ref.run and not is_word_vectors(ref.name):
            ref.folder()
    if len(chosen) < 2:
        raise UsageError("there is only one run to compare", "name two or more runs: see contrast runs")
    if out:
        plots.check(out)
    return chosen


def _named(word: str, directory: Path) -> list[str]:
    """The runs of a sweep or a method, whose names begin with its own and go on with values; for others the word."""
    if (directory / word).exists():
        return [word]
    cells = [run.name for run in list_runs(directory)[::-1] if re.match(rf"{re.escape(word)}-\w+=", run.name)]
    return cells or [word]


def compare(
    chosen: Sequence[Compared], bootstrap: bool, dev: str | None, require: str | None = None, **how: Any
) -> Comparison:
    """Compare runs and models; with `bootstrap`, `dev` or `require` also on dev data, by default those of the runs.

    `how` is what `read_dev` takes. Raises DataError and UsageError.
    """
    compared = run_scores.compare(chosen)
    if require and len(compared.groups) > 2:
        raise UsageError("--require is for two models, the one before and the one after", "name two")
    for method in compared.groups:
        if method.n < (finished := sum(run.state == "finished" for run in method.runs)):
            names = ", ".join(run.name for run in method.runs)
            narrate(f"note: {finished - method.n} of {names} repeat a seed of the same settings, and are left aside")
    compared = structs.replace(compared, welch=_welch([method for method in compared.groups if method.n > 1]))
    if bootstrap or dev or require:
        compared = structs.replace(compared, bootstrap=_test(compared.groups, chosen, dev, **how))
    elif not any(result.is_run for result in compared.results) and not any(one.scores for one in compared.groups):
        raise UsageError("nothing of these models is known yet", Use("--dev", "FILE or stsb", "measure them:"))
    return compared


def _test(methods: Sequence[Method], chosen: Sequence[Compared], dev: str | None, **how: Any) -> tuple[Bootstrap, ...]:
    """Tests between a run of each method and the other models, on dev data. Raises DataError and UsageError."""
    from contrastcli.data.dev_data import read_dev
    from contrastcli.evaluation.own import seen_by
    from contrastcli.evaluation.significance import compare_models

    if len(methods) == 1 and len(chosen) > 2:
        what = "these runs differ in their seed alone, and a test is of two models"
        raise UsageError(what, "name two of them, or another run or model too")
    tested = _one_of_each(methods, chosen)
    runs = [one for one in tested if isinstance(one, Run)]
    data = read_dev(dev, **how) if dev else dev_data(runs)
    told = [*data.notes]
    if dev:
        # Among fewer texts than in a training the same queries are easier.
        told = [f"{dev}: {data}", *told, *(note for run in runs for note in seen_by(run, [dev], run.title))]
    if told:
        narrate(f"note: {'; '.join(told)}")
    models = [(one.title, str(one.path) if isinstance(one, Run) else one.name) for one in tested]
    with console.progress() as advance:
        return compare_models(models, data, advance)


def _one_of_each(methods: Sequence[Method], chosen: Sequence[Compared]) -> list[Compared]:
    """One run of each method, finished if any is, by the first seed that all have; of two that were chosen both."""
    names = {one.title for one in chosen if isinstance(one, Run)}
    each = [[run for run in method.runs if run.state == "finished"] or method.runs for method in methods]
    seeds = [{run.seed for run in some} for some in each if some[0].name in names]
    common = set[Value]().union(*seeds).intersection(*seeds)
    seed = next((run.seed for some in each for run in some if run.seed in common), None)
    picked = [min(some, key=lambda run: run.seed != seed).name for some in each]
    tested = [one for one in chosen if one.title in picked or len(chosen) == 2]
    if len(tested) < len(chosen):
        # What was named later may stand before it.
        tested.sort(key=lambda one: picked.index(one.title))
        which = "the first" if seed is None else f"seed {seed}"
        narrate(f"note: of runs that differ in their seed, {which} is tested: {', '.join(picked)}")
    return tested


def check_required(compared: Comparison, require: str | None) -> None:
    """Raises Unmet unless two models compare as required."""
    for test in compared.bootstrap or () if require else ():
        if test.judgement != "better" and not (require == "not-worse" and test.judgement == "not different"):
            what = f"{test.runs[1]} is {against(test.judgement, test.runs[0])}, and {require} is required"
            raise Unmet(what, [f"keep {test.runs[0]}", "train again with a lower --lr or more data"])


def _welch(methods: Sequence[Method]) -> dict[ScoreName, tuple[Welch, ...]]:
    """Welch's test of each number of each two methods that have it."""
    if len(methods) < 2:
        return {}
    from contrastcli.evaluation.significance import compare_methods

    names = dict.fromkeys(name for method in methods for name in method.scores)
    having = {name: [method for method in methods if name in method.scores] for name in names}
    return {
        name: compare_methods([(method.name, method.scores[name].values) for method in some])
        for name, some in having.items()
        if len(some) > 1
    }


def draw(chosen: Sequence[Compared]) -> list[Picture]:
    """Pictures of what the runs reported while they trained."""
    runs = [one for one in chosen if isinstance(one, Run)]
    labels = pictures.labels([str(run.path) for run in runs])
    drawn = pictures.of_runs({labels[str(run.path)]: run.events() for run in runs})
    if not drawn:
        narrate("note: nothing is drawn: pictures are of trainings, and none of these is a run with steps")
    return drawn


def dev_data(runs: Sequence[Run]) -> "DevData":
    """The dev set of the runs.

    Of rows that the first run held out, those that no other trained on. Pairs without scores are ranked among the
    texts that they were among while the first run trained.
    """
    from contrastcli.data.dev_data import named_pairs, unseen
    from contrastcli.data.sources import SPLIT

    configs = [run.config() for run in runs]
    named = list(dict.fromkeys(config.dev.data for config in configs))
    if len(named) > 1:
        raise UsageError(f"the dev sets of the runs differ: {' and '.join(named)}", _UNSEEN)
    if named in ([], ["none"]):
        raise DataError("there are no dev pairs to compare on", Use("--dev", "FILE or stsb", "name pairs:"))
    if (pairs := named_pairs(configs[0].dev, configs[0].data)) is not None:
        return pairs
    data = held_out = _planned(runs[0]).dev
    for run in runs[1:]:
        if data is not None and named[0].startswith(SPLIT):
            data = unseen(data, _planned(run).examples)
        if data is None or len(data) < 2:
            raise UsageError(f"{run.name} trained on what {runs[0].name} held out", _UNSEEN)
    assert data is not None and held_out is not None
    if len(data) < len(held_out):
        seen = f"on {len(held_out) - len(data):,} of the {len(held_out):,} dev rows of {runs[0].name}"
        narrate(f"note: other runs trained {seen}: {len(data):,} are measured")
    return data


def _planned(run: Run) -> "Plan":
    """The plan of a run, on the rows that it began with. Raises DataError where they are others now."""
    from contrastcli.training.environment import check_rows
    from contrastcli.training.plan import make_plan

    config = run.config()
    # Models are not compared on the general set.
    plan = make_plan(replace(config, dev=structs.replace(config.dev, general="none")))
    try:
        check_rows(run.environment_path, plan)
    except DataError as error:
        raise DataError(f"{run.name}: {error.what}", [_UNSEEN, "restore them"]) from None
    return plan
