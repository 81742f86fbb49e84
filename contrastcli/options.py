"""What commands share: options, of which most are made from the settings, and errors in two lines."""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import math
import os
import re
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, get_args

import click
import msgspec

from contrastcli import commands, show
from contrastcli.errors import ContrastError, InterruptedEarly, RunError, UsageError, nearest, possible
from contrastcli.evaluation.suites import SUITES
from contrastcli.files import error_text
from contrastcli.runs import directory as runs
from contrastcli.runs import sweeps
from contrastcli.runs.directory import Run
from contrastcli.runs.host import Host
from contrastcli.runs.mirror import Mirror
from contrastcli.runs.sweeps import Sweep
from contrastcli.runs.text import printable
from contrastcli.settings import config, papers, presets, sections
from contrastcli.settings.presets import Preset
from contrastcli.settings.setting import Setting


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

    @property
    def run_name(self) -> str | None:
        """The name of a new run, if it was given one."""
        return self.resume_or_start if self.name is None else self.name


CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110, "show_default": True}


class Number(click.FloatRange):
    """A number between bounds, and not NaN, which no bound excludes."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number: float = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is not a number", param, ctx)
        return number


PATH = click.Path(path_type=Path)

as_json = click.option("--json", is_flag=True, help="Print JSON.")
model = click.option("--model", metavar="RUN|FOLDER|NAME", help="Default: CONTRAST_MODEL, else the newest run.")

_PRECISION: Any = {
    "type": click.Choice(get_args(sections.Precision)),
    "default": "fp32",
    "help": "Of matrix products; int8: on CPUs with VNNI or AMX.",
}
precision = click.option("--precision", **_PRECISION)
_POOLING: Any = {
    "type": click.Choice(get_args(sections.Pooling)),
    "help": "Use this pooling instead of the model's own.",
}
pooling = click.option("--pooling", **_POOLING)

SETTINGS = (
    click.Option(["--preset"], metavar="NAME", help="A published setting: see contrast presets."),
    click.Option(["--config", "file"], metavar="FILE", type=PATH, help="A TOML file of settings."),
    click.Option(["--set", "typed"], multiple=True, metavar="KEY=VALUE", help="Any setting: --set dev.every=50."),
    click.Option(["--json"], is_flag=True, help="Print JSON."),
)
"""Sources of settings."""

JOB = (
    *SETTINGS,
    click.Option(["--name"], metavar="NAME", help="Name of the run directory."),
    click.Option(["--resume"], metavar="NAME", help="Resume an existing one."),
    click.Option(["--seeds"], type=click.IntRange(min=1), metavar="N", help="Train with N seeds, from train.seed on."),
    click.Option(["--dry-run"], is_flag=True, help="Show what would be done, and stop before loading weights."),
)
"""Options of the commands that train."""

MEASURING = (
    click.Option(["--suite", "suites"], default="sts", metavar="NAME,…", help=f"What to measure: {', '.join(SUITES)}."),
    click.Option(["--task", "tasks"], metavar="NAME,…", help="Only these tasks of the suites."),
    click.Option(["--data-dir"], type=PATH, help="A folder in SentEval's layout; else the hub."),
    click.Option(["--pooling"], **_POOLING),
    click.Option(["--precision"], **_PRECISION),
    click.Option(["--out", "folder"], type=PATH, help="Also write scores and pictures there."),
    click.Option(["--fresh"], is_flag=True, help="Ignore cached results and measure again."),
)
"""Options of an evaluation."""


MINING = (
    click.Option(["--model"], metavar="RUN|FOLDER|NAME", help="Default: CONTRAST_MODEL, else the newest run."),
    click.Option(["-o", "--output"], required=True, type=PATH, help=".jsonl, .csv, .tsv or .parquet."),
    click.Option(["-n", "negatives"], type=click.IntRange(min=1), default=1, help="Negatives of each row."),
    click.Option(["--corpus"], default="", metavar="FILE", help="Choose from its sentences, not from the positives."),
    click.Option(["--columns"], default="", metavar="ROLES", help="As for training: anchor=title,positive=body."),
    click.Option(["--ranks"], default="1-1000", metavar="A-B", help="Which of the nearest may be negatives."),
    click.Option(
        ["--below"],
        type=Number(0, 1),
        metavar="SHARE",
        help="Of the positive's cosine, the most that they may have; 0: any.",
    ),
    click.Option(
        ["--margin"],
        type=Number(-2, 2),
        metavar="COSINE",
        help="In its place: at least so far below the positive's.",
    ),
    click.Option(["--guard"], default="", metavar="MODEL", help="Drop what it finds closer than the positive."),
    click.Option(["--show"], type=click.IntRange(min=0), default=0, metavar="N", help="Print the N hardest rows."),
    click.Option(["--precision"], **_PRECISION),
    click.Option(["--json"], is_flag=True, help="Print JSON."),
)
"""Options of mining."""


def of_run(body: Callable[..., Any]) -> Callable[..., Any]:
    """The argument RUN; the body gets the run."""

    @click.argument("run", default="last")
    @click.pass_obj
    @functools.wraps(body)
    def with_run(directory: Path, /, run: str, **words: Any) -> Any:
        return body(run=runs.find(run, directory), **words)

    return with_run


def on_host(body: Callable[..., Any]) -> Callable[..., Any]:
    """The option --host; the runs directory is then a mirror, and a RUN is one there."""

    @click.option("--host", metavar="HOST[:DIR]", help="On another machine, by ssh; DIR: the folder to work in there.")
    @click.pass_context
    @functools.wraps(body)
    def with_host(ctx: click.Context, /, host: str | None, **words: Any) -> Any:
        if host:
            mirror = ctx.with_resource(Mirror(Host.parse(host, ctx.find_root().params["runs_dir"] or "")))
            ctx.obj = mirror.directory
            if "run" not in words:
                mirror.wait_for("")
            elif words["run"]:
                words["run"] = mirror.wait_for(words["run"])
        return body(**words)

    return with_host


def of_item(body: Callable[..., Any]) -> Callable[..., Any]:
    """The arguments PAPER and ITEM, and the options of how to make it; the body gets the item and the request.

    Without options, or with `--rows` and `--backbones` alone, it is made as it was last, else as in the paper.
    """

    @click.argument("paper")
    @click.argument("key", metavar="ITEM")
    @click.option("--rows", metavar="A,B", help="Only these rows.")
    @click.option("--backbones", metavar="A,B", help="Only these backbones.")
    @click.option(
        "--seeds", type=click.IntRange(min=1, max=100), metavar="N", help="Default: as many as the paper has."
    )
    @click.option("--scale", type=Number(min=0, max=1, min_open=True), help="Part of the training rows.")
    @click.option("--set", "assignments", multiple=True, metavar="KEY=VALUE", help="Any setting of all runs.")
    @click.option("--data-dir", metavar="DIR", help="A folder in SentEval's layout; else the hub.")
    @click.pass_obj
    @functools.wraps(body)
    def with_item(directory: Path, /, paper: str, key: str, **words: Any) -> Any:
        item = papers.find(paper, key)
        names = ("rows", "backbones", "seeds", "scale", "assignments", "data_dir")
        typed = {name: words.pop(name) for name in names}
        request = _request(**typed)
        last = commands.papers.last_request(item, directory)
        chosen: dict[str, Any] = {"rows": request.rows, "backbones": request.backbones}
        if last and request == papers.Request(**chosen):
            request = msgspec.structs.replace(last, **chosen) if any(chosen.values()) else last
        return body(item=item, request=request, directory=directory, **words)

    return with_item


def _request(
    rows: str | None,
    backbones: str | None,
    seeds: int | None,
    scale: float | None,
    assignments: Sequence[str],
    data_dir: str | None,
) -> papers.Request:
    """How to make an item, as typed. Raises UsageError for an unknown setting."""
    layer = flag_layer(assignments, {})
    for key, source in layer.sources.items():
        sections.find_setting(key, source)
    settings = {key: str(value) for key, value in layer.values.items()}
    chosen, on = (tuple(re.split(r",(?! )", words)) if words else () for words in (rows, backbones))
    return papers.Request(chosen, on, seeds or 0, scale or 1.0, settings, data_dir or "")


class Command(click.Command):
    """A command whose help ends in examples, each on a line of its own."""

    def __init__(self, *args: Any, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        help = inspect.cleandoc(self.help or "")
        self.help = help.replace("\n\ncontrast ", "\n\n\b\ncontrast ")  # click does not wrap what follows a \\b

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ContrastError as error:
            if not isinstance(self, click.Group):
                error.hint = possible(error.hint, {name for param in self.get_params(ctx) for name in param.opts})
            raise


class Group(Command, click.Group):
    """A group that without a command lists, if it can, or shows its help. An error names the nearest known command."""

    command_class = Command
    group_class = type

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        usual = next((name for name in ("list", "show") if name in self.commands), "--help")
        return super().parse_args(ctx, args or [usual])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            raise UsageError(f"there is no command '{args[0]}'", nearest(args[0], self.commands))
        return super().resolve_command(ctx, args)


class SettingsCommand(Command):
    """A command with an option for each setting of a run. Its callback gets a `Job`."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        if not any(isinstance(p, SettingOption) for p in self.params):
            self.params += [SettingOption(setting) for setting in sections.all_settings().values() if setting.flag]
        return super().get_params(ctx)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """An error for an option that there is not names those whose help has its words, as --learning-rate."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            words = {*error.option_name.strip("-").lower().split("-")}
            every = sections.all_settings().values()
            close = [one.flag for one in every if one.flag and words <= {*re.findall(r"\w+", one.help)}]
            if not close:
                raise
            what = f"there is no option '{error.option_name}'"
            raise UsageError(what, f"did you mean {' or '.join(close[:3])}?") from None

    def invoke(self, ctx: click.Context) -> Any:
        settings = [(p.setting, ctx.params.pop(p.name)) for p in self.params if isinstance(p, SettingOption)]
        flags = {setting.key: (text, setting.flag) for setting, text in settings if text is not None}
        ctx.params["typed"] = flag_layer(ctx.params["typed"], flags)
        words = {field.name: ctx.params.pop(field.name) for field in fields(Job) if field.name in ctx.params}
        ctx.params["job"] = Job(**words)
        return super().invoke(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            if (record := param.get_help_record(ctx)) is not None:
                section = param.setting.section if isinstance(param, SettingOption) else "options"
                sections.setdefault(section, []).append(record)
        for section, records in sections.items():
            with formatter.section(section.capitalize()):
                formatter.write_dl(records)


class SettingOption(click.Option):
    """The option of one setting. The setting parses the text, so that errors are the same for flags and variables."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        metavar = "|".join(setting.choices) or ("BOOL" if setting.kind is bool else setting.kind.__name__.upper())
        help = f"{setting.symbol}: {setting.help}" if setting.symbol else setting.help
        super().__init__([setting.flag, setting.key.replace(".", "__")], metavar=metavar, help=help)


def flag_layer(assignments: Sequence[str], flags: Mapping[str, tuple[str, str]]) -> config.Layer:
    """What was typed: text and flag by key, and assignments by `--set key=value`."""
    values = {key: text for key, (text, _) in flags.items()}
    sources = {key: flag for key, (_, flag) in flags.items()}
    for assignment in assignments:
        key, equals, value = (part.strip() for part in assignment.partition("="))
        if not equals:
            raise UsageError(f"--set {assignment} has no value", "write --set section.key=value")
        values[key], sources[key] = value, f"--set {key}"
    return config.Layer(values, sources, text=True, strict=True)


def resolve(job: Job) -> config.Config:
    """The settings of a job. Raises UsageError and DataError."""
    preset = _preset(job)
    if preset.grid or preset.seeds > 1:
        hint = "train it with contrast sweep, or choose a preset of a run"
        raise UsageError(f"'{preset.name}' is a grid of runs", hint)
    return config.resolve([*presets.stack(preset), job.typed])


def run_and_config(job: Job, directory: Path) -> tuple[Run | None, config.Config]:
    """The run to resume, if any, or to resume or start, and the settings. Raises UsageError and DataError."""
    if job.resume is not None:
        run = runs.find(job.resume, directory)
        return run, commands.train.changed(run, job.typed)
    settings = commands.train.with_model_paths(resolve(job), directory)
    if not job.resume_or_start:
        return None, settings
    if not (run := Run(directory / job.resume_or_start)).exists():
        return run, settings
    stated = {key: value for key, value in settings.flat().items() if settings.sources[key] != "default"}
    return run, commands.train.changed(run, config.Layer(stated, settings.sources))


def _preset(job: Job) -> Preset:
    """The preset of --preset or --config, else an empty one. Raises UsageError and DataError."""
    if job.preset is not None and job.file:
        raise UsageError("--preset and --config exclude each other", "copy the preset: contrast presets show NAME")
    if job.preset is not None:
        return presets.find(job.preset)
    return presets.read(job.file) if job.file else Preset()


def sweep(job: Job, axes: Sequence[str], directory: Path) -> Sweep:
    """A new sweep, or one to resume. Raises UsageError and DataError."""
    if job.resume is not None:
        if job.preset or job.file or job.name or job.seeds or job.typed.values or axes:
            raise UsageError("a resumed sweep has its grid and settings", "leave them out, or start a new sweep")
        return sweeps.find(job.resume, directory)
    preset = _preset(job)
    points = {**preset.grid, **sweeps.parse(axes, job.typed)}
    return sweeps.make(presets.stack(preset), job.typed, points, job.seeds or preset.seeds, job.name, directory)


def check_training(job: Job, detach: bool, after: str | None) -> None:
    """Raises UsageError for options of `train` that exclude each other."""
    if after is not None and (job.seeds is not None or "WORLD_SIZE" in os.environ):
        raise UsageError("--after queues one run of one process", "leave out --seeds and torchrun")
    if job.seeds is not None and (detach or job.resume is not None):
        raise UsageError("--seeds trains one run after another, here", "to continue them: contrast sweep --resume")
    if job.resume is not None and (job.preset, job.file, job.name) != (None, None, None):
        raise UsageError("a resumed run has settings and a name already", "leave out --preset, --config and --name")
    if job.resume_or_start is not None and (job.resume, job.name, job.seeds) != (None, None, None):
        raise UsageError("--resume-or-start names one run", "leave out --resume, --name and --seeds")
    if detach and job.json:
        raise UsageError("--detach leaves no events to print", "leave out --json, and: contrast watch last --json")


def on_a_terminal() -> bool:
    """Whether this process can show a screen."""
    streams = (sys.stdin, sys.stdout, sys.stderr)  # the app draws on stderr
    return all(stream.isatty() for stream in streams) and os.environ.get("TERM") != "dumb"


def check_terminal() -> None:
    """Raises UsageError unless this process can show a screen."""
    if not on_a_terminal():
        raise UsageError("the app needs a terminal", "use contrast train --no-ui, or contrast watch")


def prepare_process(words: Sequence[str]) -> None:
    """Open streams that were closed, on the null device, and print characters that an encoding lacks as escapes.

    Raises RunError without a working folder, which torch needs; UsageError for words that are not text.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # a file opened later would get its number, and what libraries print
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - to the end of the process
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        os.getcwd()
    except OSError as error:
        what = f"the working folder cannot be used: {error_text(error)}"
        raise RunError(what, "change to another folder: cd DIR") from None
    for word in (*words, *(value for name, value in os.environ.items() if name.startswith("CONTRAST_"))):
        if any("\udc80" <= letter <= "\udcff" for letter in word):  # how Python keeps other bytes
            spelled = os.fsencode(word).decode("ascii", "backslashreplace")
            what = f"'{spelled}' is not text in {sys.getfilesystemencoding()}"
            raise UsageError(what, "use a UTF-8 locale, such as LC_ALL=C.UTF-8, or rename the file")


def report(error: BaseException, debug: bool) -> int:
    """Print on stderr what is wrong and the remedy, a line each; returns the exit code."""
    if isinstance(error, OSError):  # perhaps of stdout, which the interpreter would flush again at its end
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):
        return 0  # the reader has gone, as of `| head`
    if isinstance(error, click.Abort):
        click.echo(err=True)  # ends the line of the question
    if debug:
        show.console.narrate("".join(traceback.format_exception(error)))
    what, hint, code = _explain(error)
    show.console.narrate(f"contrast: error: {printable(what)}\nhint: {printable(hint)}")
    return code


def _explain(error: BaseException) -> tuple[str, str, int]:
    """What is wrong, the remedy, and the exit code."""
    if isinstance(error, ContrastError):
        what, hint, code = error.what, error.hint, error.code
    elif isinstance(error, click.ClickException):
        context = getattr(error, "ctx", None)
        what, code = error.format_message().rstrip("."), UsageError.code
        hint = f"see {context.command_path if context else 'contrast'} --help"
    elif isinstance(error, click.Abort | EOFError | KeyboardInterrupt):
        what, hint, code = "interrupted", "nothing was changed", InterruptedEarly.code
    elif isinstance(error, OSError) and error.strerror:
        what = f"{error.filename or 'stdin or stdout'}: {error.strerror}"
        hint, code = "check the path, its permissions and the room on its disk", RunError.code
    elif isinstance(error, MemoryError):
        what, hint, code = "there is not enough memory", "close other programs, or give less data at once", 1
    elif isinstance(error, ImportError):  # such as a library that finds no memory
        what, code = f"a library cannot be loaded: {error_text(error)}", RunError.code
        hint = "raise the limit on memory (ulimit -v), or install contrast again"
    else:
        what, hint, code = f"{type(error).__name__}: {error_text(error)}", "contrast --debug shows where", 1
    return what, hint, code
