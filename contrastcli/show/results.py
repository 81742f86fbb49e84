"""What commands compute, as text for people or as JSON for scripts: scores, answers to queries, benchmarks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from contrastcli.evaluation.suites import SUITES, Suite, value_at
from contrastcli.model.locate import resolve
from contrastcli.runs.text import MISSING, fixed
from contrastcli.settings import published
from contrastcli.settings.config import Config
from contrastcli.show.format import as_json, as_json_line, cell, markdown_table, names_and_values, table, terminal_width

if TYPE_CHECKING:
    from contrastcli.evaluation.result import Scores
    from contrastcli.runs.results import Benchmark, Nearest, Similarity
    from contrastcli.show.pictures import Picture


@dataclass(frozen=True)
class SuiteTable:
    """The scores of a suite: a row a task, then its averages.

    The papers' numbers are in columns [1], [2] …, each after the column that it compares with, and the last column
    marks what is missing or partial. `notes` tell where the papers' numbers are from and what was done, `missing` how
    to get what is missing.
    """

    suite: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]
    missing: tuple[str, ...]

    @property
    def text(self) -> str:
        """The table for a terminal."""
        return table(self.header, self.rows)

    @property
    def markdown(self) -> str:
        """The table with its notes for a model card."""
        return "\n\n".join([markdown_table(self.header, self.rows), *self.notes])


def suite_tables(scores: Mapping[str, Any], config: Config | None) -> list[SuiteTable]:
    """A table for each suite that a scores.json has scores of; with the settings of a run, the papers' rows too."""
    measured = scores.get("suites", {})
    return [
        _suite_table(suite, measured[name], published.rows(name, config) if config else [])
        for name, suite in SUITES.items()
        if _tasks(measured.get(name, {}))
    ]


def _tasks(entries: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The scores of each task, in the JSON of a suite."""
    return {name: entry for name, entry in entries.items() if isinstance(entry, Mapping) and name != "missing"}


def _suite_table(suite: Suite, entries: Mapping[str, Any], papers: Sequence[published.Row]) -> SuiteTable:
    tasks, missing = _tasks(entries), entries.get("missing", {})
    order = [*suite.tasks, *suite.optional]
    names = sorted({**tasks, **missing}, key=lambda name: order.index(name) if name in order else len(order))
    averages = {average.key: average.title for average in suite.averages if average.key in entries}
    columns = {"Task": [*names, *averages.values()]}
    for title, path in suite.columns.items():
        cells = [_number(value_at(tasks.get(name), path)) for name in names]
        columns[title] = [*cells, *(_number(entries[key]) if path == suite.headline else "" for key in averages)]
        for n, row in enumerate(papers, 1):
            if path == _compared(suite, row):
                columns[f"[{n}]"] = [_published(row, name) for name in (*names, *averages)]
    marks = [_mark(tasks.get(name)) for name in names]
    marks += ["partial" if entries[key] is None and entries.get("partial") else "" for key in averages]
    if any(marks):
        columns[""] = marks
    sources = [f"[{n}] {row.words}" for n, row in enumerate(papers, 1)]
    protocol = [str(entries["protocol"])] if entries.get("protocol") else []
    rows = tuple(zip(*columns.values(), strict=True))
    return SuiteTable(suite.name, tuple(columns), rows, (*sources, *protocol), tuple(_remedies(missing)))


def _number(value: object) -> str:
    return fixed(value, 2) if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else cell(value)


def _mark(task: Mapping[str, Any] | None) -> str:
    """What keeps a task's scores from comparing with published ones."""
    if task is None:
        return "missing"
    of = f", of {task['expected']:,}" if "expected" in task else ""
    return f"partial{of}" if task.get("partial") else ""


def _compared(suite: Suite, row: published.Row) -> str:
    """The path of the column that a row of a paper compares with."""
    return next((path for path in suite.columns.values() if path.startswith(f"{row.measure}.")), suite.headline)


def _published(row: published.Row, name: str) -> str:
    score = row.values.get(name)
    return str(score) if score else MISSING


def _remedies(missing: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    by_hint: dict[str, list[str]] = {}
    for task, skipped in missing.items():
        by_hint.setdefault(skipped.get("hint", ""), []).append(task)
    for hint, tasks in by_hint.items():
        yield f"Not measured: {', '.join(tasks)}. To get what is missing: {hint}"


def scores(models: Sequence[Scores], to_json: bool) -> str:
    """What evaluation measured of each model: a document, of several models a list; else a table a suite."""
    measured = [one for one in models if any(result.tasks for result in one.results)]
    if not to_json:
        return "\n\n".join(map(_model_scores, measured))
    documents = [one.to_json() for one in measured]
    return as_json(documents if len(models) > 1 else documents[0]) if documents else ""


def _model_scores(scores: Scores) -> str:
    run = resolve(scores.model).run
    tables = suite_tables(scores.to_json(), run.config() if run else None)
    blocks = ["\n".join([one.suite, one.text, *one.notes]) for one in tables]
    return "\n\n".join([scores.model, *blocks])


_HEIGHT = 18  # rows of a picture


def drawings(drawn: Sequence[Picture]) -> str:
    """Pictures as wide as the terminal, below what was printed before."""
    from contrastcli.show import sketch

    return "\n\n".join(["", *(sketch.text(picture, terminal_width(), _HEIGHT) for picture in drawn)]) if drawn else ""


def similarities(pairs: Sequence[Similarity], to_json: bool) -> str:
    """One line a pair: full precision as JSON, else cosine to four decimals and degrees to one."""
    if to_json:
        return "\n".join(map(as_json_line, pairs))
    return "\n".join(f"{s.cosine:7.4f}  {s.angle_deg:5.1f}°  {s.a}  |  {s.b}" for s in pairs)


def neighbours(answers: Sequence[Nearest], to_json: bool) -> str:
    """Queries with what is nearest to each: one object a query as JSON, else a line a neighbour."""
    if to_json:
        return "\n".join(map(as_json_line, answers))
    blocks = [
        "\n".join(f"{n.cosine:7.4f}  {n.angle_deg:5.1f}°  {n.row:>6}  {n.text}" for n in answer.neighbours)
        for answer in answers
    ]
    if len(answers) == 1:
        return blocks[0]
    return "\n\n".join(f"{answer.query}\n{block}" for answer, block in zip(answers, blocks, strict=True))


def benchmarks(measured: Sequence[Benchmark], to_json: bool) -> str:
    """Medians of the rounds, and their ratio."""
    if to_json:
        return as_json(measured)
    rows = [
        (b.what, f"{median(b.ours):,.0f}", f"{median(b.theirs):,.0f}" if b.theirs else None, fixed(b.ratio, 2))
        for b in measured
    ]
    return table(("sentences per second", "contrast", "sentence-transformers", "ratio"), rows)


def facts(facts: Mapping[str, object], to_json: bool) -> str:
    """Names and values."""
    return as_json(facts) if to_json else names_and_values(facts.items())
