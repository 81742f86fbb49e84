"""Runs as text or JSON: all of a directory, one in detail, several side by side, methods over seeds, sweeps."""

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from msgspec.structs import asdict

from contrastcli.boundary import to_copy
from contrastcli.errors import ContrastError, error_text
from contrastcli.evaluation.suites import headlines, summary
from contrastcli.files import read_json
from contrastcli.runs import sweeps
from contrastcli.runs.directory import Run
from contrastcli.runs.events import Verdict
from contrastcli.runs.measured import Angles
from contrastcli.runs.results import Bootstrap, Check, Comparison, Method, ScoreName, SweepScores, Welch
from contrastcli.runs.status import Environment
from contrastcli.runs.text import MISSING, Numeral, duration, excerpt, fixed, score
from contrastcli.runs.verdict import against
from contrastcli.settings.metrics import METRICS, dev_name, metric_title
from contrastcli.show.format import TABLES, Fields, Grid, as_json, cell, points_aligned, size, table
from contrastcli.show.settings import value_text

_LONGEST_NOTE = 40


def run_list(runs: Sequence[Run], directory: Path, to_json: bool) -> str:
    """Runs, the newest first, and at the end folders that are closed to this user, as those of another may be."""
    records: list[dict[str, object]] = []
    rows = []
    # No command chooses these.
    closed = [Run(path) for path in directory.glob("[!.]*") if path.is_dir() and not os.access(path, os.X_OK)]
    for run in (*runs, *closed):
        try:
            status = run.status()
            record, ago = asdict(status), f"{duration(max(0.0, time.time() - status.updated))} ago"
            row = [status.state, f"{status.step:,}/{status.steps:,}", status.best_text, ago]
        except (ContrastError, OSError) as error:
            record, row = {"state": "broken", "error": error_text(error)}, ["broken", "", "", ""]
        records.append({"name": run.name, "path": str(run.path), "note": run.note(), **record})
        rows.append((run.name, *row, size(run.size_bytes()), excerpt(run.note(), _LONGEST_NOTE)))
    if to_json:
        return as_json(records)
    if not rows:
        return f"no runs in {directory}; " + to_copy("make one: contrast train --preset starter --no-ui")
    header = ("run", "state", "step", "best dev", "updated", "size", "note" if any(row[-1] for row in rows) else "")
    return table(header, rows)


def run_details(run: Run, to_json: bool) -> str:
    """One run: status, checkpoints, scores and settings."""
    if to_json:
        details = {"name": run.name, "path": str(run.path), **asdict(run.status())}
        details |= {"note": run.note(), "checkpoints": _checkpoint_paths(run), "settings": run.config().shown()}
        environment = read_json(run.environment_path, dict[str, Any])
        return as_json(details | {"scores": run.scores(), "environment": environment})
    facts, settings = run_facts(run)
    return f"{table(('', ''), facts)}\n\n{table(('setting', 'value'), settings)}"


def run_facts(run: Run) -> tuple[Fields, Fields]:
    """What is known of a run, and its settings."""
    status, config = run.status(), run.config()
    dev = metric_title(status.metric, dev_name(config.flat()))
    best = f"{dev} {score(status.best)} at step {status.best_step:,}" if status.best_step is not None else None
    measured = headlines(run.scores())
    facts: list[tuple[str, object]] = [
        ("run", str(run.path)),
        ("state", status.state + (f": {status.message}" if status.message else "")),
        *([("log", str(run.log_path))] if status.state == "killed" and run.log_path.is_file() else []),
        ("step", f"{status.step:,} of {status.steps:,}" if status.steps else None),
        ("note", run.note() or None),
        ("loss", fixed(status.loss, 4)),
        ("best dev", best),
        *((f"at {dim} numbers", score(value)) for dim, value in status.shorter.items()),
        *(("verdict", event.details(status.steps)) for event in islice(run.latest(Verdict), 1)),
        *((name, fixed(measured[name], 2)) for name in summary(measured)),
        *((f"{which} checkpoint", path) for which, path in _checkpoint_paths(run).items()),
        ("size", size(run.size_bytes())),
        *_made_with(run),
        *(("note", note) for note in config.notes),
    ]
    settings = [(key, value_text(value)) for key, value in config.shown().items()]
    return [(name, cell(fact)) for name, fact in facts], settings


def _checkpoint_paths(run: Run) -> dict[str, str]:
    return {which: str(run.checkpoints_dir / name) for which, name in run.checkpoints().items()}


def _made_with(run: Run) -> Iterator[tuple[str, str]]:
    """The machine that trained a run, and the versions there, where they were recorded."""
    one = Environment.read(run.environment_path)
    if one.contrast:
        commit = f" at {one.commit[:7]}" if one.commit else ""
        yield "machine", f"{one.host}, {one.device_name or one.device} in {one.precision}"
        yield "versions", f"contrast {one.contrast}{commit}, torch {one.packages.get('torch', '')}"


def checks(made: Sequence[Check]) -> str:
    """What was checked of a run, a line each."""
    return table(("", "", ""), [("✓ ok" if one.ok else "✗ fault", one.what, one.text) for one in made])


def run_comparison(compared: Comparison, form: str = "text") -> str:
    """Runs side by side, or methods if some runs differ only in their seed; then the tests, in a format of TABLES."""
    write = TABLES[form]
    names, tested = _score_names(compared.groups), compared.bootstrap or ()
    blocks = [write(*(by_method(compared) or side_by_side(compared)))]
    welch = [(name, test) for name, tests in compared.welch.items() for test in tests if name in names]
    if welch:
        blocks.append(write(*_welch_grid(welch)))
    if tested and form == "text":
        blocks.append("\n".join(map(bootstrap, tested)))
    elif tested:
        blocks.append(write(*_bootstrap_grid(tested)))
    return "\n\n".join(blocks)


def _welch_grid(welch: Sequence[tuple[ScoreName, Welch]]) -> Grid:
    """The tests; of a single pair of methods it is clear which they are, and there is nothing to correct."""
    several = len({test.methods for _, test in welch}) > 1
    named, corrected = (["first", "second"], ["Holm's p"]) if several else ([], [])
    header = ["Welch's t-test", *named, "second − first", "95 %", "t", "df", "p", *corrected]
    rows = []
    for name, t in welch:
        numbers = [*_difference(t), fixed(t.t, 2), fixed(t.df, 1), _p(t.p)]
        rows.append([_title(name), *(t.methods if several else ()), *numbers, *([_p(t.holm)] if several else [])])
    return header, rows


def _bootstrap_grid(tested: Sequence[Bootstrap]) -> Grid:
    metric, data = METRICS[tested[0].metric], tested[0].data
    header = [f"paired bootstrap, {data}", metric.counted, metric.title, "second − first", "95 %", "p", "Holm's p"]
    rows = []
    for b in tested:
        scores = " and ".join(fixed(value, 2) for value in b.scores)
        rows.append([" against ".join(b.runs), b.pairs, scores, *_difference(b), _p(b.p), _p(b.holm)])
    return header, rows


def _difference(test: Welch | Bootstrap) -> tuple[Numeral, str]:
    difference, low, high = (MISSING if x is None else f"{x:+z.2f}" for x in (test.difference, test.low, test.high))
    return Numeral(difference), f"{low} … {high}"


def bootstrap(b: Bootstrap) -> str:
    """The test of two models, in a line."""
    first, second = b.runs
    holm = "" if b.holm == b.p else f", Holm's p {_p(b.holm)}"
    test = f"paired bootstrap over {b.pairs:,} {METRICS[b.metric].counted} of {b.data}, p {_p(b.p)}{holm}"
    return f"{second} is {against(b.judgement, first)}: {b.change}; {test}"


def by_method(compared: Comparison) -> Grid | None:
    """Mean ± standard deviation over seeds, a column for each method; None where each has one run only."""
    methods = compared.groups
    if all(len(method.runs) == 1 for method in methods):
        return None
    keys, names = methods[0].settings, _score_names(methods)
    titles = [*keys, "seeds finished", *map(_title, names)]
    rows = zip(titles, *(points_aligned(_cells(method, keys, names)) for method in methods), strict=True)
    return ("", *(method.name for method in methods)), list(rows)


def side_by_side(compared: Comparison) -> Grid:
    """The settings that differ, and the results, a column for each run."""
    results = compared.results
    angles = [r.angles or {} for r in results]
    scores = [headlines(r.scores, [other.scores for other in results]) for r in results]
    measured = dict.fromkeys(name for one in scores for name in one)
    tests = compared.bootstrap or ()
    tested = {name: value for test in tests for name, value in zip(test.runs, test.scores, strict=True)}
    title = f"{METRICS[tests[0].metric].title}, {tests[0].data}" if tests else ""
    rows: list[tuple[object, ...]] = [
        *((key, *map(value_text, column)) for key, column in compared.settings.items()),
        ("state", *(r.state if r.is_run else None for r in results)),
        ("step", *(r.step if r.is_run else None for r in results)),
        ("best dev", *(r.best_text for r in results)),
        ("last dev", *(score(r.dev) for r in results)),
        ("alignment", *(fixed(r.alignment, 2) for r in results)),
        ("uniformity", *(fixed(r.uniformity, 2) for r in results)),
        *((f"{name} angle", *(fixed(one.get(name), 2) for one in angles)) for name in Angles.titles),
        *((name, *(fixed(one.get(name), 2) for one in scores)) for name in measured),
        (title, *(fixed(tested.get(r.name), 2) for r in results)),
        ("training minutes", *(fixed(r.minutes, 1) for r in results)),
        ("published minutes", *(fixed(r.published_minutes, 0) for r in results)),
    ]
    names, *columns = zip(*(row for row in rows if any(cell not in (None, MISSING) for cell in row[1:])), strict=True)
    return ("", *(r.name for r in results)), list(zip(names, *map(points_aligned, columns), strict=True))


def sweep_scores(scores: SweepScores) -> str:
    """A row for each point of the grid: mean ± standard deviation over the finished seeds, and the other seeds."""
    names = _score_names(scores.cells)
    varied = [key for key, values in scores.grid.items() if len(values) > 1]
    rows = []
    for method in scores.cells:
        unfinished = ", ".join(f"seed {run.seed} {run.state}" for run in method.runs if run.state != "finished")
        rows.append([*_cells(method, varied, names), unfinished])
    return table((*map(sweeps.short, varied), "seeds", *map(_title, names), ""), rows)


def sweep_cells(scores: SweepScores, to_json: bool) -> str:
    """The cells of a sweep: the name of each run, and its state."""
    named = [(run.name, run.state) for method in scores.cells for run in method.runs]
    if to_json:
        return as_json([{"name": name, "state": state} for name, state in named])
    return table(("cell", "state"), named)


def _score_names(methods: Sequence[Method]) -> list[ScoreName]:
    """The scores that a table shows: that of the dev set, and of each suite its averages, or its tasks without any."""
    return summary(dict.fromkeys(name for method in methods for name in method.scores))


def _title(name: ScoreName) -> str:
    return f"best {name}" if name.suite == "dev" else name


def _cells(method: Method, keys: Iterable[str], names: Sequence[ScoreName]) -> list[str]:
    """The values of some settings, the number of seeds, and the mean ± standard deviation of some scores."""
    total = len({run.seed for run in method.runs})
    seeds = Numeral(total if method.n == total else f"{method.n} of {total}")
    scores = (Numeral(method.scores.get(name, MISSING)) for name in names)
    return [*(value_text(method.settings[key]) for key in keys), seeds, *scores]


def _p(value: float | None) -> str:
    return MISSING if value is None else "< 0.001" if value < 0.001 else fixed(value, 3)
