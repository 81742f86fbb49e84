"""Results as text for people or as JSON for scripts."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from textwrap import shorten
from typing import TYPE_CHECKING, Any

from contrastcli.runs.directory import Comparison, Run
from contrastcli.runs.status import Status
from contrastcli.settings import catalogue, published
from contrastcli.settings import config as configs
from contrastcli.show.console import duration

if TYPE_CHECKING:
    from contrastcli.evaluation.result import SuiteResult
    from contrastcli.evaluation.suites import Scores
    from contrastcli.model.query import Neighbour, Similarity
    from contrastcli.runs.results import Measured, Preview
    from contrastcli.show.pictures import Picture


def as_json(value: object) -> str:
    """A result as indented JSON."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Columns padded to their widest cell; numbers to the right."""
    cells = [list(header), *([_cell(value) for value in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    right = [all(_is_number(row[i]) for row in cells[1:]) and len(cells) > 1 for i in range(len(header))]
    lines = [
        "  ".join(c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, right, strict=True)).rstrip()
        for row in cells
    ]
    return "\n".join(lines)


def _cell(value: object) -> str:
    return "–" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _is_number(text: str) -> bool:
    return text == "–" or text.replace(",", "").replace(".", "", 1).lstrip("-").isdigit()


def size(count: int) -> str:
    """Bytes in the unit that suits them."""
    number = float(count)
    units = ["B", "KB", "MB", "GB", "TB"]
    while number >= 1000 and len(units) > 1:
        number /= 1000
        units.pop(0)
    return f"{number:.0f} B" if units[0] == "B" else f"{number:.1f} {units[0]}"


def score(spearman: float | None) -> str | None:
    """A correlation × 100."""
    return None if spearman is None else f"{100 * spearman:.2f}"


def dry_run(found: Preview, to_json: bool) -> str:
    """Every setting with its source, the first rows, and what the run would take."""
    if to_json:
        facts = {name: getattr(found, name) for name in _FACTS}
        return as_json({"settings": _sourced(found.config), "rows": found.rows, "notes": found.notes, **facts})
    rows = "\n".join(f"  {role:<9} {text}" for row in found.rows for role, text in [*row.items(), ("", "")])
    notes = "".join(f"note: {note}\n" for note in found.notes)
    return f"{settings(found.config)}\n\n{rows.rstrip()}\n\n{notes}{_facts(found)}"


_FACTS = ("count", "steps", "steps_per_epoch", "sentences_per_step", "negatives_per_anchor", "dev_pairs", "disk")


def _facts(found: Preview) -> str:
    disk = size(found.disk) if found.disk is not None else "known once the backbone is here"
    lines = [
        ("rows", f"{found.count:,}"),
        ("steps", f"{found.steps:,} ({found.steps_per_epoch:,} an epoch)"),
        ("sentences per step", f"{found.sentences_per_step:,}"),
        ("negatives per anchor", f"{found.negatives_per_anchor:,}"),
        ("dev pairs", f"{found.dev_pairs:,}" if found.dev_pairs else "none: the last checkpoint is the best"),
        ("disk for checkpoints", f"about {disk}"),
    ]
    return "\n".join(f"{name:<21} {value}" for name, value in lines)


def settings(config: configs.Config) -> str:
    """Every setting, its value and where that came from, its symbol and unit."""
    known = {"objective.name": configs.OBJECTIVE, **configs.settings_of(config.spec)}
    units = {f"objective.{name}": bounds.unit for name, bounds in config.objective.bounds().items()}
    rows = [
        (key, _value(value), config.sources[key], f"{known[key].symbol} {units.get(key) or known[key].unit}".strip())
        for key, value in config.flat().items()
    ]
    return table(("setting", "value", "from", ""), rows)


def _value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value) or '""'


def settings_json(config: configs.Config) -> str:
    """The same as JSON."""
    return as_json({"settings": _sourced(config), "notes": config.notes})


def _sourced(config: configs.Config) -> dict[str, dict[str, object]]:
    return {key: {"value": value, "source": config.sources[key]} for key, value in config.flat().items()}


def run_list(found: Sequence[Run], directory: Path, to_json: bool) -> str:
    """Runs, the newest first."""
    statuses = [(run, run.status()) for run in found]
    if to_json:
        return as_json([{"name": run.name, "path": str(run.path), **_status(status)} for run, status in statuses])
    if not found:
        return f"no runs in {directory}; make one: contrast train --preset starter --no-ui"
    rows = [
        (run.name, s.state, f"{s.step:,}/{s.steps:,}", score(s.best), _ago(s.updated), size(run.size_bytes()))
        for run, s in statuses
    ]
    return table(("run", "state", "step", "best dev", "updated", "size"), rows)


def _status(status: Status) -> dict[str, Any]:
    return {
        "state": status.state,
        "step": status.step,
        "steps": status.steps,
        "loss": status.loss,
        "best": status.best,
        "best_step": status.best_step,
        "message": status.message,
        "hint": status.hint,
        "code": status.code,
        "created": status.created,
        "updated": status.updated,
    }


def _ago(moment: float) -> str:
    return f"{duration(max(0.0, time.time() - moment))} ago"


def run_details(run: Run, to_json: bool) -> str:
    """One run: status, checkpoints, scores and settings."""
    status, checkpoints, config = run.status(), run.checkpoints(), run.config()
    paths = {which: str(run.checkpoints_dir / name) for which, name in checkpoints.items()}
    if to_json:
        found = {"name": run.name, "path": str(run.path), **_status(status), "checkpoints": paths}
        return as_json(found | {"settings": config.flat(), "scores": run.scores()})
    best = f"{score(status.best)} at step {status.best_step:,}" if status.best_step is not None else None
    facts = [
        ("run", run.path),
        ("state", status.state + (f": {status.message}" if status.message else "")),
        ("step", f"{status.step:,} of {status.steps:,}"),
        ("loss", None if status.loss is None else f"{status.loss:.4f}"),
        ("best dev Spearman", best),
        ("STS average", _rounded(run.scores().get("suites", {}).get("sts", {}).get("average"))),
        *((f"{which} checkpoint", path) for which, path in paths.items()),
        ("size", size(run.size_bytes())),
    ]
    lines = "\n".join(f"{name:<18} {_cell(value)}" for name, value in facts)
    flat = table(("setting", "value"), [(key, _value(value)) for key, value in config.flat().items()])
    return f"{lines}\n\n{flat}"


def comparison(found: Comparison, to_json: bool) -> str:
    """The settings that differ, and the results, one column a run."""
    if to_json:
        return as_json(_comparison(found))
    header = ("", *(result.name for result in found.results))
    rows: list[tuple[object, ...]] = [(key, *map(_maybe, column)) for key, column in found.settings.items()]
    rows += [
        ("state", *(r.status.state for r in found.results)),
        ("step", *(r.status.step for r in found.results)),
        ("best dev", *(score(r.status.best) for r in found.results)),
        ("last dev", *(score(r.dev.spearman) if r.dev else None for r in found.results)),
        ("alignment", *(_rounded(r.dev.alignment) if r.dev else None for r in found.results)),
        ("uniformity", *(_rounded(r.dev.uniformity) if r.dev else None for r in found.results)),
        ("positive angle", *(_rounded(r.angles.positive) if r.angles else None for r in found.results)),
        ("negative angle", *(_rounded(r.angles.negative) if r.angles else None for r in found.results)),
        ("hardest angle", *(_rounded(r.angles.hardest) if r.angles else None for r in found.results)),
    ]
    return table(header, rows)


def _comparison(found: Comparison) -> dict[str, Any]:
    results = [
        {
            "name": r.name,
            **_status(r.status),
            "dev": r.dev.spearman if r.dev else None,
            "alignment": r.dev.alignment if r.dev else None,
            "uniformity": r.dev.uniformity if r.dev else None,
            "angles": {n: getattr(r.angles, n) for n in ("positive", "negative", "hardest")} if r.angles else None,
            "scores": r.scores,
        }
        for r in found.results
    ]
    return {"settings": found.settings, "results": results}


def _maybe(value: object) -> str | None:
    return None if value is None else _value(value)


def _rounded(value: float | None) -> str | None:
    return None if value is None else f"{value:.2f}"


def objectives_table() -> str:
    """The built-in objectives as the README has them, in Markdown: made from the catalogue and from the presets."""
    lines = ["| name | needs | settings | paper | published | measured |", "|---|---|---|---|---|---|"]
    for spec in catalogue.BUILT_IN:
        measured = "{:.1f} → {:.1f}".format(*spec.measured) if spec.measured else "–"
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
    words = (f"{name} {_value(defaults[name])}{units.get(name, '')}" for name in spec.describe())
    return ", ".join(words) or "–"


def _published(spec: catalogue.Spec) -> str:
    """The first score in the header of the objective's first preset, with its mark."""
    names = configs.preset_names()
    own = [name for name in names if name.startswith(f"{spec.name}-")]
    for name in own or names:
        path = configs.preset_path(name)
        found = re.search(r"Published: ([\d.]+(?: ± [\d.]+)?) \(([^),]*)", " ".join(configs.preset_header(path)))
        if found and configs.file_layer(path).values["objective.name"] == spec.name:
            return f"{found[1]} ({found[2]}, `{name}`)"
    return "–"


def presets(paths: Mapping[str, Path], to_json: bool) -> str:
    """Presets with the first sentence of their header, as far as it fits the terminal."""
    headers = {name: " ".join(configs.preset_header(path)) for name, path in paths.items()}
    first = {name: header.partition(". ")[0].rstrip(".") for name, header in headers.items()}
    if to_json:
        return as_json(first)
    room = _width() - max(map(len, paths)) - 2
    return table(("preset", "what"), [(name, shorten(text, room, placeholder=" …")) for name, text in first.items()])


def scores(found: Sequence[Scores], to_json: bool) -> str:
    """What evaluation measured, suite by suite, each with its protocol and, of a run, what its paper reports."""
    if to_json:
        measured = [one.to_json() for one in found if any(result.tasks for result in one.results)]
        return as_json(measured[0]) if measured and len(found) == 1 else as_json(measured) if measured else ""
    return "\n\n".join(_measured(one) for one in found if any(result.tasks for result in one.results))


def _measured(scores: Scores) -> str:
    config = Run(Path(scores.model)).config() if (Path(scores.model) / "config.toml").is_file() else None
    blocks = [_suite(result, published.rows(result.suite, config) if config else []) for result in scores.results]
    return "\n\n".join([scores.model, *filter(None, blocks)])


def _suite(result: SuiteResult, rows: Sequence[published.Row]) -> str:
    """Its table, a column for each published row, and where these are from."""
    if not result.tasks:
        return ""
    header = (*result.columns, *(f"[{n}]" for n in range(1, len(rows) + 1)))
    body = [(*cells, *(published.beside(row, cells[0]) for row in rows)) for cells in result.rows]
    notes = [f"[{n}] {row.words}" for n, row in enumerate(rows, 1)]
    return "\n\n".join(filter(None, [table(header, body), "\n".join(notes), f"{result.suite}: {result.protocol}"]))


_HEIGHT = 18  # rows of a picture


def drawings(drawn: Sequence[Picture]) -> str:
    """Pictures as wide as the terminal, below what was printed before."""
    from contrastcli.show import sketch

    return "\n\n".join(["", *(sketch.text(picture, _width(), _HEIGHT) for picture in drawn)]) if drawn else ""


def _width() -> int:
    """Columns of the terminal."""
    return shutil.get_terminal_size().columns


def similarities(found: Sequence[Similarity], model: str, to_json: bool) -> str:
    """One line a pair: full precision as JSON, else cosine to four decimals and degrees to one."""
    if to_json:
        lines = ({"a": s.a, "b": s.b, "cosine": s.cosine, "angle_deg": s.angle_deg, "model": model} for s in found)
        return "\n".join(json.dumps(line, ensure_ascii=False) for line in lines)
    return "\n".join(f"{s.cosine:7.4f}  {s.angle_deg:5.1f}°  {s.a}  |  {s.b}" for s in found)


def neighbours(found: Sequence[tuple[str, Sequence[Neighbour]]], model: str, to_json: bool) -> str:
    """Questions with what is nearest to each: one object a question as JSON, else a line a neighbour."""
    if to_json:
        lines = ({"query": text, "neighbours": [asdict(n) for n in near], "model": model} for text, near in found)
        return "\n".join(json.dumps(line, ensure_ascii=False) for line in lines)
    blocks = [
        "\n".join(f"{n.cosine:7.4f}  {n.angle_deg:5.1f}°  {n.row:>6}  {n.text}" for n in near) for _, near in found
    ]
    return blocks[0] if len(found) == 1 else "\n\n".join(f"{q}\n{b}" for (q, _), b in zip(found, blocks, strict=True))


def benchmark(found: Sequence[Measured], to_json: bool) -> str:
    """Medians of the rounds, and what one is of the other."""
    if to_json:
        return as_json([asdict(one) | {"ratio": one.ratio} for one in found])
    rows = [
        (
            one.what,
            f"{median(one.ours):,.0f}",
            f"{median(one.theirs):,.0f}" if one.theirs else None,
            _rounded(one.ratio),
        )
        for one in found
    ]
    return table(("sentences per second", "contrast", "sentence-transformers", "ratio"), rows)


def facts(found: dict[str, Any], to_json: bool) -> str:
    """Names and values."""
    if to_json:
        return as_json(found)
    width = max(map(len, found))
    return "\n".join(f"{name:<{width}}  {_cell(value)}" for name, value in found.items())
