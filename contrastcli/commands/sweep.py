"""A sweep: its cells trained one after another, each in a process of its own, stopped and resumed as a whole.

A cell that diverges or fails does not end the sweep, and neither does a lost terminal. What is known of a cell is
read from its run directory, so that a sweep may be killed at any moment and go on.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from contrastcli.commands import train
from contrastcli.errors import RunError, UsageError
from contrastcli.files import locked
from contrastcli.model.locate import resolve
from contrastcli.runs import directory as runs
from contrastcli.runs import process as control
from contrastcli.runs import sweeps as grid
from contrastcli.runs.directory import Run
from contrastcli.runs.event_file import follow
from contrastcli.runs.events import Event
from contrastcli.runs.methods import Group, Member, spreads
from contrastcli.runs.sweeps import Cell, Sweep
from contrastcli.settings import config as configs
from contrastcli.settings.config import Config, Layer, conflicts
from contrastcli.settings.setting import spell
from contrastcli.show import console

WAITING = "waiting"
"""The state of a cell that no run has been made for."""

BACKBONE = "model.backbone"

_FINAL = ("finished", "diverged")  # training such a cell again would end the same way
_GOING = ("starting", "running", "silent")
_BAD = ("diverged", "failed", "killed")
_LET_GO = 60.0  # seconds for a process that has said its last word to leave


class Signals:
    """Ctrl-C and SIGTERM are counted: the first stops the running cell and the sweep, the second leaves at once."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        """Count one."""
        self.count += 1


def with_model_paths(sweep: Sweep, runs_dir: Path) -> Sweep:
    """A new sweep with each run that is a backbone or a teacher written as its path: `last` is one run for all cells.

    Raises DataError for a word that means several runs.
    """
    config = configs.resolve([Layer(sweep.settings, dict.fromkeys(sweep.settings, f"sweep {sweep.name}"))])
    backbones = [resolve(str(word), runs_dir).name for word in sweep.grid.get(BACKBONE, ())]
    grid = dict(sweep.grid) | ({BACKBONE: tuple(backbones)} if backbones else {})
    return replace(sweep, grid=grid, settings=train.with_model_paths(config, runs_dir).flat())


def check(sweep: Sweep, directory: Path) -> None:
    """Read each data set that a cell trains on, and look for each backbone and device, before anything is trained.

    Raises ContrastError for the first cell that could not begin, or that was trained with other settings.
    """
    from contrastcli.model.devices import choose_device
    from contrastcli.training.plan import make_plan

    cells = [(cell, train.with_model_paths(cell.config, directory)) for cell in sweep.cells()]
    for cell, config in cells:
        _check_unchanged(cell, config, directory)
    configs = [config for cell, config in cells if _state(cell, directory) not in _FINAL]
    for device in dict.fromkeys(config.train.device for config in configs):
        choose_device(device)
    for backbone in dict.fromkeys(config.model.backbone for config in configs):
        resolve(backbone).folder()
    for config in {_data(config): config for config in configs}.values():
        make_plan(config)


def _data(config: Config) -> tuple[object, ...]:
    """What decides whether the rows are there and suit."""
    return config.spec.needs, config.spec.labels, config.data, config.dev.data, config.train.batch_size


def _check_unchanged(cell: Cell, config: Config, directory: Path) -> None:
    run = Run(directory / cell.name)
    if not run.config_path.is_file():
        return
    if changed := conflicts(run.config(), config):
        what = f"{run.name} was trained with another {', '.join(changed)} than the sweep says"
        raise UsageError(what, "restore the file of the sweep, or begin another one")


def start(sweep: Sweep, directory: Path) -> int:
    """Train what is yet to be trained; returns 0, or the exit code of the first cell that failed. Raises ContrastError.

    A cell that has finished or diverged is left alone; one that was stopped, killed or has failed goes on.
    """
    cells = sweep.cells()
    taken = RunError(f"a process is training sweep {sweep.name} already", "wait for its end, or stop it with Ctrl-C")
    signals = Signals()
    with locked(directory / f".{sweep.name}.sweep.lock", taken), control.interrupts(signals):
        _say(f"sweep {sweep.name}: {len(cells)} cells")
        for number, cell in enumerate(cells, 1):
            if not signals.count:
                _train(cell, f"cell {number} of {len(cells)}", directory, signals)
    if signals.count:
        _say(f"go on with: contrast sweep --resume {sweep.name}")
        return 0
    ends = [Run(directory / cell.name).status() for cell in cells]
    return next((status.code for status in ends if status.state in _BAD), 0)


def _train(cell: Cell, which: str, directory: Path, signals: Signals) -> None:
    """Train a cell or go on with it, unless it has its end; say how it went."""
    run, state = Run(directory / cell.name), _state(cell, directory)
    if state not in _FINAL:
        _say(f"{which}: {label(cell)}")
        left = state in _GOING  # by a sweep that was killed
        if left:
            _follow(run, time.time(), signals)
        if not left or (run.status().state == "killed" and not signals.count):
            _launch(run, cell, directory, signals)
    _say(f"{which}: {label(cell)}: {_outcome(run)}")


def _launch(run: Run, cell: Cell, directory: Path, signals: Signals) -> None:
    if not run.config_path.is_file():
        runs.create(train.with_model_paths(cell.config, directory), directory, cell.name)
    began = time.time()
    control.launch(run, ["train", "--resume", str(run.path.resolve()), "--no-ui"])
    if not _follow(run, began, signals) and not signals.count:
        raise RunError(f"the process of {run.name} ended without a word", f"see {run.log_path}")


def _follow(run: Run, began: float, signals: Signals) -> bool:
    """Show what a run says from that moment on, until it ends, and whether it said anything.

    The first signal is passed on to it.
    """
    shown = console.Forgiving(console.console())
    heard = told = False
    for event in _events(run):
        if event is not None and event.time >= began:
            shown(event, b"")
            heard = True
        if signals.count and not told:
            control.request_stop(run)
            told = True
        if signals.count > 1:
            break
    shown.close()
    if signals.count < 2:
        control.wait(run, _LET_GO)
    return heard


def _events(run: Run) -> Iterator[Event | None]:
    for event in follow(run.events_path):
        if event is None and run.status().ended:
            return
        yield event


def _state(cell: Cell, directory: Path) -> str:
    run = Run(directory / cell.name)
    return run.status().state if run.config_path.is_file() else WAITING


def _outcome(run: Run) -> str:
    status = run.status()
    best = f", best dev {100 * status.best:.2f} (step {status.best_step:,})" if status.best is not None else ""
    return f"{status.state}{best}" + (f": {status.message}" if status.message else "")


def label(cell: Cell) -> str:
    """What sets a cell apart, in words."""
    return " ".join([*(f"{grid.short(k)}={spell(v)}" for k, v in cell.point.items()), f"seed={cell.seed}"])


def results(sweep: Sweep, directory: Path) -> tuple[Group, ...]:
    """What came of each point of the grid over its seeds, so far. Raises DataError."""
    points = groupby(sweep.cells(), key=lambda cell: cell.point)
    return tuple(_group(list(cells), directory) for _, cells in points)


def _group(cells: list[Cell], directory: Path) -> Group:
    members = tuple(_member(cell, directory) for cell in cells)
    return Group(dict(cells[0].point), members, spreads(members))


def _member(cell: Cell, directory: Path) -> Member:
    run = Run(directory / cell.name)
    return runs.member(run) if run.config_path.is_file() else Member(cell.name, cell.config.flat(), WAITING, {})


def _say(text: str) -> None:
    with contextlib.suppress(OSError):  # a terminal that has gone
        print(text, file=sys.stderr, flush=True)
