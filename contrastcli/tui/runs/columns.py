"""What the table of runs can show, sort by and filter by: one list of columns, every setting among them."""

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import eq, ge, gt, le, lt, ne
from typing import Any

from contrastcli.runs.results import Spread
from contrastcli.runs.status import IN_PROGRESS
from contrastcli.runs.sweeps import short
from contrastcli.runs.text import MISSING, excerpt, fixed
from contrastcli.settings.metrics import METRICS
from contrastcli.settings.setting import Value, spell
from contrastcli.show.format import size
from contrastcli.tui.run_screen import SHAPES
from contrastcli.tui.runs.listing import Entry
from contrastcli.tui.runs.tree import TreeItem
from contrastcli.tui.widgets import cut, has_words

NEWEST = "newest"  # an order without a column
_COMPARISON = re.compile(r"([\w.-]+)(<=|>=|!=|=|<|>)(.+)")
_COMPARE = {"<=": le, ">=": ge, "!=": ne, "=": eq, "<": lt, ">": gt}
_BEST_WIDTH, _SETTING_WIDTH = 12, 18
_SHORT = {metric.title: metric.column for metric in METRICS.values()}


@dataclass(frozen=True)
class RunColumn:
    """A column: its value of a run, by which it sorts and filters, and how that is written."""

    title: str
    width: int
    value: Callable[[Entry], Value | None]
    write: Callable[[Entry, Any], str] | None = None
    highest_first: bool = False
    right: bool = False

    def rank(self, entry: Entry) -> tuple[bool, bool, Any]:
        """What people look for comes first, and last what has no value."""
        value = self.value(entry)
        if not isinstance(value, (int, float)):
            return value in (None, ""), True, str(value)
        return False, False, -value if self.highest_first else value

    def text(self, entry: Entry) -> str:
        if (value := self.value(entry)) is None:
            return MISSING if self.right else ""
        return self.write(entry, value) if self.write else cut(spell(value), self.width, at_start=True)


def _of(name: str, scale: float = 1.0) -> Callable[[Entry], Value | None]:
    return lambda entry: None if (number := getattr(entry.status, name, None)) is None else scale * number


def _best(entry: Entry, best: float) -> str:
    return _score(best, entry.status.title if entry.status and entry.status.metric != "spearman" else "")


def _score(score: float | Spread, title: str) -> str:
    """A dev score; with its metric, and then with a decimal less, where it has one that the column has room for."""
    text = f"{score:.1f} {_SHORT.get(title, title)}".replace("100.0 ", "100 ")
    return text if title and len(text) <= _BEST_WIDTH else f"{score:.2f}"


def age(seconds: float) -> str:
    """How long ago something was, in its largest unit; days from the second one on."""
    for unit, unit_seconds, least in (("d", 86_400, 2 * 86_400), ("h", 3600, 3600), ("m", 60, 60)):
        if seconds >= least:
            return f"{seconds // unit_seconds:.0f}{unit} ago"
    return f"{max(0.0, seconds):.0f}s ago"


def _step(entry: Entry, step: float) -> str:
    return f"{step:,.0f}/{entry.status.steps:,}" if entry.status and entry.status.steps else ""


def _setting(key: str, title: str, width: int) -> RunColumn:
    return RunColumn(title, width, lambda entry: entry.settings.get(key))


USUAL: tuple[RunColumn, ...] = (
    RunColumn("name", 0, lambda e: e.name),
    RunColumn("state", 10, lambda e: e.state, lambda _, state: f"{SHAPES[state]} {state}"),
    RunColumn("step", 11, _of("step"), _step, highest_first=True, right=True),
    RunColumn("best dev", _BEST_WIDTH, _of("best", 100), _best, highest_first=True, right=True),
    RunColumn("updated", 8, _of("updated"), lambda _, at: age(time.time() - at), highest_first=True, right=True),
    _setting("objective.name", "objective", 11),
    _setting("model.backbone", "backbone", _SETTING_WIDTH),
    RunColumn("size", 8, lambda e: e.size, lambda _, count: size(count), highest_first=True, right=True),
)
"""The columns that are shown unless others are chosen, from the left as many as there is room for."""

_MORE = (
    RunColumn("note", 24, lambda e: e.note, lambda _, note: excerpt(note, 24)),
    RunColumn("loss", 8, _of("loss"), lambda _, loss: fixed(loss, 4), right=True),
    RunColumn("dev metric", 10, lambda e: e.status.title if e.status else ""),
    RunColumn("best step", 9, _of("best_step"), lambda _, step: fixed(step, 0), right=True),
    RunColumn("created", 10, _of("created"), lambda _, at: time.strftime("%Y-%m-%d", time.localtime(at))),
)


def row_text(row: TreeItem, column: RunColumn) -> str:
    """The cell of a run; of a heading its best method's mean, its size, its newest, that one runs, or what all have."""
    if not row.entry and column.title == "best dev":
        return _score(*row.best[:2]) if row.best else ""
    if not row.entry and column.title == "size":
        return size(sum(entry.size for entry in row.entries))
    if column.title == "updated":
        return column.text(min(row.entries, key=column.rank))
    texts = {column.text(entry) for entry in row.entries}
    if column.title == "state":
        texts = {column.text(entry) for entry in row.entries if entry.state in IN_PROGRESS} or texts
    return texts.pop() if len(texts) == 1 else ""


def all_columns(entries: Iterable[Entry]) -> dict[str, RunColumn]:
    """The columns by title: the usual ones, those of status and note, and a column for each setting of these runs."""
    columns = {column.title: column for column in (*USUAL, *_MORE)}
    longest: dict[str, int] = {}
    for key, value in dict.fromkeys(pair for entry in entries for pair in entry.settings.items()):
        longest[key] = max(longest.get(key, 0), len(spell(value)))
    for key, width in longest.items():
        title = key if short(key) in columns else short(key)
        if key not in ("objective.name", "model.backbone"):
            columns[title] = _setting(key, title, min(max(width, len(title)), _SETTING_WIDTH))
    return columns


def ordered(entries: Sequence[Entry], columns: Mapping[str, RunColumn], order: str) -> list[Entry]:
    """Entries, which come the newest first, in another order."""
    return sorted(entries, key=columns[order].rank) if order in columns else list(entries)


def matching(entries: Sequence[Entry], columns: Mapping[str, RunColumn], typed: str) -> list[Entry]:
    """The entries that satisfy all of the typed words.

    `tau=0.05` and `dev>60` compare a column, which part of its title names; any other word is in the name, state,
    objective, backbone or note.
    """
    return [entry for entry in entries if all(_satisfies(entry, word, columns) for word in typed.split())]


def _satisfies(entry: Entry, word: str, columns: Mapping[str, RunColumn]) -> bool:
    compared = _COMPARISON.fullmatch(word)
    column = compared and _named(compared[1].lower().replace("-", "_"), columns)
    if not compared or not column:
        texts = [columns[title] for title in ("name", "state", "objective", "backbone", "note")]
        return has_words(" ".join(str(column.value(entry)) for column in texts), word)
    operator, text, value = _COMPARE[compared[2]], compared[3], column.value(entry)
    if value is None:
        return False
    try:
        return bool(operator(float(value), float(text)))
    except ValueError:
        return bool(operator(spell(value).lower(), text.lower()))


def _named(word: str, columns: Mapping[str, RunColumn]) -> RunColumn | None:
    """The column with this title or of this setting, else the first one with this word in it."""
    word = word if word in columns or word.count(".") != 1 else short(word)
    return columns.get(word) or next((c for title, c in columns.items() if word in re.split(r"[ .]", title)), None)
