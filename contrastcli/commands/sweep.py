"""`contrast sweep`: trains cells one after another, stopped and resumed as a whole.

A cell that diverges or fails does not end the sweep, nor does a lost terminal.
"""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from msgspec import structs

from contrastcli.boundary import narrate
from contrastcli.commands import train
from contrastcli.errors import RunError, UsageError
from contrastcli.evaluation.run_scores import member
from contrastcli.files import locked
from contrastcli.model.locate import resolve
from contrastcli.runs import cells, process, sweeps
from contrastcli.runs.cells import WAITING, Cell, Signals
from contrastcli.runs.methods import Member, method
from contrastcli.runs.results import SweepScores
from contrastcli.runs.sweeps import Sweep
from contrastcli.settings import sections
from contrastcli.settings.config import conflicts
from contrastcli.settings.setting import Value
from contrastcli.show import console
from contrastcli.show.runs import sweep_cells, sweep_scores


def with_model_paths(sweep: Sweep, runs_dir: Path) -> Sweep:
    """The sweep with paths for the runs that are backbones or teachers, so that `last` is one run for all cells.

    Raises DataError for a word that means several runs.
    """
    paths: dict[tuple[str, Value], Value] = {}
    for cell in sweep.cells(runs_dir):
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
    """Raises ContrastError for the first cell that could not start, or that was trained with other settings."""
    every = sweep.cells(runs_dir)
    for cell in every:
        if cell.run.exists() and (changed := conflicts(cell.run.config(), cell.config)):
            what = f"{cell.name} was trained with another {', '.join(changed)} than the sweep has"
            raise UsageError(what, "restore the file of the sweep, or start another one")
    check_cells(every)


def check_cells(every: Sequence[Cell]) -> None:
    """Check the data, backbone and device of each cell that is to be trained. Raises ContrastError."""
    from contrastcli.model.devices import choose_device
    from contrastcli.training.plan import make_plan

    untrained = [cell.config for cell in every if not cell.is_final]
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
    """Train each cell of a sweep that has not ended; returns the exit code. Raises ContrastError."""
    every = sweep.cells(runs_dir)
    in_use = RunError(f"a process is training sweep {sweep.name} already", "wait for its end, or stop it with Ctrl-C")
    with locked(runs_dir / f".{sweep.name}.sweep.lock", in_use):
        narrate(f"sweep {sweep.name}: {len(every)} cells")
        return train_cells(every, sweep.command) or 0


def train_cells(every: Sequence[Cell], command: str) -> int | None:
    """Train cells one after another; returns 0 or the exit code of the first that failed, and None after a signal.

    Cells that finished or diverged are skipped; those that were stopped, killed or failed are resumed. `command`
    continues what a signal ends. Raises ContrastError.
    """
    signals = Signals()
    with process.handle_signals(signals):
        for number, cell in enumerate(every, 1):
            if not signals.count:
                _train(cell, f"cell {number} of {len(every)}: {cell.title}", signals)
    if signals.count:
        narrate(f"to continue: {command}")
        return None
    ends = [cell.run.status() for cell in every]
    return next((status.code for status in ends if status.state in ("diverged", "failed", "killed")), 0)


def _train(cell: Cell, title: str, signals: Signals) -> None:
    """Train a cell unless that would give the same result, and print its result."""
    if not cell.is_final:
        narrate(title)
        with console.showing(console.console()) as shown:
            cells.train(cell, shown, signals)
    status = cell.run.status()
    best = f", best dev {status.best_text} (step {status.best_step:,})" if status.best is not None else ""
    narrate(f"{title}: {status.state}{best}" + (f": {status.message}" if status.message else ""))


def results(sweep: Sweep, runs_dir: Path) -> SweepScores:
    """The scores of each point of the grid over its seeds, so far. Raises DataError."""
    methods = []
    for point, every in groupby(sweep.cells(runs_dir), key=lambda cell: cell.point):
        members = [
            member(cell.run) if cell.run.exists() else Member(cell.name, cell.config.flat(), WAITING, {})
            for cell in every
        ]
        methods.append(method(point, members))
    return SweepScores(sweep.name, dict(sweep.grid), sweep.seeds, tuple(methods))
