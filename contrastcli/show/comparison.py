"""Several runs as text or JSON: runs side by side, methods over seeds, sweeps, and tests of a difference."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import msgspec

from contrastcli.evaluation.suites import headlines, summary
from contrastcli.runs import sweeps
from contrastcli.runs.directory import Comparison
from contrastcli.runs.methods import Group, Spread
from contrastcli.runs.results import Compared, Paired
from contrastcli.runs.sweeps import Sweep
from contrastcli.runs.text import MISSING, fixed, score
from contrastcli.show.format import as_json, table
from contrastcli.show.settings import value_text


def comparison(compared: Compared, to_json: bool) -> str:
    """Runs side by side, or methods if some runs differ only in their seed; then the tests."""
    if to_json:
        return as_json(_json(compared))
    groups = compared.comparison.groups
    grouped = any(len(group.members) > 1 for group in groups)
    results = _methods(groups) if grouped else side_by_side(compared.comparison)
    return "\n\n".join([results, *_tests(compared)])


def _json(compared: Compared) -> dict[str, Any]:
    groups = [_group(group) for group in compared.comparison.groups]
    welch = {name: _finite(asdict(test)) for name, test in compared.welch.items()}
    paired = {"bootstrap": _paired(compared.paired)} if compared.paired else {}
    return {**_runs(compared.comparison), "groups": groups, "welch": welch, **paired}


def _runs(comparison: Comparison) -> dict[str, Any]:
    results = [
        {
            "name": r.name,
            **msgspec.structs.asdict(r.status),
            "dev": r.dev.spearman if r.dev else None,
            "alignment": r.dev.alignment if r.dev else None,
            "uniformity": r.dev.uniformity if r.dev else None,
            "angles": {n: getattr(r.angles, n) for n in ("positive", "negative", "hardest")} if r.angles else None,
            "scores": r.scores,
        }
        for r in comparison.results
    ]
    return {"settings": comparison.settings, "results": results}


def _paired(paired: Paired) -> dict[str, Any]:
    """A bootstrap as JSON; correlations × 100."""
    one = paired.found
    values = {"difference": one.difference, "low": one.low, "high": one.high}
    return {
        "runs": [paired.first, paired.second],
        "data": paired.data,
        "pairs": one.pairs,
        "spearman": [_number(100 * one.first), _number(100 * one.second)],
        **_finite({name: 100 * value for name, value in values.items()}),
        "p": _number(one.p),
    }


def _group(group: Group) -> dict[str, Any]:
    """A method as JSON; scores × 100."""
    return {
        "settings": dict(group.settings),
        "runs": [{"name": m.name, "seed": m.seed, "state": m.state} for m in group.members],
        "n": len(group.counted),
        "scores": {name: _spread(spread) for name, spread in group.spreads.items()},
    }


def _spread(spread: Spread) -> dict[str, Any]:
    return {"mean": spread.mean, "sd": spread.deviation, "n": spread.n, "values": spread.values}


def _finite(values: Mapping[str, float]) -> dict[str, float | None]:
    return {name: _number(value) for name, value in values.items()}


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def side_by_side(comparison: Comparison) -> str:
    """The settings that differ, and the results, one column a run."""
    results = comparison.results
    dev, angles, scores = [r.dev for r in results], [r.angles for r in results], [headlines(r.scores) for r in results]
    measured = dict.fromkeys(name for one in scores for name in one)
    rows: list[tuple[object, ...]] = [
        *((key, *map(value_text, column)) for key, column in comparison.settings.items()),
        ("state", *(r.status.state for r in results)),
        ("step", *(r.status.step for r in results)),
        ("best dev", *(score(r.status.best) for r in results)),
        ("last dev", *(score(one.spearman) if one else None for one in dev)),
        ("alignment", *(fixed(one.alignment, 2) if one else None for one in dev)),
        ("uniformity", *(fixed(one.uniformity, 2) if one else None for one in dev)),
        ("positive angle", *(fixed(one.positive, 2) if one else None for one in angles)),
        ("negative angle", *(fixed(one.negative, 2) if one else None for one in angles)),
        ("hardest angle", *(fixed(one.hardest, 2) if one else None for one in angles)),
        *((name, *(fixed(one.get(name), 2) for one in scores)) for name in measured),
    ]
    return table(("", *(r.name for r in results)), rows)


def _methods(groups: Sequence[Group]) -> str:
    """A column a method, headed by its first run."""
    header = ("", *(group.members[0].name for group in groups))
    rows: list[tuple[object, ...]] = [
        (key, *(value_text(group.settings[key]) for group in groups)) for key in groups[0].settings
    ]
    rows.append(("seeds finished", *(_seeds(group) for group in groups)))
    rows += [(_title(name), *(_mean(group.spreads.get(name)) for group in groups)) for name in _columns(groups)]
    return table(header, rows)


def _tests(compared: Compared) -> list[str]:
    tests = [
        (_title(n), f"{t.difference:+.2f}", f"{t.low:+.2f} … {t.high:+.2f}", fixed(t.t, 2), fixed(t.df, 1), _p(t.p))
        for n, t in compared.welch.items()
        if n in _columns(compared.comparison.groups)
    ]
    blocks = [table(("Welch's t-test", "first − second", "95 %", "t", "df", "p"), tests)] if tests else []
    return [*blocks, _sentence(compared.paired)] if compared.paired else blocks


def _sentence(paired: Paired) -> str:
    one = paired.found
    return (
        f"paired bootstrap over the {one.pairs:,} pairs of {paired.data}: {paired.first} {fixed(100 * one.first, 2)}, "
        f"{paired.second} {fixed(100 * one.second, 2)}; difference {100 * one.difference:+.2f}, "
        f"95 % {100 * one.low:+.2f} … {100 * one.high:+.2f}, p {_p(one.p)}"
    )


def sweep(sweep: Sweep, groups: Sequence[Group], to_json: bool) -> str:
    """A row a point of the grid: mean ± standard deviation over the finished seeds, and the other seeds."""
    if to_json:
        cells = [_group(group) for group in groups]
        return as_json({"name": sweep.name, "grid": sweep.grid, "seeds": sweep.seeds, "cells": cells})
    columns = _columns(groups)
    rows = [
        (
            *(value_text(group.settings[key]) for key in sweep.varied),
            _seeds(group),
            *(_mean(group.spreads.get(name)) for name in columns),
            _unfinished(group),
        )
        for group in groups
    ]
    header = (*map(sweeps.short, sweep.varied), "seeds", *map(_title, columns), "")
    return table(header, rows)


def cells(groups: Sequence[Group], to_json: bool) -> str:
    """The cells of a sweep: the name of each run, and its state."""
    members = [(member.name, member.state) for group in groups for member in group.members]
    if to_json:
        return as_json([{"name": name, "state": state} for name, state in members])
    return table(("cell", "state"), members)


def _columns(groups: Sequence[Group]) -> list[str]:
    """The numbers that a table shows: the dev score, and of each suite its averages, or its tasks without any."""
    return summary(dict.fromkeys(name for group in groups for name in group.spreads))


def _title(name: str) -> str:
    return "best dev" if name == "dev" else name


def _seeds(group: Group) -> str:
    total = len(group.members)
    return str(total) if len(group.counted) == total else f"{len(group.counted)} of {total}"


def _mean(spread: Spread | None) -> str:
    if spread is None:
        return MISSING
    return f"{spread.mean:.2f}" + ("" if spread.deviation is None else f" ± {spread.deviation:.2f}")


def _unfinished(group: Group) -> str:
    return ", ".join(f"seed {m.seed} {m.state}" for m in group.members if m.state != "finished")


def _p(value: float) -> str:
    if not math.isfinite(value):
        return MISSING
    return "< 0.001" if value < 0.001 else f"{value:.3f}"
