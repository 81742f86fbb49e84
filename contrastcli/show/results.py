"""Results of commands as text or JSON: scores, answers to queries, benchmarks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from shutil import get_terminal_size
from statistics import median
from typing import TYPE_CHECKING, Any

from contrastcli.evaluation.suites import SUITES, Suite, value_at
from contrastcli.model.locate import resolve
from contrastcli.runs.text import MISSING, fixed, printable
from contrastcli.settings import published
from contrastcli.settings.config import Config
from contrastcli.show import sketch
from contrastcli.show.format import as_json, as_json_lines, cell, markdown_table, names_and_values, table

if TYPE_CHECKING:
    from contrastcli.evaluation.result import Scores
    from contrastcli.runs.results import Benchmark, Nearest, Similarity
    from contrastcli.show.pictures import Picture


@dataclass(frozen=True)
class SuiteTable:
    """The scores of a suite: a row for each task, then its averages.

    The papers' numbers are in columns [1], [2] …, each after the column to compare it with, and the last column marks
    what is missing or partial. `notes` are the papers of these columns and the protocol; `missing` tells how to get the
    data of tasks that were not measured.
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
    """A table for each suite with scores in a scores.json; with the settings of a run, the papers' rows too."""
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
        values = [value_at(tasks.get(name), path) for name in names]
        values += [entries[key] if path == suite.headline else "" for key in averages]
        columns[title] = [
            fixed(v, 2) if isinstance(v, float) else f"{v:,}" if isinstance(v, int) else cell(v) for v in values
        ]
        for n, row in enumerate(papers, 1):
            compared = [path for path in suite.columns.values() if path.startswith(f"{row.measure}.")]
            if path == (compared or [suite.headline])[0]:
                columns[f"[{n}]"] = [str(row.values.get(name) or MISSING) for name in (*names, *averages)]
    marks = [_mark(tasks.get(name)) for name in names]
    marks += ["partial" if entries[key] is None and entries.get("partial") else "" for key in averages]
    if any(marks):
        columns[""] = marks
    notes = [f"[{n}] {row.words}" for n, row in enumerate(papers, 1)]
    if entries.get("protocol"):
        notes.append(str(entries["protocol"]))
    by_hint: dict[str, list[str]] = {}
    for task, skipped in missing.items():
        by_hint.setdefault(skipped.get("hint", ""), []).append(task)
    remedies = [f"Not measured: {', '.join(t)}. To get what is missing: {hint}" for hint, t in by_hint.items()]
    rows = tuple(zip(*columns.values(), strict=True))
    return SuiteTable(suite.name, tuple(columns), rows, tuple(notes), tuple(remedies))


def _mark(task: Mapping[str, Any] | None) -> str:
    """What makes a task's scores differ from published ones."""
    if task is None:
        return "missing"
    of = f", of {task['expected']:,}" if "expected" in task else ""
    return f"partial{of}" if task.get("partial") else ""


def scores(models: Sequence[Scores], to_json: bool) -> str:
    """What evaluation measured of each model: a document, of several models a list; else a table for each suite."""
    measured = [(one, one.to_json()) for one in models if any(result.tasks for result in one.results)]
    if to_json:
        documents = [document for _, document in measured]
        return as_json(documents if len(models) > 1 else documents[0]) if documents else ""
    blocks = []
    for one, document in measured:
        run = resolve(one.model).run
        tables = suite_tables(document, run.config() if run else None)
        blocks += [one.model, *("\n".join([t.suite, t.text, *t.notes]) for t in tables)]
    return "\n\n".join(blocks)


def drawings(drawn: Sequence[Picture]) -> str:
    """Pictures as wide as the terminal, each in 18 rows, below what was printed before."""
    return "".join(f"\n\n{sketch.text(picture, get_terminal_size().columns, 18)}" for picture in drawn)


def similarities(pairs: Sequence[Similarity], to_json: bool) -> str:
    """A line for each pair: full precision as JSON, else cosine to four decimals and degrees to one."""
    if to_json:
        return as_json_lines(pairs)
    return "\n".join(f"{s.cosine:7.4f}  {s.angle_deg:5.1f}°  {printable(s.a)}  |  {printable(s.b)}" for s in pairs)


def neighbours(answers: Sequence[Nearest], to_json: bool) -> str:
    """The nearest sentences to each query: a JSON object for each query, else a line for each neighbour."""
    if to_json:
        return as_json_lines(answers)
    blocks = []
    for answer in answers:
        lines = [f"{n.cosine:7.4f}  {n.angle_deg:5.1f}°  {n.row:>6}  {printable(n.text)}" for n in answer.neighbours]
        blocks.append("\n".join([printable(answer.query), *lines] if len(answers) > 1 else lines))
    return "\n\n".join(blocks)


def benchmarks(measured: Iterable[Benchmark], to_json: bool) -> Iterator[str]:
    """A line for each, as they come: the median of its rounds, × sentence-transformers, % of the matrix products."""
    layout = "{:<24}  {:<37}  {:>9}  {:>6}  {:>7}"
    for number, one in enumerate(measured):
        if to_json:
            yield as_json_lines([one])
            continue
        if number == 0:
            yield layout.format("", "", "a second", "× peer", "% limit")
        rate = f"{median(one.rates):,.{0 if median(one.rates) >= 10 else 2}f}" if one.rates else "–"
        share = None if one.limit_share is None else 100 * one.limit_share
        line = layout.format(one.what, one.program, rate, fixed(one.ratio, 2), fixed(share, 0))
        yield f"{line}  {one.error}".rstrip()


def facts(facts: Mapping[str, object], to_json: bool) -> str:
    """Names and values."""
    return as_json(facts) if to_json else names_and_values(facts.items())
