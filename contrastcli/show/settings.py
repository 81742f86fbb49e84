"""Settings, presets and objectives as text or JSON: those of a run, and those to choose from."""

import sys
from collections.abc import Sequence
from shutil import get_terminal_size
from textwrap import shorten, wrap

from contrastcli.runs.results import Lengths, Preview, Trial, sourced
from contrastcli.runs.text import MISSING, Numeral, duration, excerpt, shortened
from contrastcli.settings import catalogue, presets, published
from contrastcli.settings import config as configs
from contrastcli.settings.memory import estimate
from contrastcli.settings.objective import Spec
from contrastcli.settings.presets import Preset
from contrastcli.settings.sections import settings_of
from contrastcli.settings.setting import Value, spell
from contrastcli.settings.suggestions import Suggestion, percent
from contrastcli.show.format import Fields, as_json, size, table

_SHOWN_CHARACTERS = 300  # of a text shown
_LONGEST_VALUE, _LEAST_REASON = 24, 30  # characters of a suggestion
_SMALL_BUDGET = 8192  # tokens; suggested where memory is short


def dry_run(preview: Preview, config: configs.Config, to_json: bool) -> str:
    """Every setting with its source, the first rows, and the size of the run."""
    if to_json:
        return as_json(preview)
    width = max((len(role) for row in preview.rows for role in row), default=0)
    rows = "\n".join(
        f"  {role:<{max(9, width)}} {excerpt(text, _SHOWN_CHARACTERS)}"
        for row in preview.rows
        for role, text in [*row.items(), ("", "")]
    )
    return f"{_settings(config)}\n\n{rows.rstrip()}\n\n{table(('', ''), planned(preview))}"


def planned(preview: Preview) -> Fields:
    """What a run would do and take."""
    disk, time = "known once the backbone is here", "unknown: no run like it on this machine"
    if preview.contract:
        disk = "little: checkpoints hold the adapter alone"
    if preview.disk is not None:
        disk = f"about {size(preview.disk)} of checkpoints"
    if preview.seconds is not None:
        time = f"about {duration(preview.seconds)}, at the speed of {preview.like}, without evaluations"
    lengths = preview.lengths
    return [
        *([("model", preview.contract)] if preview.contract else []),
        *([("texts", _lengths(lengths))] if lengths else []),
        ("steps", f"{preview.steps:,}, {preview.steps_per_epoch:,} per epoch of {preview.count:,} rows"),
        ("step", f"{preview.sentences_per_step:,} sentences, {preview.negatives_per_anchor:,} negatives per anchor"),
        ("dev", preview.dev or "none: the last checkpoint is the best"),
        *([("general", preview.general)] if preview.general else []),
        ("disk", disk),
        *([("GPU", f"about {preview.memory} GB of memory")] if preview.memory else []),
        ("time", time),
        *(("note", note) for note in (*preview.missing, *preview.notes)),
    ]


def _lengths(lengths: Lengths) -> str:
    longer = f"{percent(lengths.cut)} are longer than the {lengths.limit:,} that are read"
    cut = longer if lengths.cut else "none is cut"
    return f"half have at most {lengths.p50:,} tokens, 95 % {lengths.p95:,}, the longest {lengths.longest:,}; {cut}"


def settings(config: configs.Config, to_json: bool) -> str:
    """Every setting with its value and source, and notes on them; as text also its symbol and unit."""
    if to_json:
        return as_json({"settings": sourced(config), "notes": config.notes})
    notes = table(("", ""), [("note", note) for note in config.notes])
    return f"{_settings(config)}\n\n{notes}".rstrip()


def _settings(config: configs.Config) -> str:
    flat = config.shown()
    rows = [
        (key, value_text(flat[key]), config.sources[key], f"{setting.symbol} {config.unit(setting)}".strip())
        for key, setting in settings_of(config.spec).items()
    ]
    return table(("setting", "value", "from", ""), rows)


def suggested_settings(settings: Sequence[Suggestion]) -> str:
    """Settings with their values, and next to each its reason, wrapped to the terminal."""
    values = [shortened(spell(one.value), _LONGEST_VALUE) for one in settings]
    names = max(len(one.key) for one in settings)
    room = max(_LEAST_REASON, get_terminal_size().columns - names - max(map(len, values)) - 4)
    rows: list[Sequence[object]] = []
    for one, value in zip(settings, values, strict=True):
        first, *rest = wrap(one.reason, room)
        rows += [(one.key, value, first), *(("", "", line) for line in rest)]
    return table(("setting", "value", "reason"), rows)


def trial_line(trial: Trial) -> str:
    """What was found when the first steps were tried here."""
    if trial.error:
        return f"the trial of the first steps failed: {trial.error}\nhint: {trial.hint}"
    tried = f"{trial.tried:,} steps were tried here: at most {trial.memory:.1f} GB of memory"
    if trial.seconds is None or trial.total is None:
        return tried
    all_steps = f"{trial.steps:,} steps and {trial.evaluations:,} evaluations take about {duration(trial.total)}"
    return f"{tried}, {trial.seconds:.2g} s each; {all_steps}"


def value_text(value: Value | None) -> str:
    """A setting's value in a table, None where an objective has no such setting."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Numeral(spell(value))
    return MISSING if value is None else spell(value) or '""'


def preset_list(to_json: bool) -> str:
    """All presets, those of sweeps last, with a description that is cut to the width of a terminal, if it is one."""
    what = {name: presets.find(name).about.what for name in (*presets.names(), *presets.sweep_names())}
    if to_json:
        return as_json(what, schema=0)  # its keys are names
    room = max(20, get_terminal_size((sys.maxsize, 0)).columns - max(map(len, what)) - 2)
    return table(("preset", "what"), [(name, shorten(text, room, placeholder=" …")) for name, text in what.items()])


def preset_details(preset: Preset) -> str:
    """A file for `--config`, under comments with what follows from its settings: published results and memory."""
    comments = []
    exact = (row for config in preset.points() for row in published.exact(config) if row.average)
    for (_, words), row in {(row.table.suite, row.words): row for row in exact}.items():
        reason = f": {row.table.note}" if row.table.mark == "not comparable" else ""
        comments.append(f"# published: {row.table.suite} {row.average} ({words}){reason}")
    full, small = (estimate(preset.config, preset.about.texts, *budget) for budget in ((), (_SMALL_BUDGET,)))
    if full and small:
        comments.append(
            f"# GPU memory, estimated: {full.total} GB, of which {full.weights:.1f} GB for weights, gradients and Adam,"
            f" and at most {full.activations:.1f} GB for the activations of {full.tokens:,} tokens"
        )
        if small.total < full.total:
            comments.append(f"# with train.token_budget = {_SMALL_BUDGET} and one more forward pass: {small.total} GB")
    return "\n\n".join(filter(None, ["\n".join(comments), preset.to_toml().rstrip()]))


def objectives() -> list[tuple[str, str]]:
    """Every objective by name: what it does, its paper, the rows that it needs, its settings, its scores."""
    described = []
    for spec in catalogue.all_objectives():
        *others, last = [f"{form} pairs" if form in ("labelled", "scored") else form for form in spec.needs]
        needs = (f"{', '.join(others)} or {last}" if others else last) + (" with neutral" if 1 in spec.labels else "")
        units = {name: f" ({bounds.unit})" for name, bounds in spec.settings().bounds().items()}
        defaults = spec.settings.defaults({})
        words = ", ".join(f"{name} {value_text(defaults[name])}{units.get(name, '')}" for name in spec.describe())
        parts = [
            *filter(None, [spec.about.rstrip("."), spec.paper]),
            f"Rows: {needs}",
            f"Settings: {words or 'none'}",
            f"Published: {_published_score(spec)}",
        ]
        if spec.measured:
            parts.append("Measured: {:.1f} → {:.1f}".format(*spec.measured))
        described.append((spec.name, ". ".join(parts)))
    return described


def _published_score(spec: Spec) -> str:
    """The published STS average of the objective's first preset, those named after it first, with its mark."""
    candidates = [preset for preset in map(presets.find, presets.names()) if preset.config.spec == spec]
    for preset in sorted(candidates, key=lambda preset: not preset.name.startswith(f"{spec.name}-")):
        exact = [row for row in published.nearest("sts", preset.config) if not row.differs]
        scores = [row.average for row in exact if row.average and row.table.mark == exact[0].table.mark]
        if scores:
            score = next((score for score in scores if score.deviation), scores[0])
            return f"{score} ({exact[0].table.mark}, {preset.name})"
    return "none"
