"""Several runs as text or JSON: methods over seeds, sweeps, and what speaks for a difference."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from contrastcli.runs import sweeps as grid
from contrastcli.runs.methods import Group, Spread
from contrastcli.runs.results import Compared, Paired
from contrastcli.runs.sweeps import Sweep
from contrastcli.settings.setting import Value
from contrastcli.show import results as render


def comparison(found: Compared, to_json: bool) -> str:
    """Runs side by side, or methods where some differ only in their seed; below, the tests."""
    if to_json:
        return render.as_json(_comparison(found))
    groups = found.comparison.groups
    grouped = any(len(group.members) > 1 for group in groups)
    shown = _methods(groups) if grouped else render.comparison(found.comparison, to_json=False)
    return "\n\n".join([shown, *_tests(found)])


def _comparison(found: Compared) -> dict[str, Any]:
    sides: dict[str, Any] = json.loads(render.comparison(found.comparison, to_json=True))
    sides["groups"] = [_group(group) for group in found.comparison.groups]
    sides["welch"] = {name: _finite(asdict(test)) for name, test in found.welch.items()}
    if found.paired:
        sides["bootstrap"] = _paired(found.paired)
    return sides


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


def _methods(groups: Sequence[Group]) -> str:
    """A column a method, headed by its first run."""
    header = ("", *(group.members[0].name for group in groups))
    rows: list[tuple[object, ...]] = [
        (key, *(_value(group.settings[key]) for group in groups)) for key in groups[0].settings
    ]
    rows.append(("seeds finished", *(_seeds(group) for group in groups)))
    rows += [(_title(name), *(_mean(group.spreads.get(name)) for group in groups)) for name in _columns(groups)]
    return render.table(header, rows)


def _tests(found: Compared) -> list[str]:
    tests = [
        (_title(n), f"{t.difference:+.2f}", f"{t.low:+.2f} … {t.high:+.2f}", _fixed(t.t, 2), _fixed(t.df, 1), _p(t.p))
        for n, t in found.welch.items()
        if n in _columns(found.comparison.groups)
    ]
    blocks = [render.table(("Welch's t-test", "first − second", "95 %", "t", "df", "p"), tests)] if tests else []
    return [*blocks, _sentence(found.paired)] if found.paired else blocks


def _sentence(paired: Paired) -> str:
    one = paired.found
    return (
        f"paired bootstrap over the {one.pairs:,} pairs of {paired.data}: {paired.first} {_fixed(100 * one.first, 2)}, "
        f"{paired.second} {_fixed(100 * one.second, 2)}; difference {100 * one.difference:+.2f}, "
        f"95 % {100 * one.low:+.2f} … {100 * one.high:+.2f}, p {_p(one.p)}"
    )


def sweep(found: Sweep, groups: Sequence[Group], to_json: bool) -> str:
    """A row a point of the grid: mean ± standard deviation over the seeds that finished, and the cells that did not."""
    if to_json:
        kept = {key: list(values) for key, values in found.grid.items()}
        cells = [_group(group) for group in groups]
        return render.as_json({"name": found.name, "grid": kept, "seeds": found.seeds, "cells": cells})
    columns = _columns(groups)
    rows = [
        (
            *(_value(group.settings[key]) for key in found.varied),
            _seeds(group),
            *(_mean(group.spreads.get(name)) for name in columns),
            _unfinished(group),
        )
        for group in groups
    ]
    header = (*map(grid.short, found.varied), "seeds", *map(_title, columns), "")
    return render.table(header, rows)


def cells(groups: Sequence[Group], to_json: bool) -> str:
    """The cells of a sweep, each with the run that it is and how that stands."""
    members = [(member.name, member.state) for group in groups for member in group.members]
    if to_json:
        return render.as_json([{"name": name, "state": state} for name, state in members])
    return render.table(("cell", "state"), members)


def _columns(groups: Sequence[Group]) -> list[str]:
    """What stands in a table: the dev score, of a suite its averages, or its tasks where it has no average."""
    names = dict.fromkeys(name for group in groups for name in group.spreads)
    averaged = {name.split()[0] for name in names if _is_average(name)}
    return [name for name in names if _is_average(name) or name.split()[0] not in averaged]


def _is_average(name: str) -> bool:
    return name.split()[-1].startswith("average")


def _title(name: str) -> str:
    return "best dev" if name == "dev" else name


def _seeds(group: Group) -> str:
    total = len(group.members)
    return str(total) if len(group.counted) == total else f"{len(group.counted)} of {total}"


def _mean(spread: Spread | None) -> str:
    if spread is None:
        return "–"
    return f"{spread.mean:.2f}" + ("" if spread.deviation is None else f" ± {spread.deviation:.2f}")


def _unfinished(group: Group) -> str:
    return ", ".join(f"seed {m.seed} {m.state}" for m in group.members if m.state != "finished")


def _value(value: Value | None) -> str:
    return "–" if value is None else grid.as_text(value)


def _fixed(value: float, digits: int) -> str:
    return f"{value:.{digits}f}" if math.isfinite(value) else "–"


def _p(value: float) -> str:
    if not math.isfinite(value):
        return "–"
    return "< 0.001" if value < 0.001 else f"{value:.3f}"
