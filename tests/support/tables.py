"""The result of a suite as people see it, and rows of texts."""

from collections.abc import Iterable

from contrastcli.data.convert import scored
from contrastcli.data.examples import Examples, ScoredPairs, from_frame
from contrastcli.data.sources import load_examples, open_dev
from contrastcli.data.texts import Texts
from contrastcli.evaluation.measure import SuiteResult
from contrastcli.settings import catalogue
from contrastcli.settings.sections import Blank, Data
from contrastcli.show.scores import SuiteTable, suite_tables


def shown(result: SuiteResult) -> SuiteTable:
    """The table of a suite's result, without the papers' rows."""
    (table,) = suite_tables({"suites": {result.suite: result.to_json()}}, None)
    return table


def cells(result: SuiteResult) -> dict[str, dict[str, str]]:
    """The cells of that table by row and column; the last column, which has no title, marks what is partial."""
    table = shown(result)
    return {row[0]: dict(zip(table.header, row, strict=True)) for row in table.rows}


def scored_pairs(name: str, blank: Blank = "error") -> ScoredPairs:
    """The scored pairs of dev data."""
    return scored(from_frame(open_dev(name), "", "", name, blank=blank))


def load(name: str, objective: str, limit: int = 0) -> Examples:
    """Training rows as an objective takes them."""
    spec = catalogue.find_objective(objective)
    return load_examples(Data(train=name, limit=limit), spec.needs, spec.labels)


def texts(**views: Iterable[str]) -> dict[str, Texts]:
    """The texts of rows by view."""
    return {view: Texts.of(column) for view, column in views.items()}
