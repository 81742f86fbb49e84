"""What a run would do, as `contrast train --dry-run --json` prints it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content

from contrastcli.show.format import size
from contrastcli.tui.plain_text import PlainText


class Facts(msgspec.Struct, frozen=True):
    """The dry run's answer; `disk` in bytes, None until the backbone is downloaded."""

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
        """The facts, each with its name."""
        dev = f"{self.dev_pairs:,} scored pairs" if self.dev_pairs else "none: the last checkpoint counts as the best"
        disk = (
            "not known until the backbone is downloaded"
            if self.disk is None
            else f"about {size(self.disk)} of checkpoints"
        )
        return [
            ("steps", f"{self.steps:,}, {self.steps_per_epoch:,} per epoch"),
            ("step", f"{self.sentences_per_step:,} sentences, {self.negatives_per_anchor:,} negatives per anchor"),
            ("rows", f"{self.count:,}"),
            ("dev", dev),
            ("disk", disk),
            *(("note", note) for note in self.notes),
        ]


class DryRunPanel(Vertical):
    """What a run would do, or why that is not known."""

    def __init__(self) -> None:
        super().__init__(id="dry-run", classes="panel")
        self.border_title = "Summary"
        self._text, self._rows = PlainText(), PlainText(id="rows")

    def compose(self) -> ComposeResult:
        yield self._text
        yield self._rows

    def show_message(self, text: str, *, wrong: bool = False) -> None:
        """Show this in place of the facts."""
        self._text.update(text)
        self._text.set_class(wrong, "wrong")
        self._rows.display = False

    def show(self, facts: Facts) -> None:
        """Show what the dry run found."""
        self._text.update(_table(facts.lines))
        self._text.remove_class("wrong")
        self._rows.update(_table([(role, " ".join(text.split())) for row in facts.rows for role, text in row.items()]))
        self._rows.display = True


def _table(pairs: Sequence[tuple[str, str]]) -> Content:
    """A line for each pair, the names in a column."""
    width = max((len(name) for name, _ in pairs), default=0) + 2
    return Content("\n").join(Content.assemble((name.ljust(width), "$foreground-muted"), text) for name, text in pairs)
