"""Commands and groups that answer words which they do not know, and commands with an option for each setting."""

from dataclasses import fields
from typing import Any

import click
from click.shell_completion import CompletionItem

from contrastcli.commands.job import Job, flag_layer
from contrastcli.data.downloads import shown_by
from contrastcli.errors import UsageError
from contrastcli.parsing import mistyped
from contrastcli.settings import sections
from contrastcli.settings.setting import Setting
from contrastcli.show.console import progress

OPTIONS = "contrastcli.options"
"""Where the `meta` of click's context has the options of the command that was last read."""


class Command(click.Command):
    """A command whose help ends in examples, each on a line of its own."""

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_help_text(ctx, formatter)
        formatter.write_paragraph()
        with formatter.indentation():
            for line in mistyped.examples(ctx.command_path):
                formatter.write(f"{'':>{formatter.current_indent}}{line}\n")

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Answer options of other software, such as --learning-rate, and words without an option with ours."""
        ctx.meta[OPTIONS] = mistyped.options_of(ctx)
        ctx.allow_extra_args = True
        words = list(args)
        try:
            rest = super().parse_args(ctx, args)
        except click.UsageError as error:
            raise mistyped.explained(error, ctx, words) from None
        if rest and not (isinstance(self, click.Group) or ctx.resilient_parsing):
            raise mistyped.unexpected(ctx, words, rest)
        return rest

    def invoke(self, ctx: click.Context) -> Any:
        with shown_by(progress):
            return super().invoke(ctx)


class Group(Command, click.Group):
    """A group that without a command lists, if it can, or shows its help. An error names the nearest known command."""

    command_class = Command
    group_class = type

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        usual = next((name for name in ("list", "show") if name in self.commands), "--help")
        return super().parse_args(ctx, args or ([] if ctx.resilient_parsing else [usual]))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        is_known = not args or args[0].startswith("-") or args[0] in self.commands
        if not (is_known or ctx.resilient_parsing):
            hint = mistyped.command(ctx, args, self.commands)
            raise UsageError(f"there is no command '{args[0]}'", hint)
        return super().resolve_command(ctx, args)


class SettingsCommand(Command):
    """A command with an option for each setting of a run. Its callback gets a `Job`."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        if not any(isinstance(p, SettingOption) for p in self.params):
            self.params += [SettingOption(setting) for setting in sections.all_settings().values() if setting.flag]
        return super().get_params(ctx)

    def invoke(self, ctx: click.Context) -> Any:
        settings = [(p.setting, ctx.params.pop(p.name)) for p in self.params if isinstance(p, SettingOption)]
        typed = [(one, text) for one, text in settings if text not in (None, ())]
        flags = [(one, ",".join(text) if isinstance(text, tuple) else text) for one, text in typed]
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
        super().__init__(names, metavar=metavar, help=help, multiple=setting.key == "data.train")

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(choice) for choice in self.setting.choices if choice.startswith(incomplete)]
