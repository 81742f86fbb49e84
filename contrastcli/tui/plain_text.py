"""Text as it is, and what screens do with text."""

from __future__ import annotations

from textual.visual import VisualType
from textual.widgets import Static

_BAR = 24  # characters


class PlainText(Static):
    """A text that may hold brackets, since data and paths do."""

    def __init__(self, text: str = "", *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(text, markup=False, id=id, classes=classes)

    def update(self, content: VisualType = "", *, layout: bool = True) -> None:
        """Show another text."""
        if content != self.content:
            super().update(content, layout=layout)


def progress_bar(share: float) -> str:
    """A bar of text."""
    full = round(_BAR * min(max(share, 0.0), 1.0))
    return "━" * full + "╌" * (_BAR - full)


def has_words(text: str, typed: str) -> bool:
    """Whether a text has each of the typed words, in any order and case."""
    return all(word in text.lower() for word in typed.lower().split())
