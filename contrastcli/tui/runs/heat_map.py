"""A sweep as a table: two of its settings, and in each cell the mean dev score over seeds."""

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence, Set

from rich.cells import cell_len
from textual.content import Content

from contrastcli.runs.methods import Member
from contrastcli.runs.results import Method
from contrastcli.runs.sweeps import Sweep, short
from contrastcli.runs.text import shortened
from contrastcli.settings.metrics import dev_name, metric_title
from contrastcli.settings.setting import Value, spell
from contrastcli.tui.widgets import styled

MARK = "▸"
_MUTED = "$foreground-muted"
_STRONGEST = 70
"""Per cent of the accent behind the best score; the others have a part of it, by their rank."""
_VALUE_WIDTH = 14


def heat_map(sweep: Sweep, members: Mapping[str, Member], here: Set[str]) -> tuple[str, Content]:
    """The title and the table of a sweep's scores, from the runs that there are; the cell of the runs `here` is marked.

    The axes are the first two settings that vary, the one with more values downwards; the others are held at their
    values in that cell, or else in the best one.
    """
    cells = sweep.scores(members).cells
    ranked = sorted((cell for cell in cells if cell.scores), key=_mean)
    marked = [cell for cell in cells if not here.isdisjoint(run.name for run in cell.runs)]
    centre = [*marked, *ranked[-1:], *cells][0]
    varied = [key for key, values in sweep.grid.items() if len(values) > 1]
    across, down = sorted([*varied, "", ""][:2], key=lambda key: len(sweep.grid[key]) if key else math.inf)
    rows, columns = (sweep.grid.get(key, (None,)) for key in (down, across))
    means = [_mean(cell) for cell in ranked]
    drawn = {
        (cell.settings.get(down), cell.settings.get(across)): _draw(cell, means, cell in marked)
        for cell in cells
        if all(cell.settings[key] == centre.settings[key] for key in varied[2:])
    }
    corner = " ╲ ".join(short(key) for key in (down, across) if key)
    grid = [[(corner, _MUTED), *((f"{_label(one)} ", _MUTED) for one in columns)]]
    grid += [[(_label(row), _MUTED), *(drawn[row, column] for column in columns)] for row in rows]
    metric = next((name.task for cell in (centre, *ranked[-1:]) for name in cell.scores), "")
    held = [f"{short(key)}={_label(centre.settings[key])}" for key in varied[2:]]
    # Of auto a run has what it is for the data.
    own = (members[run.name].settings for cell in (*ranked[-1:], centre) for run in cell.runs if run.name in members)
    title = f"dev {metric_title(metric or 'spearman', dev_name({**sweep.settings, **next(own, {})}))}"
    title += f" over {len(sweep.seeds)} seeds" * (len(sweep.seeds) > 1)
    return ", ".join([title, *held]), _aligned(grid)


def _mean(cell: Method) -> float:
    return next(iter(cell.scores.values())).mean


def _draw(cell: Method, means: Sequence[float], is_marked: bool) -> tuple[str, str]:
    """The text of a cell and its style: the best has a sign; while runs have not finished, those that have count."""
    [score] = [*cell.scores.values(), None][:1]
    mean = " ±".join(f"{number:.1f}" for number in (score.mean, score.sd) if number is not None) if score else ""
    count = f"{cell.n}/{len(cell.runs)}" if cell.n < len(cell.runs) else ""
    rank = bisect_right(means, score.mean) if score else 0
    text = " ".join(filter(None, [MARK * is_marked, mean, count]))
    style = f"$text on $accent {_STRONGEST * rank // len(means)}%" if rank else _MUTED
    return text + ("◆" if rank and rank == len(means) else " "), f"bold {style}" if is_marked else style


def _aligned(grid: Sequence[Sequence[tuple[str, str]]]) -> Content:
    widths = [1 + max(cell_len(text) for text, _ in column) for column in zip(*grid, strict=True)]
    padded = (
        [(" " * (width - cell_len(text)) + text, style) for (text, style), width in zip(row, widths, strict=True)]
        for row in grid
    )
    return Content("\n").join(styled(*row) for row in padded)


def _label(value: Value | None) -> str:
    return "" if value is None else shortened(spell(value), _VALUE_WIDTH)
