"""A setting as a form shows it: its text, and the note next to it. No widget is known here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from contrastcli.settings import presets, sections
from contrastcli.settings.catalogue import Spec
from contrastcli.settings.config import Config
from contrastcli.settings.presets import Preset
from contrastcli.settings.setting import Setting, Value, spell
from contrastcli.tui.widgets import has_words


@dataclass(frozen=True)
class Field:
    """One setting as a form shows it; all but the setting is text, empty where there is nothing to say."""

    setting: Setting
    text: str = ""
    unit: str = ""
    paper: str = ""
    instead: str = ""
    """The value without what was typed, and where that is from."""
    source: str = ""
    off: str = ""
    """Why it cannot be set."""
    wrong: str = ""

    @property
    def label(self) -> str:
        """Its name, as in its flag, and its symbol."""
        name = self.setting.flag.strip("-").replace("-", " ") or self.setting.name
        return f"{name} {self.setting.symbol}".rstrip()

    @property
    def differs(self) -> bool:
        """Whether what was typed changes it."""
        return bool(self.wrong or self.instead)

    @property
    def mark(self) -> str:
        """A character for its state: wrong, or changed."""
        return "!" if self.wrong else "●" if self.instead else " "

    @property
    def note(self) -> str:
        """The note next to it: what is wrong, or why it is off, or unit, the paper's value and the value before."""
        parts = (self.unit, self.paper and f"paper {self.paper}", self.instead)
        return self.wrong or self.off or " · ".join(filter(None, parts))

    @property
    def about(self) -> str:
        """Its key, its meaning, what a good value is, and where its value is from."""
        text = f"{self.setting.key}: {self.setting.help}; {self.setting.expected}"
        return f"{text} ({self.source})" if self.source else text

    def matches(self, typed: str) -> bool:
        """Whether its name or its help has all of the typed words."""
        return has_words(f"{self.label} {self.setting.key} {self.setting.help}", typed)


def why_off(config: Config, setting: Setting, objectives: Sequence[Spec]) -> str:
    """Why a setting cannot be set: the objective has none, or another setting switches it off; else empty."""
    if setting.section != "objective" or setting == sections.OBJECTIVE:
        return ""
    if setting.name not in config.spec.describe():
        named = setting.name if setting.symbol.isascii() else setting.symbol
        return f"{config.spec.name} has no {named}: {_owners(setting.name, objectives)}"
    return config.objective.inactive().get(setting.name, "")


def _owners(name: str, objectives: Sequence[Spec]) -> str:
    """The objectives that have a setting, and the verb for them."""
    owners = [spec.name for spec in objectives if name in spec.describe()]
    return f"{', '.join(owners[:2])}{', …' if len(owners) > 2 else ''} {'does' if len(owners) == 1 else 'do'}"


def paper(preset: str, config: Config) -> Mapping[str, Value]:
    """The settings that the closest published preset states: this one, else one of the same objective.

    Of several it is one with the same backbone, if there is any, and the plainest name.
    """
    name = config.spec.name

    def distance(other: Preset) -> tuple[bool, bool, bool, int, str]:
        other_backbone = other.config.model.backbone != config.model.backbone
        return other.name != preset, other_backbone, not other.name.startswith(name), len(other.name), other.name

    same = (preset for preset in _published() if preset.config.spec.name == name)
    closest = min(same, key=distance, default=None)
    return closest.values if closest else {}


@cache
def _published() -> tuple[Preset, ...]:
    """The presets that a paper has."""
    return tuple(preset for preset in map(presets.find, presets.names()) if preset.about.paper)


def paper_value(stated: Mapping[str, Value], config: Config, setting: Setting) -> str:
    """What a paper states for a setting; nothing for data, and for a margin of another unit."""
    compared = getattr(config.objective, "similarity", None)
    elsewhere = setting.name == "margin" and compared != stated.get("objective.similarity")
    if setting == sections.OBJECTIVE:
        return config.spec.paper
    if setting.section == "data" or setting.key == "dev.data" or elsewhere or setting.key not in stated:
        return ""
    return spell(stated[setting.key])
