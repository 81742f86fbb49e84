"""`contrast papers`: the tables and figures of the papers, made again.

A run is found by its settings, whichever table or user had it trained, so that none is trained twice. What an item was
last made of is kept next to the runs, so that the same command continues it.
"""

import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from contrastcli.boundary import narrate
from contrastcli.commands.evaluate import check_measured, draw_sentences
from contrastcli.commands.job import flag_layer, model_paths
from contrastcli.commands.sweep import check_cells, train_cells
from contrastcli.data.downloads import OnProgress, Unreachable
from contrastcli.data.sources import stsb_file
from contrastcli.errors import DataError, InterruptedEarly, Remedy, UsageError, Use, nearest
from contrastcli.evaluation import reproduction
from contrastcli.evaluation.reproduction import RunsBySettings, Trial, Trials, runs_by_settings
from contrastcli.evaluation.suites import SUITES, headlines
from contrastcli.runs import process
from contrastcli.runs.cells import read_request, save_request
from contrastcli.settings import papers, sections
from contrastcli.settings.papers import Item, Request
from contrastcli.show import console, pictures
from contrastcli.show.pictures import Picture

if TYPE_CHECKING:
    from contrastcli.evaluation.measure import Scores

_MTEB = "MTEB(eng, v1)"
"""The papers' 56 tasks."""


def item_and_request(
    directory: Path,
    *,
    paper: str,
    key: str,
    rows: str | None,
    backbones: str | None,
    seeds: int | None,
    scale: float | None,
    assignments: Sequence[str],
    data_dir: str | None,
) -> tuple[Item, Request]:
    """The item of a paper and how to make it, as typed. Raises UsageError and DataError.

    Without options, or with `--rows` and `--backbones` alone, it is made as it was last, else as in the paper.
    """
    item = papers.find_item(paper, key)
    folder = os.path.expanduser(data_dir or "")
    if folder and not os.path.isdir(folder):
        raise DataError(f"there is no folder {data_dir}", "give the folder that SentEval's data was unpacked to")
    settings = dict(_assigned(item, assignment, directory) for assignment in assignments)
    chosen, on = (tuple(re.split(r",(?! )", words)) if words else () for words in (rows, backbones))
    request = Request(chosen, on, seeds or 0, scale or 1.0, settings, folder)
    last = last_request(item, directory)
    if last and request == Request(chosen, on):
        request = msgspec.structs.replace(last, rows=chosen, backbones=on) if chosen or on else last
    return item, request


def _assigned(item: Item, assignment: str, directory: Path) -> tuple[str, str]:
    """The key and the value of `KEY=VALUE` or `ROW:KEY=VALUE`, the key with its row. Raises UsageError and DataError.

    A run that is a backbone or teacher is named by its path, since its name may mean another one later.
    """
    methods = {system.method for system in item.systems}
    row = next((f"{method}:" for method in methods if assignment.startswith(f"{method}:")), "")
    ((key, value),) = flag_layer([assignment.removeprefix(row)]).values.items()
    unknown, colon, _ = key.rpartition(":")
    if colon:
        raise UsageError(f"{item.name} has no row '{unknown}'", nearest(unknown, methods))
    setting = sections.find_setting(key, f"--set {row}{key}")
    return row + key, str(model_paths(setting, str(value), directory))


def last_request(item: Item, directory: Path) -> Request | None:
    """What the item was last made of in that directory; None if it never was. Raises DataError."""
    path = _file(item, directory)
    return read_request(path, Request) if path.is_file() else None


def _save(item: Item, request: Request, directory: Path) -> None:
    save_request(_file(item, directory), msgspec.to_builtins(request), _command(item))


def _file(item: Item, directory: Path) -> Path:
    return directory / f"{item.paper}-{item.key}.paper.toml"


def _command(item: Item, *words: str) -> str:
    return shlex.join(["contrast", "papers", "run", item.paper, item.key, *words])


def find_trials(item: Item, request: Request, directory: Path, known: RunsBySettings | None = None) -> Trials:
    """What stands for each system that is asked for, with the runs that are there. Raises UsageError and DataError."""
    known = runs_by_settings(directory) if known is None else known
    systems = papers.systems(item, request)
    return {system: reproduction.trials(item, system, request, directory, known) for system in systems}


def overview(directory: Path, paper: str = "") -> list[tuple[Item, Request | None, Sequence[Trial]]]:
    """Every item of a paper or of all, what it was last made of, and its trials. Raises DataError and UsageError."""
    requests = [(item, last_request(item, directory)) for item in papers.items(paper)]
    known = runs_by_settings(directory) if any(req for _, req in requests) else {}
    return [(item, req, _every(find_trials(item, req, directory, known)) if req else []) for item, req in requests]


def _every(made: Trials) -> list[Trial]:
    return [trial for some in made.values() for trial in some]


def check(item: Item, request: Request) -> None:
    """Raises UsageError for an item, or systems, that cannot be made."""
    reasons = [papers.recipe(system).why_not for system in papers.systems(item, request)]
    if reason := item.why_not or (all(reasons) and "; ".join(dict.fromkeys(reasons))):
        raise UsageError(f"{item.name} cannot be made: {reason}", "contrast papers lists what can")


def run(item: Item, request: Request, directory: Path) -> int:
    """Train what is missing, measure everything, and return the exit code.

    Raises ContrastError, DataError at the end where the data of a task are missing.
    """
    every = _every(find_trials(item, request, directory))
    missing = list({one.cell.name: one.cell for one in every if one.cell and not one.trained}.values())
    # The dev set is from there too.
    if request.data_dir and os.path.isfile(stsb_file(Path(request.data_dir), "validation")):
        os.environ.setdefault("CONTRAST_SENTEVAL", request.data_dir)
    try:
        check_cells(missing)
    except DataError as error:
        is_model = isinstance(error, Unreachable) and not error.key
        starter = [Use("--set", f"{papers.BACKBONE}=starter", "use")] if is_model else []
        raise DataError(error.what, [*starter, *map(_by_set, error.remedies)], key=error.key) from None
    _save(item, request, directory)
    narrate(f"{item.name}: {len(every)} models, {len(missing)} of them to train")
    code, ended = train_cells(missing, _command(item))
    if not ended:
        return code
    try:
        measured = _measure(item, request, _every(find_trials(item, request, directory)))
    except KeyboardInterrupt:
        raise InterruptedEarly("interrupted", f"to continue: {_command(item)}") from None
    narrate(f"next: {_shown_by(item)}")
    check_measured(measured)
    return code


def _by_set(remedy: Remedy) -> Remedy:
    """A remedy by a setting's flag as one by --set, since `papers run` has no such flags."""
    keys = {setting.flag: setting.key for setting in sections.all_settings().values()}
    if isinstance(remedy, Use) and remedy.option in keys:
        return Use("--set", f"{keys[remedy.option]}={remedy.value}", remedy.verb)
    return remedy


def _measure(item: Item, request: Request, trials: Sequence[Trial]) -> "list[Scores]":
    from contrastcli.evaluation.evaluate import check_model  # torch is loaded here

    models = [trial for trial in trials if trial.trained] if item.suites else []
    measured: list[Scores] = []
    with console.progress() as advance:
        for number, trial in enumerate(models, 1):
            narrate(f"model {number} of {len(models)}: {trial.title}")
            try:
                check_model(trial.word)
            except DataError as error:
                narrate(f"not measured: {error.what}\nhint: {error.hint}")
                continue
            for suite in item.suites:
                measured.append(_evaluate(trial, suite, (_MTEB,) if suite == "mteb" else (), request, advance))
            if item.tasks:
                measured.append(_evaluate(trial, "geometry", item.tasks, request, advance))
    return measured


def _evaluate(trial: Trial, suite: str, tasks: Sequence[str], request: Request, on_progress: OnProgress) -> "Scores":
    """The scores of a suite, which are in the cache once they were measured."""
    from contrastcli.evaluation.evaluate import evaluate  # torch is loaded here
    from contrastcli.evaluation.procedure import Options

    options = Options(Path(request.data_dir) if request.data_dir else None, tuple(tasks), on_progress=on_progress)
    return evaluate(trial.word, [SUITES[suite]], options, trial.pooling)


def detach(item: Item, request: Request, directory: Path) -> int:
    """Run an item in a process of its own, which writes a log; returns the exit code. Raises ContrastError."""
    # What is saved is read by every listing.
    find_trials(item, request, directory)
    _save(item, request, directory)
    log = directory / f"{item.paper}-{item.key}.log"
    words = ("--runs-dir", str(directory), "papers", "run", item.paper, item.key)
    process.start_detached([*process.CONTRAST, *words], log)
    narrate(f"running in the background: see {log}")
    return 0


def find_table(item: Item, request: Request, directory: Path) -> Trials:
    """What stands for each system of a table. Raises UsageError for an item that is none, and DataError."""
    if not item.tables:
        raise UsageError(f"{item.name} is not a table of numbers", _shown_by(item))
    return find_trials(item, request, directory)


def figure(item: Item, request: Request, directory: Path) -> list[Picture]:
    """The pictures of a figure, from the first seed of each system. Raises UsageError and DataError."""
    check(item, request)
    if not item.pictures:
        raise UsageError(f"{item.name} is not a figure", _shown_by(item))
    firsts = [some[0] for some in find_trials(item, request, directory).values() if some]
    done = [trial for trial in firsts if trial.done(item)]
    # A released model counts once it is measured.
    if item.systems and not any(trial.cell or item.suites for trial in done):
        raise UsageError(f"nothing of {item.name} is made", _command(item, *request.words))
    if missing := [trial.title for trial in firsts if trial not in done]:
        narrate(f"not drawn, since not made yet: {'; '.join(missing)}")
    drawn = [one for one in _draw(item, request, done) if any(fnmatchcase(one.name, like) for like in item.pictures)]
    # Several figures have a place in one folder.
    return [replace(one, name=f"{item.paper}-{item.key}-{one.name}") for one in drawn]


def _shown_by(item: Item) -> str:
    """The command that shows what there is of an item."""
    verb = "table" if item.tables else "figure" if item.pictures else "show"
    return f"contrast papers {verb} {item.paper} {item.key}"


def _draw(item: Item, request: Request, trials: Sequence[Trial]) -> Iterable[Picture]:
    several = len({trial.system.backbone for trial in trials}) > 1
    named = {f"{t.system.method}, {t.system.backbone}" if several else t.system.method: t for t in trials}
    if not named:
        yield pictures.of_slopes(("cosine", "angle"))
    elif any(name.startswith("pca-") for name in item.pictures):
        yield from _sentences(named)
    yield from pictures.of_runs({name: trial.cell.run.events() for name, trial in named.items() if trial.cell})
    suites = {name: trial.suites() for name, trial in named.items()}
    if item.tasks:
        with console.progress() as advance:
            for name, trial in named.items():
                suites[name] |= _evaluate(trial, "geometry", item.tasks, request, advance).to_json()["suites"]
    yield from pictures.of_models(suites)
    yield pictures.of_scores("sts", {name: headlines({"suites": scores}) for name, scores in suites.items()})


def _sentences(named: Mapping[str, Trial]) -> Iterable[Picture]:
    """Training sentences under each model, a picture for each backbone."""
    data = next(trial.cell.config.data for trial in named.values() if trial.cell)
    for backbone in dict.fromkeys(trial.system.backbone for trial in named.values()):
        models = {name: (t.word, t.pooling, None) for name, t in named.items() if t.system.backbone == backbone}
        with console.progress() as advance:
            drawn = draw_sentences(models, data, advance)
        yield replace(drawn, name=f"pca-{backbone.lower()}", title=f"{backbone}: {drawn.title}")
