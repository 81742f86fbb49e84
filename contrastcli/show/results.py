"""What commands compute, as text for people or as JSON for scripts: scores, answers to queries, benchmarks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from statistics import median
from typing import TYPE_CHECKING, Any

import msgspec

from contrastcli.model.locate import resolve
from contrastcli.runs.text import fixed
from contrastcli.settings import published
from contrastcli.show.format import as_json, names_and_values, table, terminal_width

if TYPE_CHECKING:
    from contrastcli.evaluation.result import SuiteResult
    from contrastcli.evaluation.suites import Scores
    from contrastcli.runs.results import Measured, Nearest, Similarity
    from contrastcli.show.pictures import Picture


def scores(found: Sequence[Scores], to_json: bool) -> str:
    """What evaluation measured, suite by suite, each with its protocol and, of a run, what its paper reports."""
    if to_json:
        measured = [one.to_json() for one in found if any(result.tasks for result in one.results)]
        return as_json(measured[0]) if measured and len(found) == 1 else as_json(measured) if measured else ""
    return "\n\n".join(_measured(one) for one in found if any(result.tasks for result in one.results))


def _measured(scores: Scores) -> str:
    run = resolve(scores.model).run
    config = run.config() if run else None
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

    return "\n\n".join(["", *(sketch.text(picture, terminal_width(), _HEIGHT) for picture in drawn)]) if drawn else ""


def similarities(pairs: Sequence[Similarity], to_json: bool) -> str:
    """One line a pair: full precision as JSON, else cosine to four decimals and degrees to one."""
    if to_json:
        return _json_lines(pairs)
    return "\n".join(f"{s.cosine:7.4f}  {s.angle_deg:5.1f}°  {s.a}  |  {s.b}" for s in pairs)


def neighbours(answers: Sequence[Nearest], to_json: bool) -> str:
    """Queries with what is nearest to each: one object a query as JSON, else a line a neighbour."""
    if to_json:
        return _json_lines(answers)
    blocks = [
        "\n".join(f"{n.cosine:7.4f}  {n.angle_deg:5.1f}°  {n.row:>6}  {n.text}" for n in answer.neighbours)
        for answer in answers
    ]
    if len(answers) == 1:
        return blocks[0]
    return "\n\n".join(f"{answer.query}\n{block}" for answer, block in zip(answers, blocks, strict=True))


def _json_lines(values: Iterable[object]) -> str:
    return "\n".join(json.dumps(msgspec.to_builtins(value), ensure_ascii=False) for value in values)


def benchmark(found: Sequence[Measured], to_json: bool) -> str:
    """Medians of the rounds, and what one is of the other."""
    if to_json:
        return as_json([asdict(one) | {"ratio": one.ratio} for one in found])
    rows = [
        (
            one.what,
            f"{median(one.ours):,.0f}",
            f"{median(one.theirs):,.0f}" if one.theirs else None,
            fixed(one.ratio, 2),
        )
        for one in found
    ]
    return table(("sentences per second", "contrast", "sentence-transformers", "ratio"), rows)


def facts(found: dict[str, Any], to_json: bool) -> str:
    """Names and values."""
    if to_json:
        return as_json(found)
    return names_and_values(found.items())
