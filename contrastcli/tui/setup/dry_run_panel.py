"""What a run would do, as `contrast train --dry-run --json` tells it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from contrastcli.show.format import size


class Facts(msgspec.Struct, frozen=True):
    """The dry run's answer; `disk` in bytes, None while the backbone is not here."""

    rows: list[dict[str, str]]
    notes: list[str]
    count: int
    steps: int
    steps_per_epoch: int
    sentences_per_step: int
    negatives_per_anchor: int
    dev_pairs: int
    disk: int | None

    @property
    def short(self) -> str:
        """The run in a few words."""
        return f"{self.steps:,} steps of {self.sentences_per_step:,} sentences"

    @property
    def lines(self) -> list[tuple[str, str]]:
        """What it comes to, each with its name."""
        dev = f"{self.dev_pairs:,} scored pairs" if self.dev_pairs else "none: the last checkpoint is the best"
        disk = "known once the backbone is here" if self.disk is None else f"about {size(self.disk)} of checkpoints"
        return [
            ("steps", f"{self.steps:,}, {self.steps_per_epoch:,} an epoch"),
            ("a step", f"{self.sentences_per_step:,} sentences, {self.negatives_per_anchor:,} negatives per anchor"),
            ("rows", f"{self.count:,}"),
            ("dev", dev),
            ("disk", disk),
            *(("note", note) for note in self.notes),
        ]


class FactsView(Vertical):
    """The facts, or in words why there are none."""

    def __init__(self) -> None:
        super().__init__(id="facts", classes="panel")
        self.border_title = "What it comes to"
        self._words = Static(markup=False)
        self._rows = Static(markup=False, id="rows")

    def compose(self) -> ComposeResult:
        yield self._words
        yield self._rows

    def say(self, words: str, *, wrong: bool = False) -> None:
        """Show words in place of facts."""
        self._words.update(words)
        self._words.set_class(wrong, "wrong")
        self._rows.display = False

    def show(self, facts: Facts) -> None:
        """Show what the dry run found."""
        self.say("")
        self._words.update(_table(facts.lines))
        rows = [pair for row in facts.rows for pair in row.items()]
        self._rows.display = True
        self._rows.update(_table([(role, " ".join(text.split())) for role, text in rows]))


def _table(pairs: Sequence[tuple[str, str]]) -> Content:
    """A line for each pair, the names in a column."""
    width = max((len(name) for name, _ in pairs), default=0) + 2
    return Content("\n").join(Content.assemble((name.ljust(width), "$foreground-muted"), text) for name, text in pairs)
