"""What the commands share: options made from the settings' descriptions, groups, and errors in two lines."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from io import BufferedIOBase
from pathlib import Path
from typing import cast

import click

from contrastcli import config, console
from contrastcli.errors import ContrastError, InterruptedEarly, UsageError, nearest
from contrastcli.settings import Setting

FLAGS = {"data.train": "--data", "dev.data": "--dev", "objective.name": "--objective"}
"""Options of `train` that are not called as their setting is."""

SUITES = "What to measure: sts, transfer, fewshot, clustering, geometry, mteb."
as_json = click.option("--json", is_flag=True, help="Print JSON.")
from_preset = click.option("--preset", metavar="NAME", help="A published setting: see contrast presets.")
from_file = click.option(
    "--config", "config_file", metavar="FILE", type=click.Path(path_type=Path), help="A TOML file of settings."
)
assigned = click.option(
    "--set", "assignments", multiple=True, metavar="KEY=VALUE", help="Any setting: --set dev.every=50."
)
of_model = click.option("--model", metavar="RUN|FOLDER|NAME", help="Else CONTRAST_MODEL, else the newest run.")


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
            settings = config.all_settings()
            wanted = [s for s in settings.values() if s.section != "dev" or s.key == "dev.data"]
            self.params += [SettingOption(config.OBJECTIVE), *(SettingOption(setting) for setting in wanted)]
        return super().get_params(ctx)

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
        super().__init__([FLAGS.get(setting.key, setting.flag), setting.key.replace(".", "__")], metavar=metavar)
        self.help = f"{symbol}{setting.help}"


def flag_layer(assignments: Sequence[str], flags: Mapping[str, str | None]) -> config.Layer:
    """What was typed: options, and `--set key=value`."""
    typed = {key.replace("__", "."): value for key, value in flags.items() if value is not None}
    found = {key: (value, FLAGS.get(key) or "--" + key.split(".")[1].replace("_", "-")) for key, value in typed.items()}
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if not equals:
            raise UsageError(f"--set {assignment} has no value", "write --set section.key=value")
        found[key.strip()] = (value.strip(), f"--set {key.strip()}")
    return config.text_layer(found, strict=True)


def layers(preset: str | None, file: Path | None) -> list[config.Layer]:
    """Every layer below the flags."""
    if preset is not None and file:
        raise UsageError("--preset and --config exclude each other", "copy the preset: contrast presets show NAME")
    named = [] if preset is None else [config.file_layer(config.preset_path(preset), f"preset {preset}")]
    named += [config.file_layer(file)] if file else []
    return [*config.standing_layers(), *named, config.environment_layer(os.environ)]


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
    click.echo(f"contrast: error: {console.printable(what)}\nhint: {console.printable(hint)}", err=True)
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
    words = (str(error).splitlines() or ["no further word"])[0]
    if isinstance(error, OSError) and error.strerror:
        words = f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return f"{type(error).__name__}: {words}", "contrast --debug shows where", 1
