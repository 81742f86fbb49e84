"""What is being set up: a preset, what was typed over it, and what follows from both. No widget is known here."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from contrastcli.errors import ContrastError, ErrorRecord, UsageError, in_words
from contrastcli.runs.directory import Run
from contrastcli.settings import catalogue, config, presets, sections
from contrastcli.settings.config import Config, Layer
from contrastcli.settings.presets import Preset
from contrastcli.settings.setting import Setting, Value, spell
from contrastcli.settings.suggestions import Suggestion
from contrastcli.tui.processes import label

COLUMNS = "data.columns"
_TYPED = "typed"
_READING = (COLUMNS, "data.labels", "data.blank")


@dataclass(frozen=True)
class Field:
    """One setting as a form shows it; all but the setting is text, empty where there is nothing to say."""

    setting: Setting
    text: str = ""
    unit: str = ""
    """That of the value, or what 0 means."""
    paper: str = ""
    """The sign ≠ and what the paper has, where that is another value."""
    instead: str = ""
    """The value without what was typed, and where that is from."""
    source: str = ""
    off: str = ""
    """Why it cannot be set."""
    wrong: str = ""
    doubt: str = ""
    """Why the value may be a mistake."""
    meaning: str = ""
    reason: str = ""
    """Why this value was suggested."""

    @property
    def label(self) -> str:
        return f"{label(self.setting.flag) or self.setting.name} {self.setting.symbol}".rstrip()

    @property
    def differs(self) -> bool:
        """Whether what was typed changes it."""
        return bool(self.wrong or self.instead)

    @property
    def note(self) -> str:
        """The note next to it: what is wrong, why it is off or suggested, or doubt, paper, unit and value before."""
        parts = (self.doubt, self.paper, self.unit, self.instead)
        return self.wrong or self.off or self.reason or " · ".join(filter(None, parts))

    @property
    def brief(self) -> str:
        """The note without where values are from, but for a sign of the paper's."""
        return self.wrong or self.off or self.doubt or f"{'≠ ' if self.paper else ''}{self.unit}".strip()

    def about(self, undo: str) -> str:
        """Its key, where its value is from and why, what the key `undo` leaves, its meaning, what a good value is."""
        undone = f"{undo} returns to {self.instead}" if self.instead else ""
        origin = " · ".join(filter(None, (self.source, self.paper, undone, self.reason)))
        expected = f"; {self.setting.expected}" if self.setting.bounds or self.setting.form else ""
        return f"{self.setting.key} ({origin}): {self.meaning or self.setting.help}{expected}"


class Draft:
    """A run that is being set up, which reads files when it is made and when a preset is chosen.

    What was typed stays when another preset or objective is chosen, and what was inherited goes, by the rule of
    `config.resolve`.
    """

    def __init__(self, preset: str, typed: Mapping[str, str]) -> None:
        self.objectives = catalogue.all_objectives()
        self.known = sections.settings_of(*self.objectives)
        self.preset = preset if preset in presets.names() else ""
        self.typed = {key: text for key, text in typed.items() if key in self.known}
        """Setting key → text, also of settings that the chosen objective does not use."""
        if self.typed.get(sections.OBJECTIVE.key) not in [spec.name for spec in self.objectives]:
            self.typed.pop(sections.OBJECTIVE.key, None)
        self.before_reset: dict[str, str] = {}
        self.reasons: dict[str, Suggestion] = {}
        """What was suggested, by setting key."""
        self._read()

    def choose_preset(self, name: str) -> None:
        """Take a preset, none where empty, and the objective that it has."""
        before, self.preset = self.config, name
        self.reasons = {}
        self.typed.pop(sections.OBJECTIVE.key, None)
        self._read()
        self._update_units(before)

    def type(self, key: str, text: str) -> None:
        """Set a setting; equal to what is inherited, or erased where empty is no value of its own, it is inherited."""
        setting = self.known[key]
        if setting.section == "data" or key == "model.backbone":
            # They were of other data, or for another backbone.
            self.reasons = {}
        may_be_empty = setting.kind is str and setting.default == ""
        before = self.config
        self.typed.pop(key, None)
        if text.strip() or may_be_empty:
            self.typed[key] = text.strip()
        self._update()
        if key in self._values and not self.fields[key].differs:
            del self.typed[key]
        self._update_units(before)

    def _update_units(self, before: Config) -> None:
        """Inherit what was typed in another unit: a margin of 0.2 in cosine is none of 0.2 degrees."""
        for setting in [self.known[key] for key in self.typed]:
            if self.config.unit(setting) != before.unit(setting):
                del self.typed[setting.key]
        self._update()

    def type_all(self, values: Mapping[str, Value]) -> None:
        """Type those of these values that are not inherited; the first one typed may reset others."""
        while differing := [key for key, value in values.items() if self.config.flat().get(key) != value]:
            if all(key in self.typed for key in differing):
                return
            self.typed |= {key: spell(values[key]) for key in differing}
            self._update()

    def undo(self, key: str = "") -> None:
        """Return one setting to what is inherited, by default the one typed last; where there is none, undo a reset."""
        if not self.typed:
            self.typed, self.before_reset = self.before_reset, {}
            self._read()
            return
        undone, before = key if key in self.typed else next(reversed(self.typed)), self.config
        del self.typed[undone]
        if undone == "data.train":
            # They are the columns of that file.
            self.typed.pop(COLUMNS, None)
        self._read()
        self._update_units(before)

    def reset(self) -> None:
        self.reasons = {}
        self.typed, self.before_reset = {}, self.typed or self.before_reset
        self._read()

    @property
    def words(self) -> list[str]:
        """What follows `contrast train` on a command line that trains this."""
        words = ["--preset", self.preset] if self.preset else []
        for key, text in self.typed.items():
            if key in self.fields and self.fields[key].differs:
                words += self.known[key].words(text)
        return words

    @property
    def can_run(self) -> bool:
        return not (self.error or any(field.wrong for field in self.fields.values()))

    @property
    def planned(self) -> dict[str, object]:
        """The settings that decide what a dry run says: of the method not its numbers, such as τ, nor its optimiser."""
        flat = self.config.flat()
        active = [field.setting for field in self.fields.values() if not field.off]
        decides = [
            s for s in active if s.role != "method" or (s.kind is not float and s.section not in ("train", "dev"))
        ]
        return {s.key: flat[s.key] for s in decides}

    def _read(self) -> None:
        """Take the layers below what is typed, as the command line stacks them."""
        self._named = presets.find(self.preset).layers if self.preset else ()
        self._layers, self._unread = [*self._named], ""
        try:
            self._layers = [*config.user_layers(), *self._named]
            self._layers.append(config.environment_layer(os.environ))
        except ContrastError as error:
            self._unread = _in_form(error)
        self._inherited = _resolve_valid(self._layers, {})[0].spec.name
        self._update()

    def _update(self) -> None:
        """All that follows from the preset and what was typed, also the `error` of a file or the environment."""
        name = self.typed.get(sections.OBJECTIVE.key, self._inherited)
        settings = sections.settings_of(catalogue.find_objective(name))
        wrong: dict[str, str] = {}
        self._values = {}
        for key in settings.keys() & self.typed.keys():
            try:
                self._values[key] = settings[key].parse(self.typed[key])
            except UsageError:
                wrong[key] = f"must be {settings[key].expected}"
        self.config, error, senseless = _resolve_valid(self._layers, self._values)
        self.error = self._unread or error
        self._paper = paper_values(self.preset, self.config.spec.name, self.config.model.backbone)
        self.fields = {
            key: self._field(settings.get(key, setting), wrong | senseless)
            for key, setting in self.known.items()
            if setting.essential or key in settings
        }

    def _field(self, setting: Setting, wrong: Mapping[str, str]) -> Field:
        key, flat = setting.key, self.config.flat()
        if off := self._why_off(setting):
            return Field(setting, spell(flat.get(key, "")), off=off)
        suggested, spec, is_objective = self.reasons.get(key), self.config.spec, setting == sections.OBJECTIVE
        return Field(
            setting,
            self.typed[key] if key in self.typed else spell(flat[key]),
            unit=setting.zero if setting.zero and not flat[key] else self.config.unit(setting),
            paper=self._paper_value(setting),
            instead=self._instead(key) if key in self.typed else "",
            source=_TYPED if key in self.typed else self.config.sources[key],
            wrong=wrong.get(key, ""),
            doubt=setting.doubt(flat[key]),
            meaning=f"{spec.about} {spec.paper}".strip() if is_objective else "",
            reason=suggested.reason if suggested and suggested.value == flat[key] else "",
        )

    def _why_off(self, setting: Setting) -> str:
        """Why a setting cannot be set: the objective has none, or another setting switches it off; else empty."""
        spec = self.config.spec
        if setting.key == COLUMNS and not self.config.data.train:
            return "there are no data yet"
        if setting.section != "objective" or setting == sections.OBJECTIVE:
            return ""
        if setting.name in spec.describe():
            return self.config.objective.inactive().get(setting.name, "")
        named = setting.name if setting.symbol.isascii() else setting.symbol
        owners = [other.name for other in self.objectives if setting.name in other.describe()]
        some = ", ".join([*owners[:2], *(["…"] if len(owners) > 2 else [])])
        return f"{spec.name} has no {named}: {some} {'does' if len(owners) == 1 else 'do'}"

    def _paper_value(self, setting: Setting) -> str:
        """What the closest paper states, if it is another value; nothing for data, and for a margin of another unit."""
        similarity, value = getattr(self.config.objective, "similarity", None), self.config.flat()[setting.key]
        other_unit = setting.name == "margin" and similarity != self._paper.get("objective.similarity")
        theirs = self._paper.get(setting.key, value)
        if setting.section == "data" or setting.key == "dev.data" or other_unit or theirs == value:
            return ""
        return f"≠ paper {spell(theirs) or 'nothing'}"

    def _instead(self, key: str) -> str:
        """Where the value without what was typed is from, and the value; empty where it is the same."""
        resets = sections.RESETS.get(key, ())
        rest = {k: v for k, v in self._values.items() if k != key and not k.startswith(resets)}
        below, *_ = _resolve_valid(self._layers, rest)
        value, source = below.flat()[key], below.sources[key]
        place = "preset" if any(source in layer.sources.values() for layer in self._named) else source
        shown = spell(self.known[key].shown(value))
        return "" if value == self._values.get(key) else f"{place} {shown}" if shown else "nothing"


def _resolve_valid(layers: Sequence[Layer], typed: dict[str, Value]) -> tuple[Config, str, dict[str, str]]:
    """The settings without what is wrong, the error of a file or variable, and what is wrong of `typed`, by key.

    With such an error no file or variable counts. A value that makes no sense or has no effect is taken out of `typed`.
    Raises UsageError if the defaults are wrong.
    """
    below_error, wrong = "", dict[str, str]()
    while True:
        try:
            resolved = config.resolve([*layers, Layer.of(typed, _TYPED)])
        except UsageError as error:
            if error.source == _TYPED:
                wrong[error.key] = in_words(error.remedies, label)
                del typed[error.key]
            elif not any(layer.users for layer in layers):
                raise
            else:
                below_error, layers = _in_form(error), [layer for layer in layers if not layer.users]
            continue
        without_effect = typed.keys() & {f"objective.{name}" for name in resolved.objective.inactive()}
        if not without_effect:
            return resolved, below_error, wrong
        for key in without_effect:
            del typed[key]


def with_error(fields: Mapping[str, Field], error: ErrorRecord) -> Mapping[str, Field]:
    """The fields, of which the one that the command line says is at fault says so too."""
    field = fields.get(error.key)
    return fields if field is None or field.off else {**fields, error.key: replace(field, wrong=_in_form(error))}


def next_draft(last: tuple[str, dict[str, str]], run: Run | None) -> Draft:
    """The last draft, or the settings of a run to train again, as changes of the preset that is closest, or of nothing.

    The pairs that were left out of the run's negatives are left out again, and the last probes are for the next
    training, whichever it is. If the run has diverged, half the learning rate. Raises ContrastError where its settings
    cannot be read.
    """
    if run is None:
        return Draft(*last)
    config = run.config()
    typed = dict(config.flat())
    if not config.data.false_negatives and run.false_negatives_path.exists():
        typed["data.false_negatives"] = str(run.false_negatives_path.resolve())
    if run.status().state == "diverged":
        typed["train.lr"] = config.train.lr / 2

    def distance(name: str) -> int:
        values = presets.find(name).config.flat() if name else Draft("", {}).config.flat()
        return sum(values.get(key) != value for key, value in typed.items())

    draft = Draft(min(["", *presets.names()], key=distance), {})
    draft.type_all(typed)
    if not config.dev.probes and (probes := last[1].get("dev.probes", "")):
        draft.type("dev.probes", probes)
    return draft


def reading_words(draft: Draft, *keys: str) -> list[str]:
    """The data of a draft, and the options that say how they are read, where those are not the usual ones."""
    flat = draft.config.flat()
    typed = [key for key in keys if flat[key] != draft.known[key].default]
    return [draft.config.data.train, *(word for key in typed for word in draft.known[key].words(spell(flat[key])))]


def suggest_words(draft: Draft) -> list[str]:
    """The words that ask the command line for settings that suit the data and the backbone of a draft."""
    chosen = draft.config.sources["model.backbone"] != "default"
    backbone = ["--backbone", draft.config.model.backbone] if chosen else []
    source, *options = reading_words(draft, *_READING)
    return ["suggest", source, *backbone, *options, "--no-trial", "--json"]


def fill_in(draft: Draft, settings: Sequence[Suggestion]) -> str:
    """Start from nothing with suggested settings; all else that was typed stays, and so do the data. Says so."""
    in_place = f"in place of the preset {draft.preset}" if draft.preset else "each with its reason"
    values = {key: draft.config.flat()[key] for key in ("data.train", *_READING)}
    values |= {one.key: one.value for one in settings}
    draft.typed = {key: text for key, text in draft.typed.items() if key not in values}
    draft.choose_preset("")
    draft.reasons = {one.key: one for one in settings}
    draft.type_all(values)
    return f"what suits the data is filled in, {in_place}"


@cache
def paper_values(preset: str, objective: str, backbone: str) -> Mapping[str, Value]:
    """What the closest published preset states: this one, else one of the same objective, backbone, plainest name."""

    def distance(other: Preset) -> tuple[bool, bool, bool, int, str]:
        other_backbone = other.config.model.backbone != backbone
        return other.name != preset, other_backbone, not other.name.startswith(objective), len(other.name), other.name

    published = (other for other in map(presets.find, presets.names()) if other.about.paper)
    alike = (other for other in published if other.config.spec.name == objective)
    closest = min(alike, key=distance, default=None)
    return closest.values if closest else {}


def _in_form(error: ContrastError | ErrorRecord) -> str:
    """An error in the words of the form, in which columns are chosen from a table."""
    if error.key == COLUMNS:
        return f"Enter chooses them: {error.what}"
    return f"{error.what}: {in_words(error.remedies, label)}"
