"""Formats of an export that are written in another way."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from contrastcli.commands.export.formats import FORMATS
from contrastcli.model.encoder import SentenceEncoder
from contrastcli.settings.sections import Format

Write = Callable[[SentenceEncoder, Path], None]


def write_by(monkeypatch: pytest.MonkeyPatch, write: Write, kind: Format = "sentence-transformers") -> None:
    """Have a format written so from now on."""
    monkeypatch.setitem(FORMATS, kind, replace(FORMATS[kind], write=write))
