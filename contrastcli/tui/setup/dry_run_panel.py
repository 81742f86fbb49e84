"""What a run would do: the panel of its dry run."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content

from contrastcli.runs.results import Preview
from contrastcli.show.format import size
from contrastcli.tui.widgets import PlainText


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
        """Show this in place of the summary."""
        self._text.update(text)
        self._text.set_class(wrong, "wrong")
        self._rows.display = False

    def show(self, preview: Preview) -> None:
        """Show what the dry run found: the summary and the first rows of the data."""
        self.show_message("")
        self._text.update(_table(_summary(preview)))
        rows = [(role, " ".join(text.split())) for row in preview.rows for role, text in row.items()]
        self._rows.update(_table(rows))
        self._rows.display = True


def _summary(preview: Preview) -> list[tuple[str, str]]:
    pairs, disk = f"{preview.dev_pairs:,} scored pairs", f"about {size(preview.disk or 0)} of checkpoints"
    return [
        ("steps", f"{preview.steps:,}, {preview.steps_per_epoch:,} per epoch"),
        ("step", f"{preview.sentences_per_step:,} sentences, {preview.negatives_per_anchor:,} negatives per anchor"),
        ("rows", f"{preview.count:,}"),
        ("dev", pairs if preview.dev_pairs else "none: the last checkpoint counts as the best"),
        ("disk", "known once the backbone is downloaded" if preview.disk is None else disk),
        *(("note", note) for note in preview.notes),
    ]


def _table(pairs: Sequence[tuple[str, str]]) -> Content:
    """A line for each pair, the names in a column."""
    width = max((len(name) for name, _ in pairs), default=0) + 2
    return Content("\n").join(Content.assemble((name.ljust(width), "$foreground-muted"), text) for name, text in pairs)
