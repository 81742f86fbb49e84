"""Settings, presets and objectives as text or JSON: what a run would use, and what there is to choose from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING

from contrastcli.settings import catalogue
from contrastcli.settings import config as configs
from contrastcli.show.format import MISSING, as_json, names_and_values, size, table, terminal_width

if TYPE_CHECKING:
    from contrastcli.runs.results import Preview

_FACTS = ("count", "steps", "steps_per_epoch", "sentences_per_step", "negatives_per_anchor", "dev_pairs", "disk")


def dry_run(found: Preview, to_json: bool) -> str:
    """Every setting with its source, the first rows, and what the run would take."""
    if to_json:
        facts = {name: getattr(found, name) for name in _FACTS}
        return as_json({"settings": _sourced(found.config), "rows": found.rows, "notes": found.notes, **facts})
    rows = "\n".join(f"  {role:<9} {text}" for row in found.rows for role, text in [*row.items(), ("", "")])
    notes = "".join(f"note: {note}\n" for note in found.notes)
    return f"{settings(found.config)}\n\n{rows.rstrip()}\n\n{notes}{_plan(found)}"


def _plan(found: Preview) -> str:
    """What the run would take."""
    disk = size(found.disk) if found.disk is not None else "known once the backbone is here"
    return names_and_values(
        [
            ("rows", f"{found.count:,}"),
            ("steps", f"{found.steps:,} ({found.steps_per_epoch:,} an epoch)"),
            ("sentences per step", f"{found.sentences_per_step:,}"),
            ("negatives per anchor", f"{found.negatives_per_anchor:,}"),
            ("dev pairs", f"{found.dev_pairs:,}" if found.dev_pairs else "none: the last checkpoint is the best"),
            ("disk for checkpoints", f"about {disk}"),
        ]
    )


def settings(config: configs.Config) -> str:
    """Every setting, its value and where that came from, its symbol and unit."""
    known = {"objective.name": configs.OBJECTIVE, **configs.settings_of(config.spec)}
    units = {f"objective.{name}": bounds.unit for name, bounds in config.objective.bounds().items()}
    rows = [
        (
            key,
            value_text(value),
            config.sources[key],
            f"{known[key].symbol} {units.get(key) or known[key].unit}".strip(),
        )
        for key, value in config.flat().items()
    ]
    return table(("setting", "value", "from", ""), rows)


def value_text(value: object) -> str:
    """A setting as one would type it."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value) or '""'


def settings_json(config: configs.Config) -> str:
    """Every setting with its value and source, as JSON."""
    return as_json({"settings": _sourced(config), "notes": config.notes})


def _sourced(config: configs.Config) -> dict[str, dict[str, object]]:
    return {key: {"value": value, "source": config.sources[key]} for key, value in config.flat().items()}


def objectives_table() -> str:
    """The built-in objectives as the README has them, in Markdown: made from the catalogue and from the presets."""
    lines = ["| name | needs | settings | paper | published | measured |", "|---|---|---|---|---|---|"]
    for spec in catalogue.BUILT_IN:
        measured = "{:.1f} → {:.1f}".format(*spec.measured) if spec.measured else MISSING
        cells = (f"`{spec.name}`", _needs(spec), _defaults(spec), spec.paper, _published(spec), measured)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _needs(spec: catalogue.Spec) -> str:
    *others, last = ["labelled pairs" if form == "labelled" else form for form in spec.needs]
    neutral = " with neutral" if 1 in spec.labels else ""
    return (f"{', '.join(others)} or {last}" if others else last) + neutral


def _defaults(spec: catalogue.Spec) -> str:
    """Its settings, each with its default and unit."""
    units = {name: f" ({bounds.unit})" for name, bounds in spec.settings().bounds().items()}
    defaults = spec.settings.defaults({})
    words = (f"{name} {value_text(defaults[name])}{units.get(name, '')}" for name in spec.describe())
    return ", ".join(words) or MISSING


def _published(spec: catalogue.Spec) -> str:
    """The first score in the header of the objective's first preset, with its mark."""
    names = configs.preset_names()
    own = [name for name in names if name.startswith(f"{spec.name}-")]
    for name in own or names:
        path = configs.preset_path(name)
        found = re.search(r"Published: ([\d.]+(?: ± [\d.]+)?) \(([^),]*)", " ".join(configs.preset_header(path)))
        if found and configs.file_layer(path).values["objective.name"] == spec.name:
            return f"{found[1]} ({found[2]}, `{name}`)"
    return MISSING


def presets(paths: Mapping[str, Path], to_json: bool) -> str:
    """Presets with the first sentence of their header, as far as it fits the terminal."""
    headers = {name: " ".join(configs.preset_header(path)) for name, path in paths.items()}
    first = {name: header.partition(". ")[0].rstrip(".") for name, header in headers.items()}
    if to_json:
        return as_json(first)
    room = terminal_width() - max(map(len, paths)) - 2
    return table(("preset", "what"), [(name, shorten(text, room, placeholder=" …")) for name, text in first.items()])
