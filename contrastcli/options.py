"""What the commands share: options made from the settings' descriptions, groups, and errors in two lines."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from io import BufferedIOBase
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

import click

from contrastcli.commands.evaluate import Measuring
from contrastcli.errors import ContrastError, InterruptedEarly, UsageError, nearest
from contrastcli.evaluation.suites import SUITES
from contrastcli.runs.text import printable
from contrastcli.settings import config, presets, sections
from contrastcli.settings.presets import Preset
from contrastcli.settings.setting import Setting

if TYPE_CHECKING:
    from contrastcli.runs.sweeps import Sweep


@dataclass(frozen=True)
class Job:
    """Settings from everywhere, and what is to be done with them; `typed` are flags and `--set`."""

    preset: str | None
    file: Path | None
    typed: config.Layer
    json: bool
    name: str | None = None
    resume: str | None = None
    seeds: int | None = None
    dry_run: bool = False


Body = Callable[..., None]
Decorator = Callable[[Body], Body]


def _gathered(name: str, kind: type, *options: Decorator) -> Decorator:
    """Options, whose values the body gets as one object under that name."""

    def decorate(body: Body) -> Body:
        @functools.wraps(body)
        def gathered(**words: Any) -> None:
            own = {field.name: words.pop(field.name) for field in fields(kind) if field.name in words}
            body(**{name: kind(**own)}, **words)

        command: Body = gathered
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


as_json = click.option("--json", is_flag=True, help="Print JSON.")
of_model = click.option("--model", metavar="RUN|FOLDER|NAME", help="Else CONTRAST_MODEL, else the newest run.")

_SOURCES: tuple[Decorator, ...] = (
    click.option("--preset", metavar="NAME", help="A published setting: see contrast presets."),
    click.option("--config", "file", metavar="FILE", type=click.Path(path_type=Path), help="A TOML file of settings."),
    click.option("--set", "typed", multiple=True, metavar="KEY=VALUE", help="Any setting: --set dev.every=50."),
    as_json,
)
settings = _gathered("job", Job, *_SOURCES)
"""Options that settings come from."""

job = _gathered(
    "job",
    Job,
    *_SOURCES,
    click.option("--name", metavar="NAME", help="Name of the run directory."),
    click.option("--resume", metavar="NAME", help="Go on with one that exists."),
    click.option("--seeds", type=click.IntRange(min=1), metavar="N", help="Train with N seeds, from train.seed on."),
    click.option("--dry-run", is_flag=True, help="Show what would be done, and stop before loading weights."),
)
"""Options of what trains."""

measuring = _gathered(
    "asked",
    Measuring,
    click.option(
        "--suite",
        "suites",
        default="sts",
        show_default=True,
        metavar="NAME,…",
        help=f"What to measure: {', '.join(SUITES)}.",
    ),
    click.option("--task", "tasks", metavar="NAME,…", help="Only these tasks of the suites."),
    click.option("--data-dir", type=click.Path(path_type=Path), help="A folder in SentEval's layout; else the hub."),
    click.option(
        "--pooling", type=click.Choice(get_args(sections.Pooling)), help="Another pooling than the model's own."
    ),
    click.option("--out", "folder", type=click.Path(path_type=Path), help="Also write scores and pictures there."),
    click.option("--fresh", is_flag=True, help="Measure again what the cache knows."),
)
"""Options of an evaluation."""


class Group(click.Group):
    """A group that lists or shows where no command is named, else helps; unknown ones name the nearest known one."""

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


class SettingsCommand(click.Command):
    """A command with an option for each setting of a run, made from the settings' own descriptions when first asked."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        if not any(isinstance(p, SettingOption) for p in self.params):
            self.params += [SettingOption(setting) for setting in sections.all_settings().values() if setting.flag]
        return super().get_params(ctx)

    def invoke(self, ctx: click.Context) -> Any:
        settings = [(p.setting, ctx.params.pop(p.name)) for p in self.params if isinstance(p, SettingOption)]
        flags = {setting.key: (text, setting.flag) for setting, text in settings if text is not None}
        ctx.params["typed"] = flag_layer(ctx.params["typed"], flags)
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
    """The option of one setting. Its text is parsed by the setting, so that every way in gives the same errors."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        metavar = "|".join(setting.choices) or ("BOOL" if setting.kind is bool else setting.kind.__name__.upper())
        symbol = f"{setting.symbol}: " if setting.symbol else ""
        super().__init__([setting.flag, setting.key.replace(".", "__")], metavar=metavar)
        self.help = f"{symbol}{setting.help}"


def flag_layer(assignments: Sequence[str], flags: Mapping[str, tuple[str, str]]) -> config.Layer:
    """What was typed: the text and the flag of each setting, and `--set key=value`."""
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
        raise UsageError(
            f"'{preset.name}' is a grid of runs", "train it with contrast sweep, or choose a preset of a run"
        )
    return config.resolve([*presets.stack(preset), job.typed])


def _preset(job: Job) -> Preset:
    """What is chosen by --preset or --config. Raises UsageError and DataError."""
    if job.preset is not None and job.file:
        raise UsageError("--preset and --config exclude each other", "copy the preset: contrast presets show NAME")
    if job.preset is not None:
        return presets.find(job.preset)
    return presets.read(job.file) if job.file else Preset()


def sweep(job: Job, axes: Sequence[str], directory: Path) -> Sweep:
    """The sweep that is meant, a new one or one to go on with. Raises UsageError and DataError."""
    from contrastcli.runs import sweeps as grid

    if job.resume is not None:
        if job.preset or job.file or job.name or job.seeds or job.typed.values or axes:
            raise UsageError("a resumed sweep has its grid and settings", "leave them out, or start a new sweep")
        return grid.find(job.resume, directory)
    preset = _preset(job)
    points = {**preset.grid, **grid.parse(axes, job.typed)}
    return grid.make(presets.stack(preset), job.typed, points, job.seeds or preset.seeds, job.name, directory)


def check_training(job: Job, detach: bool) -> None:
    """Raises UsageError for words of `train` that exclude each other."""
    if job.seeds is not None and (detach or job.resume is not None):
        raise UsageError("--seeds trains one run after another, here", "to go on with them: contrast sweep --resume")
    if job.resume is not None and (job.preset, job.file, job.name) != (None, None, None):
        raise UsageError("a resumed run has settings and a name already", "leave out --preset, --config and --name")
    if detach and job.json:
        raise UsageError("--detach leaves no events to print", "leave out --json, and: contrast watch last --json")


def check_question(texts: Sequence[str], corpus: Path | None) -> None:
    """Raises UsageError unless there are two sentences, or `-` for pairs on stdin, or one for a corpus."""
    good = len(texts) == 1 if corpus else len(texts) == 2 or tuple(texts) == ("-",)
    if not good:
        raise UsageError("query takes two sentences, or one and --corpus FILE, or -", "see contrast query --help")
    if not all(text.strip() for text in texts):
        raise UsageError("a sentence is blank", "give each sentence as one word of the command line, in quotes")
    if any("\udc80" <= letter <= "\udcff" for text in texts for letter in text):  # how Python keeps such bytes
        raise UsageError("a sentence is not UTF-8", "set the terminal to UTF-8, or convert the text with iconv")


def stdin() -> BufferedIOBase:
    """The bytes of stdin, as they come."""
    return cast(BufferedIOBase, sys.stdin.buffer)


def on_a_terminal() -> bool:
    """Whether a person sits before this process, who can be shown a screen."""
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def report(error: BaseException, debug: bool) -> int:
    """Say on stderr what is wrong and the remedy, a line each; returns the exit code."""
    if isinstance(error, OSError):  # perhaps stdout's own: the interpreter must not try again at its end
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):
        return 0  # the reader has gone, as of `| head`
    if debug:
        traceback.print_exception(error)
    what, hint, code = explain(error)
    click.echo(f"contrast: error: {printable(what)}\nhint: {printable(hint)}", err=True)
    return code


def explain(error: BaseException) -> tuple[str, str, int]:
    """What is wrong, the remedy, and the exit code."""
    if isinstance(error, ContrastError):
        return error.what, error.hint, error.code
    if isinstance(error, click.ClickException):
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "contrast"
        return error.format_message().rstrip("."), f"see {command} --help", UsageError.code
    if isinstance(error, click.Abort | EOFError | KeyboardInterrupt):
        return "interrupted", "nothing was changed", InterruptedEarly.code
    words = (str(error).splitlines() or ["no message"])[0]
    if isinstance(error, OSError) and error.strerror:
        words = f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return f"{type(error).__name__}: {words}", "contrast --debug shows where", 1
