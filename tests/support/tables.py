"""The result of a suite as people see it."""

from __future__ import annotations

from contrastcli.evaluation.result import SuiteResult
from contrastcli.show.results import SuiteTable, suite_tables


def shown(result: SuiteResult) -> SuiteTable:
    """The table of a suite's result, without the papers' rows."""
    (table,) = suite_tables({"suites": {result.suite: result.to_json()}}, None)
    return table


def cells(result: SuiteResult) -> dict[str, dict[str, str]]:
    """The cells of that table by row and column; the last column, which has no title, marks what is partial."""
    table = shown(result)
    return {row[0]: dict(zip(table.header, row, strict=True)) for row in table.rows}
