"""From the words of a command line to what they ask for: the settings of a run, or a sweep."""

import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from contrastcli.boundary import narrate
from contrastcli.errors import DataError, UsageError, Use
from contrastcli.model.locate import resolve as locate
from contrastcli.runs import directory as runs
from contrastcli.runs import sweeps
from contrastcli.runs.directory import Run
from contrastcli.runs.process import slurm_tasks
from contrastcli.runs.sweeps import Sweep
from contrastcli.settings import config, presets, sections
from contrastcli.settings.catalogue import find_objective
from contrastcli.settings.presets import Preset
from contrastcli.settings.setting import Setting, Value, spell


@dataclass(frozen=True)
class Job:
    """The options of a command that takes settings; `typed` are flags and `--set`."""

    preset: str | None
    file: Path | None
    typed: config.Layer
    json: bool
    name: str | None = None
    resume: str | None = None
    resume_or_start: str | None = None
    seeds: int | None = None
    dry_run: bool = False


def flag_layer(assignments: Sequence[str], flags: Sequence[tuple[Setting, str]] = ()) -> config.Layer:
    """What was typed: the texts of settings by their flags, and assignments by `--set key=value`."""
    values = {setting.key: text for setting, text in flags}
    sources = {setting.key: setting.flag for setting, _ in flags}
    for assignment in assignments:
        key, equals, value = (part.strip() for part in assignment.partition("="))
        if not equals:
            key, _, value = (part.strip() for part in assignment.partition(":"))
            written = f"{sections.key_of(key)}={value or 'VALUE'}"
            raise UsageError(f"--set {assignment} has no value", f"write --set {shlex.quote(written)}")
        values[key], sources[key] = value, f"--set {key}"
    return config.Layer(values, sources, text=True, strict=True)


def resolve(job: Job) -> config.Config:
    """The settings of a job. Raises UsageError and DataError."""
    preset = _preset(job)
    if preset.grid or preset.seeds > 1:
        words = ["--config", str(job.file)] if job.file else ["--preset", preset.name]
        typed = [(sections.find_setting(key), str(text)) for key, text in job.typed.values.items()]
        words += [word for setting, text in typed for word in setting.words(text)]
        hint = f"train it: {shlex.join(['contrast', 'sweep', *words])}, or choose a preset of a run"
        raise UsageError(f"'{preset.name}' is a grid of runs", hint)
    return config.resolve([*presets.stack(preset), job.typed])


def run_and_config(job: Job, directory: Path) -> tuple[Run, config.Config]:
    """The run to resume, or one to start, which does not exist yet, and the settings. Raises ContrastError."""
    if job.resume is not None:
        variables = config.environment_layer(os.environ)
        is_run = Run(directory / job.resume).exists()
        if not is_run and job.resume in [sweep.name for sweep in sweeps.list_sweeps(directory)]:
            raise DataError(f"'{job.resume}' is a sweep, not a run", f"contrast sweep --resume {job.resume}")
        run = runs.find_run(job.resume, directory)
        return run, _changed(run, _above(run, variables, job.typed))
    typed = resolve(job)
    settings, words = with_model_paths(typed, directory), typed.flat()
    if not job.resume_or_start or not (run := Run(directory / job.resume_or_start)).exists():
        name = job.name if job.resume_or_start is None else job.resume_or_start
        run = Run(directory / runs.run_name(name, settings, directory))
        runs.check_free(run)
        return run, settings
    stated = {key: value for key, value in settings.flat().items() if settings.sources[key] != "default"}
    # The run has what `last` meant when it began; now that may be the run itself.
    named = re.compile(r"(.*,)? *last *([,:=].*)?")
    begun = [key for key in stated if stated[key] != words[key] and named.fullmatch(str(words[key]))]
    stated = {key: value for key, value in stated.items() if key not in begun}
    try:
        return run, _changed(run, config.Layer(stated, settings.sources))
    except UsageError as error:
        raise UsageError(error.what, [Use("--resume-or-start", "NAME", "start another:"), *error.remedies]) from None


def with_model_paths(settings: config.Config, runs_dir: Path) -> config.Config:
    """The settings with paths for the runs that are backbones or teachers, since a name may mean another run later.

    What comes with contrast means no run. Raises DataError for a word that means several runs.
    """
    changed: dict[str, Value] = {}
    for key, setting in sections.settings_of(settings.spec).items():
        is_own = not re.fullmatch("default|preset .*", settings.sources.get(key, ""))
        if setting.names_model and is_own and setting.name not in settings.objective.inactive():
            changed[key] = model_paths(setting, settings.flat()[key], runs_dir)
    return settings.with_values(changed)


def model_paths(setting: Setting, value: Value, runs_dir: Path) -> Value:
    """The value of a setting, with paths for the runs among the models that it names. Raises ContrastError."""

    def path(word: str) -> str:
        return locate(word, runs_dir).name

    if setting.names_model == "one":
        return path(str(value))
    if not (setting.names_model and value):
        return value
    from contrastcli.training.auxiliaries.teachers import with_paths  # loads torch

    return with_paths(str(value), setting.name, path, runs_dir)


def _above(run: Run, variables: config.Layer, typed: config.Layer) -> config.Layer:
    """What was typed for a resume, and the variables that it may change; a note on other values that are not used."""
    before = run.config()
    flat, settings = before.flat(), sections.settings_of(before.spec)
    taken = {key: text for key, text in variables.values.items() if key in settings and settings[key].resumable}
    sources = {**variables.sources, **typed.sources}
    layer = replace(typed, values={**taken, **typed.values}, sources=sources, notes=variables.notes)
    for lower in (*config.user_layers(), variables):
        for key in [key for key in lower.values if key in settings and key not in layer.values]:
            # Files state the usual, and a run its own.
            is_of_note = settings[key].resumable or lower is variables
            if is_of_note and lower.read(settings[key]) != flat[key]:
                narrate(f"note: {lower.sources[key]} states another {key}, which a resume does not take")
    return layer


def _changed(run: Run, flags: config.Layer) -> config.Config:
    """The settings of a run to resume, with those that were typed. Raises UsageError for one that may not change."""
    stored = config.file_layer(run.config_path, f"run {run.name}")
    before = run.config()
    # To be read it need not be here.
    find_objective(before.spec.name, f"run {run.name}", "install the package that it comes from")
    after = config.resolve([stored, flags])
    if fixed := config.conflicts(before, after):
        settings, values = sections.settings_of(after.spec), after.flat()
        public = [key for key in flags.values if not settings[key].secret]
        words = [word for key in public for word in settings[key].words(spell(values[key]))]
        # Steps of the run would end before the epochs that were typed, without steps.
        by_epochs = "train.epochs" in flags.values and "train.max_steps" not in flags.values
        words += ["--max-steps", "0"] if by_epochs and before.train.max_steps else []
        new = f"contrast train --config {shlex.quote(str(run.config_path))} {shlex.join(words)}"
        places = {key: "" if source.startswith("--") else f" ({source})" for key, source in flags.sources.items()}
        typed = [f"{key}{places[key]}" for key in fixed if key in flags.values] or fixed
        raise UsageError(f"a resumed run cannot change {', '.join(typed)}", f"leave that out, or in a new run: {new}")
    return after


def _preset(job: Job) -> Preset:
    """The preset of --preset or --config, else an empty one. Raises UsageError and DataError."""
    if job.preset is not None and job.file:
        hint = f'leave out --preset, with base = "{job.preset}" as the first line of {job.file}'
        raise UsageError("--preset and --config exclude each other", hint)
    if job.preset is not None:
        return presets.find(job.preset)
    return presets.read(job.file) if job.file else Preset()


def make_sweep(job: Job, axes: Sequence[str], directory: Path) -> Sweep:
    """A new sweep, or one to resume. Raises UsageError and DataError."""
    if job.resume is not None:
        if job.preset or job.file or job.name or job.seeds or job.typed.values or axes:
            hint = f"leave them out: contrast sweep --resume {job.resume}, or start a new sweep"
            raise UsageError("a resumed sweep has its grid and settings", hint)
        # Else its cells would be refused.
        config.environment_layer(os.environ)
        return sweeps.find_sweep(job.resume, directory)
    preset = _preset(job)
    for key, text in job.typed.values.items():
        setting, source = sections.find_setting(key, key), job.typed.sources[key]
        # Of a list of seeds, the setting itself says what is meant.
        if "," in str(text) and setting.kind in (int, float) and key != sections.SEED:
            for item in str(text).split(","):
                setting.parse(item.strip(), source)
            raise UsageError(f"{key} has several values ({source})", f"--grid {key}={text}")
    grid = dict(preset.grid)
    for key, source in {**config.environment_layer(os.environ).sources, **job.typed.sources}.items():
        if values := grid.pop(key, ()):
            narrate(f"note: {source} is set for all cells, instead of {key}={','.join(map(spell, values))} of the grid")
    settings, points = sections.all_settings(), grid | sweeps.parse(axes, job.typed)
    # `last` is one run for all cells.
    named = {key: tuple(model_paths(settings[key], one, directory) for one in points[key]) for key in points}
    *below, typed = (_with_paths(layer, directory) for layer in (*presets.stack(preset), job.typed))
    return sweeps.make(below, typed, named, job.seeds or preset.seeds, job.name, directory)


def _with_paths(layer: config.Layer, runs_dir: Path) -> config.Layer:
    """The layer, if it is not a preset's, with paths for the runs among its models. Raises ContrastError."""
    settings = [sections.all_settings().get(key) for key in layer.values if layer.users or layer.text]
    paths = {one.key: model_paths(one, layer.read(one), runs_dir) for one in settings if one and one.names_model}
    return replace(layer, values={**layer.values, **paths})


def is_alone() -> bool:
    """Whether this process is none of several that torchrun or srun has started."""
    return os.environ.get("WORLD_SIZE", slurm_tasks(os.environ)) == "1"


def check_training(job: Job, detach: bool, after: Run | None) -> None:
    """Raises UsageError for options of `train` that exclude each other."""
    if after is not None and (job.seeds is not None or not is_alone()):
        raise UsageError("--after queues one run of one process", "leave out --seeds, torchrun and srun")
    if detach and not is_alone():
        raise UsageError("--detach starts one process", "leave out --detach, or torchrun and srun")
    if job.seeds is not None and job.resume is not None:
        raise UsageError("--seeds trains new runs", "leave out --seeds, or --resume")
    if job.seeds is not None and detach:
        hint = "leave out --detach: a lost terminal stops no sweep; to continue one: contrast sweep --resume last"
        raise UsageError("--seeds trains one run after another, here", hint)
    stated = {"--preset": job.preset, "--config": job.file, "--name": job.name}
    if job.resume is not None and (given := [option for option, value in stated.items() if value is not None]):
        hint = f"leave out {' and '.join(given)}, or to start it where there is none: --resume-or-start NAME"
        raise UsageError("a resumed run has settings and a name already", hint)
    if job.resume_or_start is not None and (job.resume, job.name, job.seeds) != (None, None, None):
        raise UsageError("--resume-or-start names one run", "leave out --resume, --name and --seeds")
    if detach and job.json:
        raise UsageError("--detach leaves no events to print", "leave out --json, and: contrast watch last --json")
