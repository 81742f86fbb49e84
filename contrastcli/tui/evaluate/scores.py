"""What `contrast eval --json` and a run's scores.json hold, as tables, with the papers' rows beside a result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from contrastcli.settings import published
from contrastcli.settings.config import Config
from contrastcli.settings.published import Row
from contrastcli.show.format import table

SUITES = {
    "sts": "7 sets of scored pairs",
    "transfer": "8 classification tasks",
    "fewshot": "16 examples a class",
    "clustering": "8 sets of short texts",
    "geometry": "alignment, angles",
    "mteb": "needs the extra mteb",
}
"""The suites that there are, each in a few words."""

_ABOUT = ("partial", "missing", "protocol")  # keys of a suite that are no task
_COLUMNS: Mapping[str, Mapping[str, str]] = {
    "sts": {"Spearman": "all.spearman", "Pearson": "all.pearson", "weighted": "wmean.spearman", "pairs": "pairs"},
    "transfer": {"accuracy": "accuracy", "F1": "f1", "rows": "rows"},
    "fewshot": {"accuracy": "mean", "sd": "sd", "rows": "rows"},
    "clustering": {"accuracy": "accuracy", "NMI": "nmi", "AMI": "ami", "ARI": "ari", "rows": "rows"},
    "geometry": {
        "alignment": "alignment",
        "uniformity": "uniformity",
        "positive °": "positive",
        "negative °": "negative",
        "pairs": "pairs",
    },
}
"""What is shown of a task: titles, and where its entry has the number. The first is what is averaged and published."""

_OTHERS = {"score": "score"}


@dataclass(frozen=True)
class SuiteTable:
    """The result of a suite: a row a task, how it was measured, and what could not be."""

    suite: str
    header: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]
    notes: tuple[str, ...]

    @property
    def text(self) -> str:
        """As text."""
        return table(self.header, self.rows)


def tables(scores: Mapping[str, Any], config: Config | None) -> list[SuiteTable]:
    """One table a suite; a run's settings say which of the papers' rows stand beside it."""
    measured = scores.get("suites", {})
    return [
        _table(suite, measured[suite], published.rows(suite, config) if config else [])
        for suite in sorted(measured, key=[*SUITES, *measured].index)
    ]


def _table(suite: str, entries: Mapping[str, Any], papers: Sequence[Row]) -> SuiteTable:
    tasks = {name: entry for name, entry in entries.items() if name not in _ABOUT}
    paths = _COLUMNS.get(suite, _OTHERS)
    cells = {
        name: [_number(entry, path, n == 0) for n, path in enumerate(paths.values())] for name, entry in tasks.items()
    }
    kept = [n for n in range(len(paths)) if any(row[n] is not None for row in cells.values())]
    titles = [title for n, title in enumerate(paths) if n in kept]
    header = ("", titles[0], *(f"[{n + 1}]" for n in range(len(papers))), *titles[1:]) if titles else ("",)
    rows = []
    for name, found in cells.items():
        first, *rest = [found[n] for n in kept] or [None]
        rows.append((name, first, *(_published(row, name) for row in papers), *rest)[: len(header)])
    return SuiteTable(suite, header, tuple(rows), (*_sources(papers), *_notes(entries)))


def _number(entry: object, path: str, first: bool) -> str | None:
    """The number at a path of a task's entry, as text; an average is a number itself, in the first column."""
    for key in path.split("."):
        if isinstance(entry, Mapping):
            entry = entry.get(key)
        elif not first:
            return None
    if isinstance(entry, bool) or not isinstance(entry, int | float):
        return None
    return f"{entry:,}" if isinstance(entry, int) else f"{entry:.2f}"


def _published(row: Row, task: str) -> str | None:
    score = row.values.get(task)
    return None if score is None else f"{score.value:.2f}"


def _sources(papers: Sequence[Row]) -> list[str]:
    """Where the papers' numbers are from, and what they are numbers of."""
    found = []
    for n, row in enumerate(papers, 1):
        differs = f"; differs from this run in {', '.join(row.differs)}" if row.differs else ""
        measure = "; compares with the weighted mean" if row.measure == "wmean" else ""
        found.append(f"[{n}] {row.source}: {row.method}, {row.backbone}, {row.mark}{measure}{differs}")
    return found


def _notes(entries: Mapping[str, Any]) -> list[str]:
    """What was not measured and how to get it, and how the rest was."""
    gaps = entries.get("missing")
    by_hint: dict[str, list[str]] = {}
    for task, gap in gaps.items() if isinstance(gaps, Mapping) else ():
        by_hint.setdefault(gap["hint"], []).append(task)
    missing = [f"Not measured: {', '.join(tasks)}. To get what is missing: {hint}" for hint, tasks in by_hint.items()]
    return [*missing, *([str(entries["protocol"])] if entries.get("protocol") else [])]
