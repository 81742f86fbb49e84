"""What is being set up: a preset, what was typed over it, and all that follows. No widget is known here."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path

from contrastcli.errors import ContrastError, UsageError
from contrastcli.options import FLAGS
from contrastcli.runs import directory as runs
from contrastcli.settings import catalogue, config, presets
from contrastcli.settings.config import Config
from contrastcli.settings.setting import Setting, Value
from contrastcli.tui.setup import fields
from contrastcli.tui.setup.fields import ESSENTIAL, Field

_TYPED = "typed"
"""The source of what was typed."""

_DECIDING = (config.OBJECTIVE.key, "objective.similarity")
"""Settings that the defaults of others depend on."""

_COUNTED = {"dev.data", "model.backbone", "train.batch_size", "train.epochs", "train.max_steps", "train.seed"}
"""Settings, beside those of the data and the objective, that decide the rows and the steps of a run."""


class Draft:
    """A run as far as it is set up. What was typed stays as another preset or objective is chosen, and what was
    inherited goes, by the rule of `config.resolve`. Reads files when it is made and when a preset is chosen."""

    def __init__(self, preset: str, typed: Mapping[str, str]) -> None:
        self.objectives = catalogue.every()
        self.known = {config.OBJECTIVE.key: config.OBJECTIVE} | config.all_settings()
        self.preset = preset if preset in presets.names() else ""
        self.typed = {key: text for key, text in typed.items() if self._is_known(key, text)}
        """Setting key → text, also of settings that the chosen objective does not use."""
        self.error = ""
        """What is wrong with a file or the environment, in words."""
        self.wrong: dict[str, str] = {}
        """Setting key → what is wrong with what was typed."""
        self._environment = config.environment_layer(os.environ)
        self._read()

    def choose_preset(self, name: str) -> None:
        """Take a preset, none where empty, and the objective that it has."""
        self.preset = name
        self.typed.pop(config.OBJECTIVE.key, None)
        self._read()

    def type(self, key: str, text: str) -> None:
        """Set a setting; erased, or equal to what is inherited, it is inherited again."""
        setting = self.known[key]
        may_be_empty = setting.kind is str and setting.default == ""
        if text.strip() or may_be_empty:
            self.typed[key] = text.strip()
        else:
            self.typed.pop(key, None)
        self._work_out()
        if key in self._used and not self.fields[key].differs:
            del self.typed[key]
            self._work_out()

    def reset(self) -> None:
        """Forget all that was typed, and read the files again."""
        self.typed.clear()
        self._read()

    @property
    def words(self) -> list[str]:
        """What follows `contrast train` on a command line that trains this."""
        found = ["--preset", self.preset] if self.preset else []
        for key, text in self._used.items():
            if self.fields[key].differs:
                found += _option(self.known[key], text)
        return found

    def command(self, directory: Path) -> str:
        """The command line that trains this into a runs directory."""
        elsewhere = directory.resolve() != runs.runs_dir(None).resolve()
        return shlex.join(["contrast", *(["--runs-dir", str(directory)] if elsewhere else []), "train", *self.words])

    @property
    def choices(self) -> list[tuple[str, str]]:
        """The objectives, each with its paper and the rows that it takes."""
        return [(spec.name, f"{spec.paper} · takes {', '.join(spec.needs)}") for spec in self.objectives]

    @property
    def problem(self) -> str:
        """What must be mended first, in words; empty where nothing is wrong."""
        wrong = next(((self.fields[key].label, words) for key, words in self.wrong.items()), None)
        return self.error or (": ".join(wrong) if wrong else "")

    @property
    def matters(self) -> dict[str, Value]:
        """The settings that decide what data is read and how many steps there are: no weight nor temperature does."""
        return {
            key: value
            for key, value in self.config.flat().items()
            if key in _COUNTED or (key.startswith(("data.", "objective.")) and not isinstance(value, float))
        }

    def _is_known(self, key: str, text: str) -> bool:
        names = [spec.name for spec in self.objectives]
        return key in self.known and (key != config.OBJECTIVE.key or text in names)

    def _read(self) -> None:
        """Take the layers below what is typed, as the command line stacks them."""
        named = presets.find(self.preset).layers if self.preset else ()
        self._unreadable = ""
        try:
            standing = config.standing_layers()
        except ContrastError as error:
            standing, self._unreadable = [], _in_words(error)
        self._layers = [*standing, *named, self._environment]
        self._below: dict[tuple[tuple[str, str], ...], Config] = {}
        self.error, self.wrong = self._unreadable, {}
        self._inherited = self._resolved_as_far_as_good({}).spec.name
        self._work_out()

    def _work_out(self) -> None:
        """All that follows from the preset and what was typed."""
        self.error, self.wrong = self._unreadable, {}
        settings = fields.settings_of(catalogue.find(self.typed.get(config.OBJECTIVE.key, self._inherited)))
        found = {key: text for key, text in self.typed.items() if key in settings}
        self.config = self._resolved_as_far_as_good(found)
        off = {f"objective.{name}" for name in self.config.objective.inactive()}
        self._used = {key: text for key, text in self.typed.items() if key in settings and key not in off}
        self.wrong = {key: words for key, words in self.wrong.items() if key in self._used}
        good = {key: text for key, text in found.items() if key in self._used}
        if good != found:
            self.config = self._resolved(good)
        self._paper = fields.paper(self.preset, self.config)
        self.fields = {key: self._field(key, good) for key in dict.fromkeys((*ESSENTIAL, *settings))}

    def _resolved_as_far_as_good(self, typed: dict[str, str]) -> Config:
        """The settings; what makes no sense is taken out of `typed`, or of the layers below, and noted."""
        while True:
            try:
                return self._resolved(typed)
            except UsageError as error:
                key = error.what.partition(" ")[0]
                if key in typed and error.what.endswith(f"({_TYPED})"):
                    self.wrong[key] = self._complaint(key, typed.pop(key), error)
                else:  # a file or the environment is at fault: the form goes on without the topmost of them
                    self.error = self._unreadable = self._unreadable or _in_words(error)
                    self._layers.pop()
                    self._below.clear()

    def _complaint(self, key: str, text: str, error: UsageError) -> str:
        setting = self.known[key]
        try:
            setting.parse(text)
        except UsageError:
            return f"must be {setting.expected}"
        return error.hint

    def _resolved(self, typed: Mapping[str, str]) -> Config:
        layer = config.text_layer({key: (text, _TYPED) for key, text in typed.items()}, strict=False)
        return config.resolve([*self._layers, layer])

    def _field(self, key: str, good: Mapping[str, str]) -> Field:
        setting = fields.settings_of(self.config.spec).get(key, self.known[key])
        if off := fields.why_off(self.config, setting, self.objectives):
            return Field(setting, fields.spelled(self.config.flat().get(key, "")), off=off)
        text = self.typed[key] if key in self._used else fields.spelled(self.config.flat()[key])
        return Field(
            setting,
            text,
            unit=fields.unit(self.config, setting),
            paper=fields.paper_value(self._paper, self.config, setting),
            instead=self._instead(key, good) if key in self._used and key not in self.wrong else "",
            source=self.config.sources[key],
            wrong=self.wrong.get(key, ""),
        )

    def _instead(self, key: str, good: Mapping[str, str]) -> str:
        """What would stand had it not been typed, and where that is from; empty where it is the same."""
        deciding = tuple((other, good[other]) for other in _DECIDING if other in good and other != key)
        below = self._below[deciding] = self._below.get(deciding) or self._resolved(dict(deciding))
        value = below.flat()[key]
        if value == self.config.flat()[key]:
            return ""
        source = below.sources[key]
        return f"{'preset' if source.startswith('preset ') else source} {fields.spelled(value) or 'nothing'}"


def _option(setting: Setting, text: str) -> list[str]:
    """A setting on a command line: of [dev] only the data has an option of its own."""
    if setting.section == "dev" and setting.key not in FLAGS:
        return ["--set", f"{setting.key}={text}"]
    return [FLAGS.get(setting.key, setting.flag), text]


def _in_words(error: ContrastError) -> str:
    return f"{error.what}: {error.hint}"
