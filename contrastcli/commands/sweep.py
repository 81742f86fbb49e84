"""`contrast sweep`: trains cells one after another, stopped and resumed as a whole, by any number of processes.

A cell that diverges or fails does not end the sweep, nor does a lost terminal.
"""

import os
import shlex
import signal
import time
from collections.abc import Sequence
from operator import attrgetter, itemgetter
from pathlib import Path

from contrastcli.boundary import narrate, print_text
from contrastcli.commands.job import Job, is_alone, make_sweep
from contrastcli.errors import UsageError
from contrastcli.evaluation.run_scores import member
from contrastcli.runs import cells, process, sweeps
from contrastcli.runs.cells import Cell, Signals
from contrastcli.runs.directory import Run
from contrastcli.runs.results import SweepScores
from contrastcli.runs.status import IN_PROGRESS
from contrastcli.runs.sweeps import Sweep
from contrastcli.settings.config import conflicts
from contrastcli.show import console
from contrastcli.show.format import as_json, table
from contrastcli.show.runs import sweep_cells, sweep_scores
from contrastcli.show.settings import planned

_STOP_SECONDS = 60.0
"""How long stopped workers may take to save their cells."""


def run(job: Job, axes: Sequence[str], runs_dir: Path, worker: bool = False, workers: int = 1) -> int:
    """Train the cells of a sweep, or only check them; prints the results, and returns the exit code.

    As a `worker` among others of the same sweep, which one of them has written, it waits for none of them. Of so many
    `workers` the others are processes that it starts. Raises ContrastError.
    """
    if worker and workers > 1:
        raise UsageError("a --worker starts no others", "leave out --worker, or --workers")
    # Each would train every cell.
    if not (worker or is_alone()):
        hint = "leave out torchrun and srun; contrast sweep --workers N trains so many cells side by side"
        raise UsageError("the cells of a sweep are trained by one process each", hint)
    sweep = make_sweep(job, axes, runs_dir)
    is_new = job.resume is None and not (worker and sweeps.is_saved(sweep, runs_dir))
    if is_new and not worker:
        sweeps.check_free(sweep, runs_dir)
    check(sweep, runs_dir)
    if job.dry_run:
        _dry_run(sweep, runs_dir, job.json)
        return 0
    if is_new:
        sweeps.save(sweep, runs_dir, shared=worker)
    code = start(sweep, runs_dir, worker, workers)
    scores = results(sweep, runs_dir)
    print_text(as_json(scores) if job.json else sweep_scores(scores))
    states = [cell.state for cell in sweep.cells(runs_dir)]
    # Another worker may have cells left.
    if not {*states} & {*IN_PROGRESS}:
        _name_best(scores, runs_dir)
    if lost := sum(state in ("failed", "killed") for state in states):
        narrate(f"{lost} of {len(states)} cells failed or were killed; to continue: {sweep.command}")
    return code


def _dry_run(sweep: Sweep, runs_dir: Path, to_json: bool) -> None:
    """Print the cells, and below them what the first one to train would do and take. Raises ContrastError."""
    from contrastcli.commands.train import preview

    print_text(sweep_cells(results(sweep, runs_dir), to_json))
    untrained = [cell for cell in sweep.cells(runs_dir) if not cell.is_final]
    if untrained and not to_json:
        first = planned(preview(untrained[0].config, untrained[0].run))
        print_text(f"\n{table(('', ''), [('cell', untrained[0].name), *first])}")


def _name_best(scores: SweepScores, runs_dir: Path) -> None:
    """Tell the best run of those settings whose mean dev score is highest, if all have one measure."""
    dev = [(x.mean, one, name) for one in scores.cells for name, x in one.scores.items() if name.suite == "dev"]
    finished = [run for _, one, _ in dev for run in one.runs if run.state == "finished"]
    sets = {Run(runs_dir / run.name).rows().get("dev.data") for run in finished}
    if len({name for *_, name in dev}) == len(sets) == 1:
        _, method, _ = max(dev, key=itemgetter(0))
        ended = [Run(runs_dir / run.name).status() for run in method.runs if run.state == "finished"]
        best = max(ended, key=lambda status: status.best or 0)
        of = "of the highest mean, " if len(scores.seeds) > 1 else ""
        narrate(f"{of}the best is {best.name}, {best.best_text}; next: contrast export {shlex.quote(best.name)} DIR")


def check(sweep: Sweep, runs_dir: Path) -> None:
    """Raises ContrastError for the first cell that could not start, or that was trained with other settings."""
    every = sweep.cells(runs_dir)
    for cell in every:
        if cell.run.exists() and (changed := conflicts(cell.run.config(), cell.config)):
            what = f"{cell.name} was trained with another {', '.join(changed)} than the sweep has"
            raise UsageError(what, f"to train it again: contrast runs rm {cell.name}, or start a sweep of another name")
    check_cells(every)


def check_cells(every: Sequence[Cell]) -> None:
    """Check the data, models and device of each cell to train, unless it failed before. Raises ContrastError."""
    from contrastcli.commands.train import check_loading
    from contrastcli.model.devices import choose_device
    from contrastcli.training.plan import make_plan

    untrained = [cell for cell in every if not cell.is_final and cell.state != "failed"]
    for device in dict.fromkeys(cell.config.train.device for cell in untrained):
        choose_device(device)
    decide = "spec.needs", "spec.labels", "data", "dev", "train.batch_size", "model"
    decisions = ((attrgetter(*decide)(cell.config), repr(cell.config.objective.auxiliaries())) for cell in untrained)
    for cell in dict(zip(decisions, untrained, strict=True)).values():
        check_loading(make_plan(cell.config), cell.run)


def start(sweep: Sweep, runs_dir: Path, worker: bool = False, workers: int = 1) -> int:
    """Train each cell of a sweep that has not ended; returns the exit code. Raises ContrastError."""
    every = sweep.cells(runs_dir)
    narrate(f"sweep {sweep.name}: {len(every)} cells")
    others = _start_workers(sweep, runs_dir, workers)
    try:
        return train_cells(every, sweep.command, others, waits=not worker)[0]
    except Exception:
        # Without a terminal nobody would know of them.
        Signals(others)(signal.SIGINT)
        narrate(f"to continue: {sweep.command}")
        raise


def _start_workers(sweep: Sweep, runs_dir: Path, count: int) -> list[int]:
    """Start all workers but this one, and share out cores and GPUs; returns their pids. Raises RunError."""
    pids: list[int] = []
    if count > 1:
        # The check of the device has loaded it already.
        import torch

        every_gpu = ",".join(map(str, range(torch.cuda.device_count())))
        gpus = os.environ.get("CUDA_VISIBLE_DEVICES", every_gpu).split(",")
        # Of a machine's cores this process may have a few.
        os.environ.setdefault("OMP_NUM_THREADS", str(max(1, torch.get_num_threads() // count)))
        for number in reversed(range(count)):
            os.environ["CUDA_VISIBLE_DEVICES"] = gpus[number % len(gpus)]
            if number:
                words = ("--runs-dir", str(runs_dir), "sweep", "--resume", sweep.name, "--worker")
                log = runs_dir / f"{sweep.name}.worker-{number + 1}.log"
                pids.append(process.start_detached([*process.CONTRAST, *words], log))
    return pids


def train_cells(
    every: Sequence[Cell], command: str, workers: Sequence[int] = (), *, waits: bool = True
) -> tuple[int, bool]:
    """Train cells one after another, each unless another process does; returns the exit code, and whether all ended.

    Cells that finished or diverged are skipped; those that were stopped, killed or failed are resumed. With `waits`,
    those of other processes are followed to their end, and taken where the process has died; so is one that died here
    and was resumed there. `command` continues what a signal ends, of the `workers` too. Raises ContrastError.
    """
    signals, began, told = Signals(workers), time.time(), set[str]()
    titled = {f"cell {number} of {len(every)}: {cell.title}": cell for number, cell in enumerate(every, 1)}
    left = dict(titled)
    with process.handle_signals(signals):
        while left and not signals.count:
            title = next((title for title, cell in left.items() if _train(cell, title, began, signals)), None)
            if title is not None:
                _print_result(left.pop(title), title)
                if waits and not left:
                    left = {title: cell for title, cell in titled.items() if cell.state in IN_PROGRESS}
            elif waits:
                title, cell = next(iter(left.items()))
                if title not in told:
                    narrate(f"{title}: another process trains it; to stop that: contrast stop {cell.name}")
                told.add(title)
                with console.showing(console.console()) as shown:
                    cells.wait_for(cell, shown, signals)
            else:
                break
    if signals.count:
        for cell in left.values():
            if workers and cell.run.exists():
                process.wait_for_end(cell.run, _STOP_SECONDS)
        narrate(f"to continue: {command}")
        return signals.code, False
    # One that was deleted meanwhile has no end.
    ends = [cell.run.status() for cell in every if cell.run.exists()]
    return next((status.code for status in ends if status.state in ("diverged", "failed", "killed")), 0), True


def _train(cell: Cell, title: str, began: float, signals: Signals) -> bool:
    """Train a cell unless that would give the same result; returns whether that is done, not left to another process.

    What failed elsewhere since this command began would fail here too.
    """
    if cell.is_final or (cell.state == "failed" and cell.run.status().updated >= began):
        return True
    since = cells.start(cell) if cell.is_free else None
    if since is not None:
        narrate(title)
        with console.showing(console.console()) as shown:
            cells.follow(cell.run, since, shown, signals)
    return since is not None


def _print_result(cell: Cell, title: str) -> None:
    status = cell.run.status()
    best = f", best dev {status.best_text} (step {status.best_step:,})" if status.best is not None else ""
    narrate(f"{title}: {status.state}{best}" + (f": {status.message}" if status.message else ""))


def results(sweep: Sweep, runs_dir: Path) -> SweepScores:
    """The scores of each point of the grid over its seeds, so far. Raises DataError."""
    return sweep.scores({cell.name: member(cell.run) for cell in sweep.cells(runs_dir) if cell.run.exists()})
