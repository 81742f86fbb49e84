"""Click's types and decorators: what commands share, options that are made from the settings, and errors of click."""

import math
import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import click
from click.core import augment_usage_errors
from click.shell_completion import CompletionItem, shell_complete

from contrastcli import boundary, commands
from contrastcli.commands.job import Job, flag_layer
from contrastcli.errors import RunError, UsageError, nearest
from contrastcli.evaluation.suites import SUITES
from contrastcli.runs import directory as runs
from contrastcli.settings import presets, sections
from contrastcli.settings.other_names import our_name
from contrastcli.settings.setting import Setting

OPTIONS = "contrastcli.options"
"""Where the `meta` of click's context has the options of the command that was last read."""

COMPLETE, SHELLS = "_CONTRAST_COMPLETE", ("bash", "fish", "zsh")
"""The variable by which a shell asks for completions, and the shells that click knows."""

_REMOTE = "CONTRAST_REMOTE"
"""The variable that names contrast on the machine of --host, where its shell does not find it."""

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110, "show_default": True}


class Number(click.FloatRange):
    """A number between bounds, and not NaN, which no bound excludes."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number: float = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is not a number", param, ctx)
        return number


def complete_run(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The runs whose names begin so; the shell adds the files."""
    every = runs.list_runs(runs.runs_dir(ctx.find_root().params.get("runs_dir")))
    names = [name for name in ("last", *(run.name for run in every)) if name.startswith(incomplete)]
    return [*map(CompletionItem, names), CompletionItem(incomplete, type="file")]


def complete_preset(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The presets whose names begin so."""
    return [name for name in (*presets.names(), *presets.sweep_names()) if name.startswith(incomplete)]


def complete(group: click.Group, instruction: str) -> int:
    """Do what a shell asks for, as click names it: `bash_source` or `bash_complete`. Raises UsageError."""
    if code := shell_complete(group, {}, "contrast", COMPLETE, instruction):
        hint = f"{COMPLETE} is SHELL_source, SHELL being one of {', '.join(SHELLS)}"
        raise UsageError(f"'{instruction}' is no instruction of a completion", hint)
    return code


class RunName(click.ParamType[runs.Run]):
    """The name of a run, of which the command gets the run."""

    name = "run"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return complete_run(ctx, param, incomplete)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> runs.Run:
        assert ctx
        return value if isinstance(value, runs.Run) else runs.find_run(value, ctx.obj)


RUN = RunName()
ONE_RUN = click.Argument(["run"], type=RUN, default="last")
PATH = click.Path(path_type=Path)

JSON = click.Option(["--json"], is_flag=True, help="Print JSON.")
MODEL = click.Option(
    ["--model"],
    metavar="RUN|FOLDER|NAME",
    shell_complete=complete_run,
    help="Default: CONTRAST_MODEL, else the newest run.",
)
POOLING = click.Option(
    ["--pooling"], type=click.Choice(get_args(sections.Pooling)), help="Use this pooling instead of the model's own."
)
PRECISION = click.Option(
    ["--precision"],
    type=click.Choice(get_args(sections.Precision)),
    default="fp32",
    help="Precision of the encoder; int8 needs a CPU with VNNI or AMX.",
)

COLUMNS = click.Option(
    ["--columns"], default="", metavar="ROLES", help="What the columns are: text=body,id=key or anchor=a,positive=b."
)
BLANK = click.Option(
    ["--blank"],
    type=click.Choice(get_args(sections.Blank)),
    default="error",
    help="Rows with a blank text: refuse the data, or leave them out.",
)

SETTINGS = (
    click.Option(
        ["--preset"], metavar="NAME", shell_complete=complete_preset, help="A published setting: see contrast presets."
    ),
    click.Option(["--config", "file"], metavar="FILE", type=PATH, help="A TOML file of settings."),
    click.Option(["--set", "typed"], multiple=True, metavar="KEY=VALUE", help="Any setting: --set dev.every=50."),
    JSON,
)
"""Sources of settings."""

JOB = (
    *SETTINGS,
    click.Option(["--name"], metavar="NAME", help="Name of the run directory."),
    click.Option(["--resume"], metavar="NAME", shell_complete=complete_run, help="Resume an existing one."),
    click.Option(["--seeds"], type=click.IntRange(min=1), metavar="N", help="Train with N seeds, from train.seed on."),
    click.Option(["--dry-run"], is_flag=True, help="Show what would be done, and stop before loading weights."),
)
"""Options of the commands that train."""

SWEEPING = (
    *JOB,
    click.Option(["--grid", "axes"], multiple=True, metavar="KEY=A,B", help="A setting, and its values."),
    click.Option(["--worker"], is_flag=True, help="Take free cells next to others that do, here or elsewhere."),
    click.Option(["--workers"], type=click.IntRange(1, 64), default=1, help="Processes that train side by side here."),
)
"""Options of a sweep."""

TRAINING = (
    *JOB,
    click.Option(["--no-ui"], is_flag=True, help="Print progress here instead of opening the app."),
    click.Option(["--detach"], is_flag=True, help="Train in the background and return at once."),
    click.Option(["--resume-or-start"], metavar="NAME", help="Resume this run, or start it under this name."),
    click.Option(["--after"], type=RUN, help="Begin when this run has ended, however it ends."),
)
"""Options of one training."""

FORMAT = click.Option(
    ["--format", "form"],
    type=click.Choice(["text", "markdown", "latex", "csv"]),
    default="text",
    help="How tables are written; latex needs the package booktabs.",
)

MEASURING = (
    click.Option(
        ["--suite", "suites"],
        metavar="NAME,…",
        help=f"What to measure: {', '.join(SUITES)}, or another package's. Default: sts, or own if there is --data.",
    ),
    click.Option(["--task", "tasks"], metavar="NAME,…", help="Only these tasks of the suites."),
    click.Option(["--data-dir"], type=PATH, help="A folder in SentEval's layout; else the hub."),
    click.Option(
        ["--data", "files"],
        multiple=True,
        metavar="FILE",
        help="Your own pairs, scored or not, or triplets; repeatable.",
    ),
    COLUMNS,
    BLANK,
    click.Option(["--labels"], default="", metavar="NAMES", help="Of --data: 0=entailment,1=neutral,2=contradiction."),
    click.Option(
        ["--metric"],
        type=click.Choice(get_args(sections.Metric)),
        default="auto",
        help="Of --data: the score that is compared; auto: spearman of scored and labelled pairs, else ndcg@10.",
    ),
    POOLING,
    PRECISION,
    click.Option(["--out", "folder"], type=PATH, help="Also write scores and pictures there."),
    click.Option(["--fresh"], is_flag=True, help="Ignore cached results and measure again."),
    FORMAT,
    JSON,
)
"""Options of an evaluation."""

COMPARING = (
    click.Option(["--bootstrap"], is_flag=True, help="Also compare two models by a paired bootstrap on dev data."),
    click.Option(["--dev"], metavar="DATA", help="The data of --bootstrap. Default: the dev set of the runs."),
    COLUMNS,
    BLANK,
    click.Option(["--plot"], is_flag=True, help="Draw angles, alignment and uniformity over training."),
    click.Option(["--out"], type=PATH, help="Also write the pictures there, as PNG, SVG and CSV."),
    FORMAT,
    JSON,
)
"""Options of a comparison of models."""

MINING = (
    MODEL,
    click.Option(["-o", "--output"], required=True, type=PATH, help=".jsonl, .csv, .tsv or .parquet."),
    click.Option(["-n", "negatives"], type=click.IntRange(min=1), default=1, help="Negatives of each row."),
    click.Option(["--corpus"], default="", metavar="FILE", help="Choose from its sentences, not from the positives."),
    COLUMNS,
    BLANK,
    click.Option(["--ranks"], default="1-1000", metavar="A-B", help="Which of the nearest may be negatives."),
    click.Option(
        ["--below"],
        type=Number(0, 1),
        metavar="SHARE",
        help="Highest cosine of a negative, as a share of its positive's; 0: no limit.",
    ),
    click.Option(
        ["--margin"],
        type=Number(-2, 2),
        metavar="COSINE",
        help="Instead of --below: a negative's cosine is lower than its positive's by this.",
    ),
    click.Option(
        ["--guard"], default="", metavar="MODEL", help="Drop negatives that this model finds closer than the positive."
    ),
    click.Option(["--show"], type=click.IntRange(min=0), default=0, metavar="N", help="Print the N hardest rows."),
    PRECISION,
    JSON,
)
"""Options of mining."""

BENCH = (
    click.Option(["--model"], default="starter", metavar="RUN|FOLDER|NAME", shell_complete=complete_run),
    click.Option(["--rounds"], type=click.IntRange(min=1), default=3, help="Measurements of each."),
    click.Option(["--minutes"], type=Number(min=0), default=10.0, help="Begin no measurement that takes longer."),
    JSON,
)
"""Options of a benchmark."""

ITEM = (
    click.Argument(["paper"], default=""),
    click.Argument(["key"], metavar="ITEM", default=""),
    click.Option(["--rows"], metavar="A,B", help="Only these rows."),
    click.Option(["--backbones"], metavar="A,B", help="Only these backbones."),
    click.Option(["--seeds"], type=click.IntRange(1, 100), metavar="N", help="Default: as many as the paper has."),
    click.Option(["--scale"], type=Number(0, 1, min_open=True), help="Part of the training rows."),
    click.Option(
        ["--set", "assignments"],
        multiple=True,
        metavar="[ROW:]KEY=VALUE",
        help="Any setting of all runs, or of a row's.",
    ),
    click.Option(["--data-dir"], metavar="DIR", help="A folder in SentEval's layout; else the hub."),
)
"""The table or figure of a paper, and how to make it."""

FORMATS = click.Choice(["text", "markdown", "latex", "csv", "json"])
TABLE_FORMAT = click.Option(["--format", "form"], type=FORMATS, default="text")
PICTURES = click.Option(["--out"], type=PATH, help="Write the pictures there, as PNG, SVG and CSV.")
WAIT = click.Option(["--wait"], type=Number(min=0), default=60, help="Seconds to wait for its end.")

MAKING = (
    *ITEM,
    click.Option(["--dry-run"], is_flag=True, help="Show what would be done."),
    click.Option(["--detach"], is_flag=True, help="Run in the background and return at once."),
)
"""The same, to make it now."""


def _run_on_host(ctx: click.Context, param: click.Parameter, host: str | None) -> None:
    """Replace this process by ssh, which runs the same command on that machine, in DIR where one is given.

    Raises UsageError for what names no machine, RunError without ssh.
    """
    if host is None:
        return
    scheme = "ssh://" if host.startswith("ssh://") else ""
    address, between, folder = host.removeprefix(scheme).partition("/" if scheme else ":")
    # ssh would take a leading - for an option of its own.
    if not address or address.startswith("-"):
        raise UsageError(f"'{host}' names no machine", "write HOST, user@HOST or user@HOST:DIR")
    # The folder of such an address is absolute.
    address, folder = scheme + address, between * bool(scheme and folder) + folder
    command = f"{os.environ.get(_REMOTE) or 'contrast'} {shlex.join(_without_host(sys.argv[1:]))}"
    if folder := folder.removeprefix("~/").removeprefix("~"):
        command = f"cd {shlex.quote(folder)} && {command}"
    try:
        os.execvp("ssh", ["ssh", "-t" if boundary.on_a_terminal() else "-n", "--", address, command])
    except FileNotFoundError:
        raise RunError("there is no command ssh here", "install OpenSSH's client") from None


def _without_host(words: Sequence[str]) -> list[str]:
    kept = [word for word in words if not word.startswith("--host=")]
    while "--host" in kept:
        place = kept.index("--host")
        del kept[place : place + 2]
    return kept


HOST = click.Option(
    ["--host"],
    metavar="HOST[:DIR]",
    expose_value=False,
    is_eager=True,
    callback=_run_on_host,
    help="On another machine, by ssh; DIR: the folder to work in there.",
)


def examples(command: str) -> list[str]:
    """The command lines that show how a command is used, which stand in examples.txt below its name."""
    text = Path(commands.__file__).with_name("examples.txt").read_text(encoding="utf-8")
    paragraphs = (paragraph.splitlines() for paragraph in text.split("\n\n"))
    return next(([line.strip() for line in lines] for name, *lines in paragraphs if name == command), [])


class Command(click.Command):
    """A command whose help ends in examples, each on a line of its own."""

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_help_text(ctx, formatter)
        formatter.write_paragraph()
        with formatter.indentation():
            for line in examples(ctx.command_path):
                formatter.write(f"{'':>{formatter.current_indent}}{line}\n")

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[OPTIONS] = {name for param in self.get_params(ctx) for name in param.opts}
        with augment_usage_errors(ctx):
            return super().parse_args(ctx, args)


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
            raise UsageError(f"there is no command '{args[0]}'", nearest(our_name(args[0]), self.commands))
        return super().resolve_command(ctx, args)


def _our_option(word: str) -> str:
    """Our option for one of other software, with its value; "" where none is known."""
    ours, every = our_name(word), sections.all_settings()
    if ours in every:
        return " ".join(every[ours].words("VALUE"))
    return f"{ours} VALUE" if ours.startswith("--") and ours != word else ""


class SettingsCommand(Command):
    """A command with an option for each setting of a run. Its callback gets a `Job`."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        if not any(isinstance(p, SettingOption) for p in self.params):
            self.params += [SettingOption(setting) for setting in sections.all_settings().values() if setting.flag]
        return super().get_params(ctx)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Answer options of other software, such as --learning-rate, and words without an option with ours."""
        ctx.allow_extra_args = True
        words = list(args)
        try:
            rest = super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            typed = dict.fromkeys(word.partition("=")[0] for word in words if word.startswith("--"))
            meant = {word: ours for word in typed if word not in ctx.meta[OPTIONS] and (ours := _our_option(word))}
            if error.option_name not in meant:
                raise
            unknown = ", ".join(f"'{word}'" for word in meant)
            what = f"there is no option {unknown}" if len(meant) == 1 else f"there are no options {unknown}"
            raise UsageError(what, f"did you mean {', '.join(meant.values())}?") from None
        if rest and not ctx.resilient_parsing:
            option = "--set" if "=" in rest[0] else "--preset" if rest[0] in presets.names() else "--data"
            raise UsageError(f"'{rest[0]}' stands without an option", f"did you mean {option} {rest[0]}?")
        return rest

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
        names = [setting.flag, setting.key.replace(".", "__")]
        super().__init__(names, metavar=metavar, help=help, shell_complete=self._complete)

    def _complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        return [choice for choice in self.setting.choices if choice.startswith(incomplete)]


def without_click(error: BaseException) -> BaseException:
    """An error of click as one of ours or of Python; others as they are."""
    if isinstance(error, click.Abort):
        click.echo(err=True)  # ends the line of the question
        if isinstance(error.__context__, EOFError):
            return UsageError("nobody is there to answer", f"{shlex.join(['contrast', *sys.argv[1:]])} --yes")
        return KeyboardInterrupt()
    if not isinstance(error, click.ClickException):
        return error
    context: click.Context | None = getattr(error, "ctx", None)
    hint = _remedy(error, context) if context else "see contrast --help"
    return UsageError(error.format_message().rstrip("."), hint)


def _remedy(error: click.ClickException, context: click.Context) -> str:
    command = context.command_path
    if isinstance(error, click.NoSuchOption):
        if any(error.option_name in param.opts for param in context.find_root().command.params):
            return f"put it before the command: contrast {error.option_name} VALUE {context.info_name}"
        if error.option_name in HOST.opts:
            return f"run it there: ssh HOST {command} …, and see it from here: contrast watch --host HOST"
    name, params = getattr(error, "option_name", ""), context.command.get_params(context)
    param = getattr(error, "param", None) or next((one for one in params if name in one.opts), None)
    if isinstance(param, click.Option):
        return f"such as {param.opts[0]} {_example_value(param)}: see {command} --help"
    example = next(iter(examples(command)), "")
    return f"see {command} --help{example and f', such as: {example}'}"


def _example_value(param: click.Option) -> object:
    """A value that an option may have; its kind where any may do."""
    if isinstance(param.type, click.Choice):
        return param.type.choices[0]
    if isinstance(param.type, click.IntRange | click.FloatRange):
        return next(n for n in (param.default, param.type.max, param.type.min) if isinstance(n, int | float))
    return "last" if param.name in ("resume", "model", "resume_or_start") else param.metavar or param.type.name.upper()
