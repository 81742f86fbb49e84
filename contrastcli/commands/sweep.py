"""`contrast sweep`: trains cells one after another, each in its own process; stopped and resumed as a whole.

A cell that diverges or fails does not end the sweep, nor does a lost terminal. The state of a cell is read from its run
directory, so that a sweep may be killed at any moment and resumed.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path

from msgspec import structs

from contrastcli.boundary import narrate
from contrastcli.commands import train
from contrastcli.errors import RunError, UsageError
from contrastcli.evaluation.run_scores import member
from contrastcli.files import locked
from contrastcli.model.locate import resolve
from contrastcli.runs import directory, process, sweeps
from contrastcli.runs.directory import Run
from contrastcli.runs.methods import Member, method
from contrastcli.runs.results import SweepScores
from contrastcli.runs.status import IN_PROGRESS
from contrastcli.runs.sweeps import Cell, Sweep, short
from contrastcli.settings import sections
from contrastcli.settings.config import conflicts
from contrastcli.settings.setting import Value, spell
from contrastcli.show import console
from contrastcli.show.runs import sweep_cells, sweep_scores

WAITING = "waiting"
"""The state of a cell that has no run yet."""

_FINAL = ("finished", "diverged")  # training again would give the same result
_BAD = ("diverged", "failed", "killed")
_RELEASE = 60.0  # seconds for a process to release its run after the last event


class Signals:
    """Counts Ctrl-C, SIGTERM and SIGUSR1: the first stops the running cell and the sweep, the second exits at once."""

    count = 0

    def __call__(self, number: int) -> None:
        self.count += 1


def with_model_paths(sweep: Sweep, runs_dir: Path) -> Sweep:
    """The sweep with paths for the runs that are backbones or teachers, so that `last` is one run for all cells.

    Raises DataError for a word that means several runs.
    """
    paths: dict[tuple[str, Value], Value] = {}
    for cell in sweep.cells():
        settings_of_cell = sections.settings_of(cell.config.spec)
        models = {key: value for key, value in cell.config.flat().items() if settings_of_cell[key].names_model}
        if not paths.keys() >= models.items():
            with_paths = train.with_model_paths(cell.config, runs_dir).flat()
            paths |= {(key, value): with_paths[key] for key, value in models.items()}
    grid = {key: tuple(paths.get((key, value), value) for value in values) for key, values in sweep.grid.items()}
    settings = {key: paths.get((key, value), value) for key, value in sweep.settings.items()}
    return structs.replace(sweep, grid=grid, settings=settings)


def run(sweep: Sweep, runs_dir: Path, is_new: bool, dry_run: bool, json: bool) -> tuple[str, int]:
    """Train the cells of a sweep, or only check them; returns the results as text, and the exit code.

    Raises ContrastError.
    """
    sweep = with_model_paths(sweep, runs_dir)
    if is_new:
        sweeps.check_free(sweep, runs_dir)
    check(sweep, runs_dir)
    if dry_run:
        return sweep_cells(results(sweep, runs_dir), json), 0
    if is_new:
        sweeps.save(sweep, runs_dir)
    code = start(sweep, runs_dir)
    return sweep_scores(results(sweep, runs_dir), json), code


def check(sweep: Sweep, runs_dir: Path) -> None:
    """Check the settings, data, backbone and device of each cell before training.

    Raises ContrastError for the first cell that could not start, or that was trained with other settings.
    """
    cells = sweep.cells()
    for cell in cells:
        run = Run(runs_dir / cell.name)
        if run.exists() and (changed := conflicts(run.config(), cell.config)):
            what = f"{run.name} was trained with another {', '.join(changed)} than the sweep has"
            raise UsageError(what, "restore the file of the sweep, or start another one")
    check_cells(cells, runs_dir)


def check_cells(cells: Sequence[Cell], runs_dir: Path) -> None:
    """Check the data, backbone and device of each cell that is to be trained. Raises ContrastError."""
    from contrastcli.model.devices import choose_device
    from contrastcli.training.plan import make_plan

    untrained = [cell.config for cell in cells if _state(Run(runs_dir / cell.name)) not in _FINAL]
    for device in dict.fromkeys(config.train.device for config in untrained):
        choose_device(device)
    for backbone in dict.fromkeys(config.model.backbone for config in untrained):
        resolve(backbone).folder()
    with_other_data = {
        (config.spec.needs, config.spec.labels, config.data, config.dev, config.train.batch_size): config
        for config in untrained
    }
    for config in with_other_data.values():
        make_plan(config)


def start(sweep: Sweep, runs_dir: Path) -> int:
    """Train each cell that has not ended; returns 0, or the exit code of the first that failed. Raises ContrastError.

    Cells that finished or diverged are skipped; those that were stopped, killed or failed are resumed.
    """
    cells = sweep.cells()
    titles = [f"cell {number} of {len(cells)}: {label(cell)}" for number, cell in enumerate(cells, 1)]
    in_use = RunError(f"a process is training sweep {sweep.name} already", "wait for its end, or stop it with Ctrl-C")
    signals = Signals()
    with locked(runs_dir / f".{sweep.name}.sweep.lock", in_use), process.handle_signals(signals):
        narrate(f"sweep {sweep.name}: {len(cells)} cells")
        code = train_cells(dict(zip(titles, cells, strict=True)), runs_dir, signals)
    if signals.count:
        narrate(f"to continue: contrast sweep --resume {sweep.name}")
    return code


def train_cells(cells: Mapping[str, Cell], runs_dir: Path, signals: Signals) -> int:
    """Train cells by title; returns 0, also after a signal, or the exit code of the first that failed."""
    for title, cell in cells.items():
        if not signals.count:
            _train(cell, title, runs_dir, signals)
    ends = [] if signals.count else [Run(runs_dir / cell.name).status() for cell in cells.values()]
    return next((status.code for status in ends if status.state in _BAD), 0)


def _train(cell: Cell, title: str, runs_dir: Path, signals: Signals) -> None:
    """Train or resume a cell unless it has ended, and print its result."""
    run = Run(runs_dir / cell.name)
    state = _state(run)
    if state not in _FINAL:
        narrate(title)
        in_progress = state in (*IN_PROGRESS, "silent")  # of a sweep that was killed
        if in_progress:
            _follow(run, time.time(), signals)
        if not in_progress or (run.status().state == "killed" and not signals.count):
            if not run.exists():
                directory.create(cell.config, runs_dir, cell.name)
            began = time.time()
            process.launch(run, ["train", "--resume", str(run.path.resolve()), "--no-ui"])
            if not _follow(run, began, signals) and not signals.count:
                raise RunError(f"the process of {run.name} ended and reported nothing", f"see {run.log_path}")
    status = run.status()
    best = f", best dev {status.best_text} (step {status.best_step:,})" if status.best is not None else ""
    narrate(f"{title}: {status.state}{best}" + (f": {status.message}" if status.message else ""))


def _follow(run: Run, began: float, signals: Signals) -> bool:
    """Show the events of a run from the time `began` until it ends; returns whether there were any.

    The first signal stops it.
    """
    reported = stopping = False
    with console.showing(console.console()) as shown:
        for event in run.follow():
            if event is not None and event.time >= began:
                shown(event, b"")
                reported = True
            if signals.count and not stopping:
                process.request_stop(run)
                stopping = True
            if signals.count > 1:
                break
    if signals.count < 2:
        process.wait_for_end(run, _RELEASE)
    return reported


def _state(run: Run) -> str:
    return run.status().state if run.exists() else WAITING


def label(cell: Cell) -> str:
    """The values that distinguish a cell, as text."""
    return " ".join([*(f"{short(key)}={spell(value)}" for key, value in cell.point.items()), f"seed={cell.seed}"])


def results(sweep: Sweep, runs_dir: Path) -> SweepScores:
    """The scores of each point of the grid over its seeds, so far. Raises DataError."""
    methods = []
    for point, cells in groupby(sweep.cells(), key=lambda cell: cell.point):
        members = []
        for cell in cells:
            run = Run(runs_dir / cell.name)
            untrained = Member(cell.name, cell.config.flat(), WAITING, {})
            members.append(member(run) if run.exists() else untrained)
        methods.append(method(point, members))
    return SweepScores(sweep.name, dict(sweep.grid), sweep.seeds, tuple(methods))
