"""`contrast papers`: the tables and figures of the papers, made again.

A run is found by its settings, whichever table or user had it trained, so that none is trained twice. What an item was
last made of is kept next to the runs, so that the same command continues it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import tomli_w

from contrastcli.boundary import narrate
from contrastcli.commands.evaluate import draw_sentences
from contrastcli.commands.job import flag_layer
from contrastcli.commands.sweep import Signals, check_cells, train_cells
from contrastcli.data.sources import holds_stsb
from contrastcli.errors import DataError, InterruptedEarly, UsageError
from contrastcli.evaluation import reproduction
from contrastcli.evaluation.reproduction import Cell, Known, known_runs
from contrastcli.evaluation.suites import SUITES, headlines
from contrastcli.files import atomic_write, decoding, read_bytes, writing_to
from contrastcli.model.locate import resolve
from contrastcli.runs import directory as runs
from contrastcli.runs import process, sweeps
from contrastcli.settings import papers, sections
from contrastcli.settings.config import LARGEST
from contrastcli.settings.papers import Item, Request, Row
from contrastcli.show import console, pictures
from contrastcli.show.pictures import Picture

if TYPE_CHECKING:
    from contrastcli.evaluation.procedure import OnProgress

_MTEB = "MTEB(eng, v1)"  # the papers' 56 tasks


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
    layer = flag_layer(assignments, {})
    for name, source in layer.sources.items():
        sections.find_setting(name, source)
    settings = {name: str(value) for name, value in layer.values.items()}
    chosen, on = (tuple(re.split(r",(?! )", words)) if words else () for words in (rows, backbones))
    item, request = papers.find(paper, key), Request(chosen, on, seeds or 0, scale or 1.0, settings, data_dir or "")
    last = last_request(item, directory)
    if last and request == Request(chosen, on):
        request = msgspec.structs.replace(last, rows=chosen, backbones=on) if chosen or on else last
    return item, request


def last_request(item: Item, directory: Path) -> Request | None:
    """What the item was last made of in that directory; None if it never was. Raises DataError."""
    path = directory / f"{item.paper}-{item.key}.paper.toml"
    if not path.is_file():
        return None
    with decoding(path):
        return msgspec.toml.decode(read_bytes(path, LARGEST), type=Request)


def _save(item: Item, request: Request, directory: Path) -> None:
    with writing_to(directory):
        runs.make_runs_dir(directory)
        text = tomli_w.dumps(msgspec.to_builtins(_with_path(request, directory)))
        atomic_write(directory / f"{item.paper}-{item.key}.paper.toml", text.encode())


def find(item: Item, request: Request, directory: Path, known: Known | None = None) -> dict[Row, list[Cell]]:
    """What makes each row that is asked for, with the runs that are there. Raises UsageError and DataError."""
    request, known = _with_path(request, directory), known_runs(directory) if known is None else known
    return {row: reproduction.cells(item, row, request, known) for row in papers.rows(item, request)}


def _with_path(request: Request, directory: Path) -> Request:
    """The request with the path of a run that is the backbone, since its name may mean another one later."""
    backbone = request.settings.get(papers.BACKBONE)
    path = {papers.BACKBONE: resolve(backbone, directory).name} if backbone else {}
    return msgspec.structs.replace(request, settings=request.settings | path)


def overview(directory: Path) -> list[tuple[Item, Request | None, Sequence[Cell]]]:
    """Every item, what it was last made of, and its cells. Raises DataError."""
    requests = [(item, last_request(item, directory)) for item in papers.items()]
    known = known_runs(directory) if any(req for _, req in requests) else {}
    made = [(item, req, find(item, req, directory, known).values() if req else ()) for item, req in requests]
    return [(item, req, [cell for row in rows for cell in row]) for item, req, rows in made]


def check(item: Item, request: Request) -> None:
    """Raises UsageError for an item, or rows, that cannot be made."""
    rows = papers.rows(item, request)
    reasons = [papers.recipe(row).why_not for row in rows]
    if reason := item.why_not or (all(reasons) and "; ".join(dict.fromkeys(reasons))):
        raise UsageError(f"{item.name} cannot be made: {reason}", "contrast papers lists what can")


def run(item: Item, request: Request, directory: Path) -> int:
    """Train what is missing, measure everything, and return the exit code. Raises ContrastError."""
    made = find(item, request, directory)
    missing = {cell.name: _as_trained(cell) for row in made.values() for cell in row if not cell.trained}
    if request.data_dir and holds_stsb(Path(request.data_dir)):
        os.environ.setdefault("CONTRAST_SENTEVAL", request.data_dir)  # the dev set is from there too
    check_cells(list(missing.values()), directory)
    _save(item, request, directory)
    narrate(f"{item.name}: {sum(map(len, made.values()))} models, {len(missing)} of them to train")
    signals, again = Signals(), f"to continue: contrast papers run {item.paper} {item.key}"
    titles = {f"run {n} of {len(missing)}: {name}": cell for n, (name, cell) in enumerate(missing.items(), 1)}
    with process.handle_signals(signals):
        code = train_cells(titles, directory, signals)
    if signals.count:
        narrate(again)
        return 0
    try:
        _measure(item, request, [cell for row in find(item, request, directory).values() for cell in row])
    except KeyboardInterrupt:
        raise InterruptedEarly("interrupted", again) from None
    narrate(f"next: contrast papers {'table' if item.tables else 'figure'} {item.paper} {item.key}")
    return code


def _as_trained(cell: Cell) -> sweeps.Cell:
    assert cell.config
    return sweeps.Cell(cell.run_name, {}, cell.config)


def _measure(item: Item, request: Request, cells: Sequence[Cell]) -> None:
    """Measure the suites of an item on everything that is trained. Raises DataError and RunError."""
    from contrastcli.evaluation.evaluate import check_model  # torch is loaded here

    models = [cell for cell in cells if cell.trained] if item.suites else []
    with console.progress() as advance:
        for number, cell in enumerate(models, 1):
            narrate(f"model {number} of {len(models)}: {cell.name}")
            try:
                check_model(_model(cell))
            except DataError as error:
                narrate(f"not measured: {error.what}\nhint: {error.hint}")
                continue
            for suite in item.suites:
                _evaluate(cell, suite, (_MTEB,) if suite == "mteb" else (), request, advance)
            if item.tasks:
                _evaluate(cell, "geometry", item.tasks, request, advance)


def _model(cell: Cell) -> str:
    return str(cell.run.path) if cell.run else cell.model


def _evaluate(
    cell: Cell, suite: str, tasks: Sequence[str], request: Request, on_progress: OnProgress
) -> dict[str, Any]:
    """The scores of a suite, which are in the cache once they were measured."""
    from contrastcli.evaluation.evaluate import evaluate  # torch is loaded here
    from contrastcli.evaluation.procedure import Options

    options = Options(Path(request.data_dir) if request.data_dir else None, tuple(tasks), on_progress=on_progress)
    scores: dict[str, Any] = evaluate(_model(cell), [SUITES[suite]], options, cell.pooling).to_json()["suites"]
    return scores


def detach(item: Item, request: Request, directory: Path) -> int:
    """Run an item in a process of its own, which writes a log; returns the exit code. Raises RunError."""
    _save(item, request, directory)
    log = directory / f"{item.paper}-{item.key}.log"
    words = ("--runs-dir", str(directory), "papers", "run", item.paper, item.key)
    process.start_detached([*process.CONTRAST, *words], log)
    narrate(f"running in the background: see {log}")
    return 0


def find_table(item: Item, request: Request, directory: Path) -> dict[Row, list[Cell]]:
    """What makes each row of a table. Raises UsageError for an item that is none, and DataError."""
    if not item.tables:
        raise UsageError(f"{item.name} is not a table of numbers", f"contrast papers show {item.paper} {item.key}")
    return find(item, request, directory)


def figure(item: Item, request: Request, directory: Path) -> list[Picture]:
    """The pictures of a figure, from the first seed of each row. Raises UsageError and DataError."""
    check(item, request)
    if not item.pictures:
        raise UsageError(f"{item.name} is not a figure", f"contrast papers table {item.paper} {item.key}")
    every = [row[0] for row in find(item, request, directory).values() if row]
    first = [cell for cell in every if cell.done(item)]
    if item.rows and not first:
        raise UsageError(f"nothing of {item.name} is made", f"contrast papers run {item.paper} {item.key}")
    if missing := [cell.name for cell in every if cell not in first]:
        narrate(f"not drawn, since not made yet: {'; '.join(missing)}")
    return [one for one in _draw(item, request, first) if any(fnmatchcase(one.name, like) for like in item.pictures)]


def _draw(item: Item, request: Request, cells: Sequence[Cell]) -> Iterable[Picture]:
    several = len({cell.row[0] for cell in cells}) > 1
    named = {f"{cell.row[1]}, {cell.row[0]}" if several else cell.row[1]: cell for cell in cells}
    if not named:
        yield pictures.of_slopes(("cosine", "angle"))
    elif any(name.startswith("pca-") for name in item.pictures):
        yield from _sentences(named)
    yield from pictures.of_runs({name: cell.run.events() for name, cell in named.items() if cell.run})
    suites = {name: cell.suites() for name, cell in named.items()}
    if item.tasks:
        with console.progress() as advance:
            for name, cell in named.items():
                suites[name] |= _evaluate(cell, "geometry", item.tasks, request, advance)
    yield from pictures.of_models(suites)
    yield pictures.of_scores("sts", {name: headlines({"suites": scores}) for name, scores in suites.items()})


def _sentences(named: Mapping[str, Cell]) -> Iterable[Picture]:
    """Training sentences under each model, a picture for each backbone."""
    data = next(cell.config.data for cell in named.values() if cell.config)
    for backbone in dict.fromkeys(cell.row[0] for cell in named.values()):
        models = {name: (_model(cell), cell.pooling) for name, cell in named.items() if cell.row[0] == backbone}
        with console.progress() as advance:
            drawn = draw_sentences(models, data, advance)
        yield replace(drawn, name=f"pca-{backbone.lower()}", title=f"{backbone}: {drawn.title}")
