"""Scores of models as tables or JSON, next to those of the papers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from shutil import get_terminal_size
from statistics import fmean
from typing import TYPE_CHECKING, Any

from contrastcli.boundary import narrate, print_text
from contrastcli.evaluation.suites import Average, Suite, headlines, suites_with, tasks_in, value_at
from contrastcli.model.locate import resolve
from contrastcli.runs.text import MISSING, Numeral, fixed
from contrastcli.settings import published
from contrastcli.settings.config import Config
from contrastcli.show import chart, plots
from contrastcli.show.format import TABLES, as_csv, as_json, cell, table

if TYPE_CHECKING:
    from contrastcli.evaluation.measure import Scores
    from contrastcli.show.pictures import Picture


@dataclass(frozen=True)
class SuiteTable:
    """The scores of a suite: a row for each task, then its averages.

    The papers' numbers are in columns named by their tables, each after the column to compare it with, and the last
    column marks what is missing, partial or still to be measured. `notes` are the papers of these columns and the
    protocol; `missing` tells how to get the data of tasks that were not measured.
    """

    suite: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]
    missing: tuple[str, ...]

    @property
    def text(self) -> str:
        return table(self.header, self.rows)


def suite_tables(scores: Mapping[str, Any], config: Config | None) -> list[SuiteTable]:
    """A table for each suite with scores in a scores.json; with the settings of a run, the papers' rows too."""
    measured = scores.get("suites", {})
    return [
        _suite_table(suite, measured[suite.name], published.nearest(suite.name, config) if config else [])
        for suite in suites_with(measured)
        if tasks_in(measured[suite.name]) or measured[suite.name].get("pending")
    ]


def _suite_table(suite: Suite, entries: Mapping[str, Any], papers: Sequence[published.ReportedScores]) -> SuiteTable:
    tasks, missing = tasks_in(entries), entries.get("missing", {})
    order, pending = [*suite.tasks, *suite.optional], list(entries.get("pending", ()))
    rows = dict.fromkeys([*tasks, *missing, *pending])
    names = sorted(rows, key=lambda name: order.index(name) if name in order else len(order))
    over = [average for average in suite.averages_over(tasks) if average.key in entries]
    averages = {average.key: _average(suite, average, tasks, names, entries[average.key]) for average in over}
    columns = {"Task": [*names, *(average.title for average in over)]}
    headers = _names(papers)
    for title, path in suite.columns_over(tasks).items():
        values = [value_at(tasks.get(name), path) for name in names]
        values += [value if path == suite.headline else "" for value, _ in averages.values()]
        columns[title] = [
            fixed(v, 2) if isinstance(v, float) else Numeral(f"{v:,}") if isinstance(v, int) else cell(v)
            for v in values
        ]
        for header, row in zip(headers, papers, strict=True):
            compared = [path for path in suite.columns.values() if path.startswith(f"{row.table.measure}.")]
            if path == (compared or [suite.headline])[0]:
                columns[header] = [Numeral(row.values.get(name) or MISSING) for name in (*names, *averages)]
    marks = ["pending" if name in pending else _mark(tasks.get(name)) for name in names]
    marks += [mark for _, mark in averages.values()]
    if any(marks):
        columns[""] = marks
    notes = [row.words for row in papers]
    if entries.get("protocol"):
        notes.append(str(entries["protocol"]))
    by_hint: dict[str, list[str]] = {}
    for task, skipped in missing.items():
        by_hint.setdefault(skipped.get("hint", ""), []).append(task)
    remedies = [f"Not measured: {', '.join(t)}. To get what is missing: {hint}" for hint, t in by_hint.items()]
    cells = tuple(zip(*columns.values(), strict=True))
    return SuiteTable(suite.name, tuple(columns), cells, tuple(notes), tuple(remedies))


def _names(papers: Sequence[published.ReportedScores]) -> list[str]:
    """A column's name for each row of a paper: its table, with the paper where several have a table of this number."""
    full = [row.table.source.replace(", Table ", ", Tab. ") for row in papers]
    tables = [name.partition(", ")[2] for name in full]
    names = [short if tables.count(short) == 1 else long for short, long in zip(tables, full, strict=True)]
    return [name + "'" * names[:n].count(name) for n, name in enumerate(names)]


def _average(
    suite: Suite, average: Average, tasks: Mapping[str, Mapping[str, Any]], asked: Sequence[str], value: float | None
) -> tuple[float | None, str]:
    """An average and its mark; where some of the suite or of `asked` are not complete, over the others."""
    names = average.tasks or tuple(suite.tasks) or asked
    complete = [value_at(tasks.get(name), suite.headline) for name in names if not _mark(tasks.get(name))]
    if value is not None or len(complete) == len(names) or None in complete:
        return value, ""
    return (fmean(complete), f"{len(complete)} of {len(names)}") if complete else (None, "partial")


def _mark(task: Mapping[str, Any] | None) -> str:
    """What makes a task's scores differ from published ones."""
    if task is None:
        return "missing"
    of = f", of {task['expected']:,}" if "expected" in task else ""
    return f"partial{of}" if task.get("partial") else ""


def scores(models: "Sequence[Scores]", to_json: bool, form: str = "text") -> str:
    """What evaluation measured of each model: a document, of several models a list; else a table for each suite.

    In CSV a row for each number. Several models are side by side at the end.
    """
    measured = [(one, one.to_json()) for one in models if any(result.tasks for result in one.results)]
    if to_json:
        documents = [document for _, document in measured]
        return as_json(documents if len(models) > 1 else documents[0]) if documents else ""
    tables: dict[str, list[SuiteTable]] = {}
    for one, document in measured:
        run, precision = resolve(one.model).run, one.results[0].precision
        name = one.title if precision == "fp32" else f"{one.title} in {precision}"
        tables[name] = suite_tables(document, run.config() if run else None)
    if form == "csv":
        return as_csv(("model", "suite", "task", "column", "value"), _numbers(tables))
    comment = "% " if form == "latex" else ""
    blocks = []
    for model, of_suites in tables.items():
        blocks.append(comment + model)
        for t in of_suites:
            notes = [comment + line for note in t.notes for line in note.splitlines()]
            blocks.append("\n".join([comment + t.suite, TABLES[form](t.header, t.rows), *notes]))
    if len(measured) > 1:
        by_model = [headlines(document) for _, document in measured]
        rows = [[name, *(fixed(one.get(name), 2) for one in by_model)] for name in dict.fromkeys(chain(*by_model))]
        blocks += [TABLES[form](("", *tables), rows)] if rows else []
    return "\n\n".join(blocks)


def _numbers(tables: Mapping[str, Sequence[SuiteTable]]) -> Iterator[tuple[str, ...]]:
    for model, of_suites in tables.items():
        for t in of_suites:
            for task, *cells in t.rows:
                # A program that reads it takes no thousands apart.
                plain = (text.replace(",", "") if isinstance(text, Numeral) else text for text in cells)
                named = zip(t.header[1:], plain, strict=True)
                yield from ((model, t.suite, task, title, text) for title, text in named if text not in ("", MISSING))


def show_pictures(drawn: "Sequence[Picture]", on_terminal: bool, folder: Path | None) -> None:
    """Print pictures as wide as the terminal, each in 18 rows, and write them to a folder, if there is one."""
    if on_terminal:
        print_text("".join(f"\n\n{chart.text(picture, get_terminal_size().columns, 18)}" for picture in drawn))
    for path in [path for picture in drawn for path in plots.save(picture, folder)] if folder else []:
        narrate(f"wrote {path}")
