"""Several runs as text or JSON: runs side by side, methods over seeds, sweeps, and tests of a difference."""

from __future__ import annotations

from collections.abc import Sequence

from contrastcli.evaluation.suites import headlines, summary
from contrastcli.runs import sweeps
from contrastcli.runs.results import Bootstrap, Comparison, Method, Spread, SweepScores
from contrastcli.runs.text import MISSING, fixed, score
from contrastcli.show.format import as_json, table
from contrastcli.show.settings import value_text


def comparison(compared: Comparison, to_json: bool) -> str:
    """Runs side by side, or methods if some runs differ only in their seed; then the tests."""
    if to_json:
        return as_json(compared)
    grouped = any(len(method.runs) > 1 for method in compared.groups)
    results = _methods(compared.groups) if grouped else side_by_side(compared)
    return "\n\n".join([results, *_tests(compared)])


def side_by_side(compared: Comparison) -> str:
    """The settings that differ, and the results, one column a run."""
    results = compared.results
    angles, scores = [r.angles for r in results], [headlines(r.scores) for r in results]
    measured = dict.fromkeys(name for one in scores for name in one)
    rows: list[tuple[object, ...]] = [
        *((key, *map(value_text, column)) for key, column in compared.settings.items()),
        ("state", *(r.state for r in results)),
        ("step", *(r.step for r in results)),
        ("best dev", *(score(r.best) for r in results)),
        ("last dev", *(score(r.dev) for r in results)),
        ("alignment", *(fixed(r.alignment, 2) for r in results)),
        ("uniformity", *(fixed(r.uniformity, 2) for r in results)),
        ("positive angle", *(fixed(one.positive, 2) if one else None for one in angles)),
        ("negative angle", *(fixed(one.negative, 2) if one else None for one in angles)),
        ("hardest angle", *(fixed(one.hardest, 2) if one else None for one in angles)),
        *((name, *(fixed(one.get(name), 2) for one in scores)) for name in measured),
    ]
    return table(("", *(r.name for r in results)), rows)


def _methods(methods: Sequence[Method]) -> str:
    """A column a method, headed by its first run."""
    header = ("", *(method.runs[0].name for method in methods))
    rows: list[tuple[object, ...]] = [
        (key, *(value_text(method.settings[key]) for method in methods)) for key in methods[0].settings
    ]
    rows.append(("seeds finished", *(_seeds(method) for method in methods)))
    rows += [(_title(name), *(_mean(method.scores.get(name)) for method in methods)) for name in _columns(methods)]
    return table(header, rows)


def _tests(compared: Comparison) -> list[str]:
    tests = [
        (_title(n), f"{t.difference:+.2f}", f"{t.low:+.2f} … {t.high:+.2f}", fixed(t.t, 2), fixed(t.df, 1), _p(t.p))
        for n, t in compared.welch.items()
        if n in _columns(compared.groups)
    ]
    blocks = [table(("Welch's t-test", "first − second", "95 %", "t", "df", "p"), tests)] if tests else []
    return [*blocks, _sentence(compared.bootstrap)] if compared.bootstrap else blocks


def _sentence(b: Bootstrap) -> str:
    first, second = (f"{run} {fixed(value, 2)}" for run, value in zip(b.runs, b.spearman, strict=True))
    return (
        f"paired bootstrap over the {b.pairs:,} pairs of {b.data}: {first}, {second}; "
        f"difference {_signed(b.difference)}, 95 % {_signed(b.low)} … {_signed(b.high)}, p {_p(b.p)}"
    )


def sweep(scores: SweepScores, to_json: bool) -> str:
    """A row a point of the grid: mean ± standard deviation over the finished seeds, and the other seeds."""
    if to_json:
        return as_json(scores)
    columns = _columns(scores.cells)
    varied = [key for key, values in scores.grid.items() if len(values) > 1]
    rows = [
        (
            *(value_text(method.settings[key]) for key in varied),
            _seeds(method),
            *(_mean(method.scores.get(name)) for name in columns),
            _unfinished(method),
        )
        for method in scores.cells
    ]
    header = (*map(sweeps.short, varied), "seeds", *map(_title, columns), "")
    return table(header, rows)


def cells(scores: SweepScores, to_json: bool) -> str:
    """The cells of a sweep: the name of each run, and its state."""
    named = [(run.name, run.state) for method in scores.cells for run in method.runs]
    if to_json:
        return as_json([{"name": name, "state": state} for name, state in named])
    return table(("cell", "state"), named)


def _columns(methods: Sequence[Method]) -> list[str]:
    """The numbers that a table shows: the dev score, and of each suite its averages, or its tasks without any."""
    return summary(dict.fromkeys(name for method in methods for name in method.scores))


def _title(name: str) -> str:
    return "best dev" if name == "dev" else name


def _seeds(method: Method) -> str:
    total = len(method.runs)
    return str(total) if method.n == total else f"{method.n} of {total}"


def _mean(spread: Spread | None) -> str:
    if spread is None:
        return MISSING
    return f"{spread.mean:.2f}" + ("" if spread.sd is None else f" ± {spread.sd:.2f}")


def _unfinished(method: Method) -> str:
    return ", ".join(f"seed {run.seed} {run.state}" for run in method.runs if run.state != "finished")


def _signed(value: float | None) -> str:
    return MISSING if value is None else f"{value:+.2f}"


def _p(value: float | None) -> str:
    return MISSING if value is None else "< 0.001" if value < 0.001 else f"{value:.3f}"
