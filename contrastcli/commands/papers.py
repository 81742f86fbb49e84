"""`contrast papers`: the tables and figures of the papers, made again, and ours beside theirs.

A number is made by a run, or by a model that is measured as it is. A run is looked up by its settings in the runs
directory, whichever table or user had it trained, so that none is trained twice and all can be killed and resumed.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import tomli_w

from contrastcli.commands import train
from contrastcli.commands.sweep import Signals, check_cells, train_cells
from contrastcli.errors import ContrastError, DataError, InterruptedEarly, UsageError
from contrastcli.evaluation import reproduction
from contrastcli.evaluation.reproduction import Block, Measured, Overview, Part
from contrastcli.evaluation.suites import SUITES, headlines
from contrastcli.files import atomic_write, decoding, read_bytes, writing_to
from contrastcli.model.locate import resolve
from contrastcli.runs import directory as runs
from contrastcli.runs import process
from contrastcli.runs.directory import Run, read_scores
from contrastcli.runs.methods import Identity, identity
from contrastcli.runs.sweeps import Cell
from contrastcli.settings import papers
from contrastcli.settings.config import LARGEST, Config
from contrastcli.settings.papers import Item, Maker, Request, Row
from contrastcli.settings.sections import SEED
from contrastcli.settings.setting import Value
from contrastcli.show import console, pictures
from contrastcli.show.pictures import Picture

if TYPE_CHECKING:
    from contrastcli.evaluation.result import OnProgress, Options

Known = dict[tuple[Identity, Value], Run]
"""Runs by their settings and seed."""

_SUFFIX = ".paper.toml"
_MTEB = "MTEB(eng, v1)"  # the papers' 56 tasks


@dataclass(frozen=True)
class Made:
    """A maker, and its run if there is one."""

    maker: Maker
    run: Run | None = None

    @property
    def state(self) -> str:
        """Of its run; of a model, whether it was measured."""
        if self.maker.config:
            return self.run.status().state if self.run else "waiting"
        return "measured" if self.scores() else "waiting"

    @property
    def done(self) -> bool:
        """Whether it is trained, or is a model that was measured."""
        return self.state in ("finished", "measured")

    @property
    def model(self) -> str:
        """The name of what is measured."""
        return str(self.run.path) if self.run else self.maker.model

    def scores(self) -> dict[str, Any]:
        """Its suites, as in scores.json. Raises DataError."""
        if self.maker.config:
            scores = self.run.scores() if self.run else {}
        else:
            scores = read_scores(resolve(self.maker.model).scores_path(self.maker.pooling))
        return dict(scores.get("suites", {}))

    def measured(self) -> Measured:
        """What a table shows of it."""
        known: dict[str, Any] = {"suites": self.scores()}
        if self.run and (config := self.maker.config):
            known["minutes"] = pictures.training_seconds(self.run.events()) / 60
            known |= {"batch size": config.train.batch_size, "epochs": config.train.epochs}
        return known


def last_request(item: Item, directory: Path) -> Request | None:
    """How the item was last made there; None if it never was. Raises DataError."""
    path = directory / f"{item.paper}-{item.key}{_SUFFIX}"
    if not path.is_file():
        return None
    with decoding(path):
        return msgspec.toml.decode(read_bytes(path, LARGEST), type=Request)


def _save(item: Item, request: Request, directory: Path) -> None:
    path = directory / f"{item.paper}-{item.key}{_SUFFIX}"
    with writing_to(directory):
        runs.make_runs_dir(directory)
        atomic_write(path, tomli_w.dumps(msgspec.to_builtins(request)).encode())


def find(item: Item, request: Request, directory: Path, known: Known | None = None) -> dict[Row, list[Made]]:
    """What makes each row, with the runs that are there already. Raises UsageError and DataError."""
    known = _known(directory) if known is None else known
    made = {}
    for row in papers.chosen(item, request):
        makers = [_with_paths(maker, directory) for maker in papers.makers(item, row, request)]
        made[row] = [Made(maker, known.get(_key(maker.config)) if maker.config else None) for maker in makers]
    return made


def _known(directory: Path) -> Known:
    """The runs of a directory by their settings; of equal ones, one that has finished."""
    known: Known = {}
    for run in runs.list_runs(directory):
        try:
            settings = run.config().flat()
        except ContrastError:
            continue  # another version's, or broken: an error only if it is the one that is named
        key = (identity(settings), settings[SEED])
        if key not in known or known[key].status().state != "finished":
            known[key] = run
    return known


def overview(directory: Path) -> list[Overview]:
    """Every item of every paper, with what is there of it. Raises DataError."""
    known, listed = _known(directory), []
    for item in papers.every():
        if request := last_request(item, directory):
            made = [one for row in find(item, request, directory, known).values() for one in row]
            listed.append(Overview(item, request, sum(one.done for one in made), len(made)))
        else:
            listed.append(Overview(item))
    return listed


def parts(item: Item, request: Request, directory: Path) -> list[Part]:
    """What each row of an item takes, and what is there of it. Raises UsageError and DataError."""
    listed = []
    for (backbone, method), made in find(item, request, directory).items():
        source = ""
        hours = [one.maker.hours for one in made if one.maker.hours is not None]
        if made:
            maker = made[0].maker
            source = f"preset {maker.preset}" if maker.config else f"{maker.model}, {maker.pooling or 'as it is'}"
        done, why_not = sum(one.done for one in made), papers.why_not((backbone, method))
        listed.append(Part(backbone, method, source, len(made), done, sum(hours) if hours else None, why_not))
    return listed


def _key(config: Config) -> tuple[Identity, Value]:
    return identity(config.flat()), config.train.seed


def _with_paths(maker: Maker, directory: Path) -> Maker:
    """The maker with paths for runs that are backbones or teachers."""
    if maker.config is None:
        return replace(maker, model=resolve(maker.model, directory).name)
    return replace(maker, config=train.with_model_paths(maker.config, directory))


def _name(config: Config) -> str:
    """A run's name, the same for equal settings, so that two processes do not train one run twice."""
    settings = json.dumps(_key(config), ensure_ascii=False).encode()
    backbone = resolve(config.model.backbone).name.rstrip("/").rpartition("/")[2]
    return f"{config.spec.name}-{backbone}-{hashlib.sha256(settings).hexdigest()[:8]}-seed={config.train.seed}"


def check(item: Item, request: Request) -> None:
    """Raises UsageError for an item or rows that cannot be made."""
    if reason := item.entry.why_not:
        raise UsageError(f"{item.name} cannot be made: {reason}", "contrast papers lists what can")
    rows = papers.chosen(item, request)
    if rows and all(map(papers.why_not, rows)):
        raise UsageError(f"no row of these can be made: {papers.why_not(rows[0])}", "choose other rows")


def run(item: Item, request: Request, directory: Path) -> int:
    """Train what is missing and measure everything; returns the exit code. Raises ContrastError."""
    check(item, request)
    made = find(item, request, directory)
    missing = [one for row in made.values() for one in row if not one.done]
    cells = {one.maker.words: _cell(one) for one in missing if one.maker.config}
    check_cells(list(cells.values()), directory)
    _save(item, request, directory)
    signals = Signals()
    total = len(cells)
    titles = {f"run {n} of {total}: {words}": cell for n, (words, cell) in enumerate(cells.items(), 1)}
    with process.handle_signals(signals):
        console.narrate(f"{item.name}: {sum(map(len, made.values()))} models, {total} of them to train")
        code = train_cells(titles, directory, signals)
    if signals.count:
        console.narrate(f"to continue: contrast papers run {item.paper} {item.key}")
        return 0
    _measure(item, request, find(item, request, directory))
    return code


def _cell(one: Made) -> Cell:
    assert one.maker.config
    return Cell(one.run.name if one.run else _name(one.maker.config), {}, one.maker.config)


def _measure(item: Item, request: Request, made: Mapping[Row, Sequence[Made]]) -> None:
    """Measure the suites of an item on everything that is trained. Raises ContrastError."""
    from contrastcli.evaluation.evaluate import check_model, evaluate  # torch is loaded here

    models = [one for row in made.values() for one in row if one.maker.config is None or one.done]
    suites = [SUITES[name] for name in item.suites]
    try:
        with console.progress() as advance:
            for number, one in enumerate(models if suites else (), 1):
                console.narrate(f"model {number} of {len(models)}: {one.maker.words}")
                try:
                    check_model(one.model)
                except DataError as error:
                    console.narrate(f"not measured: {error.what}; {one.maker.fetch or error.hint}")
                    continue
                for suite in suites:
                    tasks = (_MTEB,) if suite.name == "mteb" else ()
                    evaluate(one.model, [suite], _options(request, advance, tasks), one.maker.pooling)
                _optional_tasks(item, request, one, advance)
    except KeyboardInterrupt:
        hint = f"to continue: contrast papers run {item.paper} {item.key}"
        raise InterruptedEarly("interrupted", hint) from None


def detach(item: Item, request: Request, directory: Path) -> Path:
    """Run an item in a process of its own; returns the path of its log. Raises ContrastError."""
    check(item, request)
    _save(item, request, directory)
    log = directory / f"{item.paper}-{item.key}.log"
    words = [sys.executable, "-m", "contrastcli", "--runs-dir", str(directory), "papers", "run", item.paper, item.key]
    with writing_to(log), open(log, "ab") as stream:
        subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, start_new_session=True)
    return log


def table(item: Item, request: Request, directory: Path) -> list[Block]:
    """The numbers of a table, as far as they were made, beside the printed ones. Raises UsageError and DataError."""
    if not item.tables:
        raise UsageError(f"{item.name} is not a table of numbers", f"contrast papers show {item.paper} {item.key}")
    made = find(item, request, directory)
    return reproduction.compare(item, {row: [one.measured() for one in some if one.done] for row, some in made.items()})


def figure(item: Item, request: Request, directory: Path) -> list[Picture]:
    """The pictures of a figure, from the first seed of each row. Raises UsageError and DataError."""
    check(item, request)
    if not item.entry.pictures:
        raise UsageError(f"{item.name} is not a figure", f"contrast papers table {item.paper} {item.key}")
    first = [some[0] for some in find(item, request, directory).values() if some and some[0].done]
    if item.rows and not first:
        raise UsageError(f"nothing of {item.name} is trained", f"contrast papers run {item.paper} {item.key}")
    drawn = [p for p in _draw(item, request, first) if any(fnmatchcase(p.name, like) for like in item.entry.pictures)]
    return drawn


def _draw(item: Item, request: Request, made: Sequence[Made]) -> Iterable[Picture]:
    one_backbone = len({one.maker.row[0] for one in made}) == 1
    labels = {one.maker.row[1] if one_backbone else ", ".join(reversed(one.maker.row)): one for one in made}
    if not item.rows:
        yield pictures.of_slopes(("cosine", "angle"))
    if not item.suites and "pca-*" in item.entry.pictures:
        yield from _sentences(labels)
    yield from pictures.of_runs({label: one.run.events() for label, one in labels.items() if one.run})
    suites = {label: _suites(item, request, one) for label, one in labels.items()}
    yield from pictures.of_models(suites)
    yield pictures.of_scores("sts", {label: headlines({"suites": scores}) for label, scores in suites.items()})


def _suites(item: Item, request: Request, one: Made) -> dict[str, Any]:
    """The scores of a model, with those of optional tasks, which are in the cache once they were measured."""
    with console.progress() as advance:
        return one.scores() | _optional_tasks(item, request, one, advance)


def _optional_tasks(item: Item, request: Request, one: Made, advance: OnProgress) -> dict[str, Any]:
    """The suites of the tasks that an item has beyond those that a suite measures by itself."""
    if not item.entry.tasks:
        return {}
    from contrastcli.evaluation.evaluate import evaluate  # torch is loaded here

    options = _options(request, advance, item.entry.tasks)
    return evaluate(one.model, [SUITES["geometry"]], options, one.maker.pooling).to_json()["suites"]  # type: ignore[no-any-return]


def _options(request: Request, on_progress: OnProgress, tasks: Sequence[str]) -> Options:
    from contrastcli.evaluation.result import Options  # numpy is loaded here

    return Options(Path(request.data_dir) if request.data_dir else None, tuple(tasks), on_progress=on_progress)


def _sentences(labels: Mapping[str, Made]) -> Iterable[Picture]:
    """Training sentences in the plane of their PCA under each model, a picture for each backbone."""
    from contrastcli.evaluation.evaluate import load_subject  # torch is loaded here
    from contrastcli.evaluation.geometry import training_sentences
    from contrastcli.evaluation.projection import pca

    config = next(one.maker.config for one in labels.values() if one.maker.config)
    texts = training_sentences(config.data)
    backbones: dict[str, dict[str, Any]] = {}
    with console.progress() as advance:
        for label, one in labels.items():
            subject = load_subject(one.model, one.maker.pooling, advance)
            backbones.setdefault(one.maker.row[0], {})[label] = pca(subject.encode(texts)).points.tolist()
    for backbone, planes in backbones.items():
        yield replace(pictures.of_sentences(planes, Path(config.data.train).name), name=f"pca-{backbone.lower()}")
