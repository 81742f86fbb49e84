"""`contrast train` and `watch`: from settings to a run, previewed, trained here or in the background, or resumed."""

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
from contrastcli.runs.directory import Run, create
from contrastcli.runs.events import Evaluated, Event, Saved, Step, encode
from contrastcli.runs.process import launch
from contrastcli.runs.results import Preview, sourced
from contrastcli.runs.text import score
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
        settings=sourced(config),
        rows=first_rows(plan.examples),
        notes=(*config.notes, *plan.examples.notes),
        count=len(plan.examples),
        steps=plan.steps,
        steps_per_epoch=len(plan.order),
        sentences_per_step=plan.sentences_per_step,
        negatives_per_anchor=plan.negatives_per_anchor,
        dev_pairs=len(plan.dev) if plan.dev else 0,
        disk=disk_bytes(backbone, plan.dev is not None, config.objective.encoders) if backbone else None,
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

    def path(word: str) -> str:
        return resolve(word, runs_dir).name

    model = msgspec.structs.replace(config.model, backbone=path(config.model.backbone))
    config = replace(config, model=model)
    if not config.objective.auxiliaries():
        return config
    from contrastcli.training.auxiliary import make_auxiliaries  # torch is loaded here

    changed: dict[str, object] = {}
    for auxiliary in make_auxiliaries(config.objective):
        changed |= auxiliary.with_models(path)
    return replace(config, objective=msgspec.structs.replace(config.objective, **changed))


def start(
    config: Config,
    run: Run | None,
    runs_dir: Path,
    name: str | None,
    *,
    json: bool = False,
    detach: bool = False,
    show: Callable[[Run], None] | None = None,
) -> int:
    """Train a new run or resume one; returns the exit code. Raises ContrastError.

    It trains in this process; with `detach` or `show` in a process of its own, and `show` is called once that runs.
    """
    from contrastcli.model.devices import choose_device
    from contrastcli.training.distributed import world
    from contrastcli.training.plan import make_plan

    processes = world()
    plan = make_plan(config)
    if run is not None and _has_finished(run, plan):
        _narrate(f"{run.name} has finished its {run.status().steps:,} steps; to extend it: --max-steps N or --epochs N")
        return 0
    choose_device(config.train.device)
    if processes.is_main:
        for model in plan.models:
            resolve(model).folder()  # before there is a run that could not begin
        run = _prepare(config, run, runs_dir, name)
    run = Run(Path(processes.broadcast(str(run.path) if run else "")))
    if not detach and show is None:
        return _train(run, plan, json)
    launch(run, ["train", "--resume", str(run.path.resolve()), "--no-ui"])
    if show is not None:
        show(run)
        return _report(run)
    print(run.path, flush=True)
    _narrate(f"training in the background: contrast watch {run.name}")
    return 0


def _has_finished(run: Run, plan: Plan) -> bool:
    status = run.status()
    return status.state == "finished" and plan.steps <= status.steps


def _prepare(config: Config, run: Run | None, runs_dir: Path, name: str | None) -> Run:
    """A new run, or one that is resumed with the settings that may change."""
    if run is None:
        return create(config, runs_dir, name)
    with run.locked(), writing_to(run.path):  # refuses before it changes anything
        atomic_write(run.config_path, config.to_toml().encode())
    return run


def _report(run: Run) -> int:
    """Print the state of a run that was shown; returns its exit code if it has ended."""
    status = run.status()
    if not status.ended:
        _narrate(f"{run.name} is still training: contrast watch {run.name}")
    elif status.code == 0:
        _print_outcome(run)
    else:
        _narrate(f"{run.name} {status.state}: {status.message}\nhint: {status.hint}")
    print(run.path, flush=True)
    return status.code


def _train(run: Run, plan: Plan, json: bool) -> int:
    from contrastcli.training.distributed import world
    from contrastcli.training.process import train

    shown = console.IgnoreClosedStream(console.console(json))
    try:
        done = train(run, plan, shown if json else _PrintPathOnce(run, shown), world())
    finally:
        shown.close()
    if world().is_main:
        _print_outcome(run)
    return done.code


class _PrintPathOnce:
    """Prints a run's path, the result, at the first event of training: where loading fails, stdout stays empty."""

    def __init__(self, run: Run, shown: console.Console) -> None:
        self._run: Run | None = run
        self._shown = shown

    def __call__(self, event: Event, line: bytes) -> None:
        if self._run and isinstance(event, Step | Evaluated | Saved):
            self._shown.close()  # a bar would share its line
            path, self._run = self._run.path, None
            with contextlib.suppress(BrokenPipeError):  # training does not need the reader
                print(path, flush=True)
        self._shown(event, line)


def _print_outcome(run: Run) -> None:
    """Print the dev score before and after training, and the next step."""
    scores = [e for e in run.events() if isinstance(e, Evaluated) and e.spearman is not None]
    best = max((e for e in scores if e.best), key=lambda e: e.step, default=None)
    if best and scores[0].step == 0:
        before, after = score(scores[0].spearman), score(best.spearman)
        _narrate(f"dev Spearman {before} before training, {after} at its best (step {best.step:,})")
    if run.status().state == "stopped":
        _narrate(f"to continue: contrast train --resume {run.name}")
    _narrate('next: contrast query "a dog runs" "a puppy sprints"')


def watch(run: Run, json: bool) -> int:
    """Show a run's events as they are written; returns the exit code of its end."""
    shown = console.console(json)
    try:
        for event in run.follow():
            if event is not None:
                shown(event, encode(event))
    finally:
        shown.close()
    return run.status().code


def _narrate(text: str) -> None:
    print(text, file=sys.stderr)
