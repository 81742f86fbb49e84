"""What a run would do, as `contrast train --dry-run --json` prints it."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content

from contrastcli.runs.results import Preview
from contrastcli.show.format import size
from contrastcli.tui.plain_text import PlainText


def _facts(preview: Preview) -> list[tuple[str, str]]:
    """What the run would do, each fact with its name."""
    p = preview
    dev = f"{p.dev_pairs:,} scored pairs" if p.dev_pairs else "none: the last checkpoint counts as the best"
    disk = "not known until the backbone is downloaded" if p.disk is None else f"about {size(p.disk)} of checkpoints"
    return [
        ("steps", f"{p.steps:,}, {p.steps_per_epoch:,} per epoch"),
        ("step", f"{p.sentences_per_step:,} sentences, {p.negatives_per_anchor:,} negatives per anchor"),
        ("rows", f"{p.count:,}"),
        ("dev", dev),
        ("disk", disk),
        *(("note", note) for note in p.notes),
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

    def show(self, preview: Preview) -> None:
        """Show what the run would do."""
        self._text.update(_table(_facts(preview)))
        self._text.remove_class("wrong")
        self._rows.update(
            _table([(role, " ".join(text.split())) for row in preview.rows for role, text in row.items()])
        )
        self._rows.display = True


def _table(pairs: Sequence[tuple[str, str]]) -> Content:
    """A line for each pair, the names in a column."""
    width = max((len(name) for name, _ in pairs), default=0) + 2
    return Content("\n").join(Content.assemble((name.ljust(width), "$foreground-muted"), text) for name, text in pairs)
