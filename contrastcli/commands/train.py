"""From settings to a run: dry, in this process, in the background, or again from a checkpoint."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from contrastcli.errors import UsageError
from contrastcli.files import atomic_write, writing_to
from contrastcli.model.locate import resolve
from contrastcli.runs import directory as runs
from contrastcli.runs import process as control
from contrastcli.runs.directory import Run
from contrastcli.runs.event_file import follow
from contrastcli.runs.events import Evaluated, Event, Saved, Step, encode
from contrastcli.runs.results import Preview
from contrastcli.settings import config as configs
from contrastcli.settings import sections
from contrastcli.settings.config import Config, Layer
from contrastcli.show import console

if TYPE_CHECKING:
    from contrastcli.training.plan import Plan


def preview(config: Config) -> Preview:
    """Read the data and lay out the run. Raises DataError and UsageError."""
    from contrastcli.data.examples import preview as first_rows
    from contrastcli.training.checkpoint import disk_bytes
    from contrastcli.training.plan import make_plan

    plan = make_plan(config)
    backbone = resolve(config.model.backbone).local_folder()
    return Preview(
        config=config,
        rows=first_rows(plan.examples),
        notes=(*config.notes, *plan.examples.notes),
        count=len(plan.examples),
        steps=plan.steps,
        steps_per_epoch=plan.steps_per_epoch,
        sentences_per_step=plan.sentences_per_step,
        negatives_per_anchor=plan.negatives_per_anchor,
        dev_pairs=len(plan.dev) if plan.dev else 0,
        disk=disk_bytes(backbone, plan.dev is not None, config.spec.peer) if backbone else None,
    )


def changed(run: Run, flags: Layer) -> Config:
    """A run's settings with what a resume may change. Raises UsageError for anything else."""
    stored = configs.file_layer(run.config_path, f"run {run.name}")
    before, after = configs.resolve([stored]), configs.resolve([stored, flags])
    if fixed := configs.conflicts(before, after):
        may_change = sorted(key for key, setting in sections.settings_of(after.spec).items() if setting.resumable)
        raise UsageError(
            f"a resumed run cannot change {', '.join(fixed)}",
            f"only {', '.join(may_change)}; for the rest start a new run: --config {run.config_path}",
        )
    return after


def with_model_paths(config: Config, runs_dir: Path) -> Config:
    """The settings with each run that is a backbone or a teacher written as its path: a name may change its meaning.

    Raises DataError for a word that means several runs.
    """
    from contrastcli.training.teachers import named_teachers

    backbone = resolve(config.model.backbone, runs_dir).name
    config = replace(config, model=msgspec.structs.replace(config.model, backbone=backbone))
    teachers = named_teachers(config.objective)
    with_paths = [replace(teacher, name=resolve(teacher.name, runs_dir).name) for teacher in teachers]
    if with_paths == teachers:
        return config
    words = ",".join(map(str, with_paths))
    return replace(config, objective=msgspec.structs.replace(config.objective, teachers=words))


def start(
    config: Config,
    run: Run | None,
    directory: Path,
    name: str | None,
    *,
    json: bool = False,
    detach: bool = False,
    show: Callable[[Run], None] | None = None,
) -> int:
    """Train a new run or resume one; returns the exit code. Raises ContrastError.

    It trains in this process; with `detach` in one of its own, and with `show` too, which is called once it runs.
    """
    from contrastcli.model.devices import choose_device
    from contrastcli.training.distributed import world
    from contrastcli.training.plan import make_plan

    everyone = world()
    plan = make_plan(config)
    if run is not None and _has_finished(run, plan):
        _say(f"{run.name} has finished its {run.status().steps:,} steps; to extend it: --max-steps N or --epochs N")
        return 0
    choose_device(config.train.device)
    if everyone.leads:
        for model in (config.model.backbone, *(teacher.name for teacher in plan.teachers)):
            resolve(model).folder()  # better no run than one that cannot begin
        run = _prepare(config, run, directory, name)
    run = Run(Path(everyone.share(str(run.path) if run else "")))
    if not detach and show is None:
        return _train(run, plan, json)
    control.launch(run, ["train", "--resume", str(run.path.resolve()), "--no-ui"])
    if show is not None:
        show(run)
        return _report(run)
    print(run.path, flush=True)
    _say(f"training in the background: contrast watch {run.name}")
    return 0


def _report(run: Run) -> int:
    """Say how a run that was shown stands; returns its exit code where it has ended."""
    status = run.status()
    if not status.ended:
        _say(f"{run.name} goes on training: contrast watch {run.name}")
    elif status.code == 0:
        _conclude(run)
    else:
        _say(f"{run.name} {status.state}: {status.message}\nhint: {status.hint}")
    print(run.path, flush=True)
    return status.code


def _has_finished(run: Run, plan: Plan) -> bool:
    status = run.status()
    return status.state == "finished" and plan.steps <= status.steps


def _prepare(config: Config, run: Run | None, directory: Path, name: str | None) -> Run:
    if run is None:
        return runs.create(config, directory, name)
    with run.locked(), writing_to(run.path):  # refuses before it changes anything
        atomic_write(run.config_path, config.to_toml().encode())
    return run


def _train(run: Run, plan: Plan, json: bool) -> int:
    from contrastcli.training import process
    from contrastcli.training.distributed import world

    shown = console.Forgiving(console.console(json))
    try:
        done = process.train(run, plan, shown if json else _PathFirst(run, shown), world())
    finally:
        shown.close()
    if world().leads:
        _conclude(run)
    return done.code


class _PathFirst:
    """Prints a run's path, the result, as soon as it trains: where loading fails, stdout stays empty."""

    def __init__(self, run: Run, shown: console.Console) -> None:
        self._run: Run | None = run
        self._shown = shown

    def __call__(self, event: Event, line: bytes) -> None:
        if self._run and isinstance(event, Step | Evaluated | Saved):
            self._shown.close()  # a bar would share its line
            path, self._run = self._run.path, None
            with contextlib.suppress(BrokenPipeError):  # the reader has gone, and training goes on
                print(path, flush=True)
        self._shown(event, line)


def _conclude(run: Run) -> None:
    """Say what training did to the dev score, and what to do next."""
    scores = [e for e in run.events() if isinstance(e, Evaluated) and e.spearman is not None]
    best = max((e for e in scores if e.best), key=lambda e: e.step, default=None)
    if best and scores[0].step == 0:
        before, after = (f"{100 * (e.spearman or 0):.2f}" for e in (scores[0], best))
        _say(f"dev Spearman {before} before training, {after} at its best (step {best.step:,})")
    if run.status().state == "stopped":
        _say(f"go on with: contrast train --resume {run.name}")
    _say('next: contrast query "a dog runs" "a puppy sprints"')


def watch(run: Run, json: bool) -> int:
    """Show a run's events as they come, and return the exit code that it ends with."""
    shown = console.console(json)
    try:
        for event in follow(run.events_path):
            if event is not None:
                shown(event, encode(event))
            elif (status := run.status()).ended:
                break
    finally:
        shown.close()
    return status.code


def _say(text: str) -> None:
    print(text, file=sys.stderr)
