"""`contrast encode`: the sentences of a file as vectors on disk."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from contrastcli.data.tokens import OnProgress
from contrastcli.errors import DataError, RunError, UsageError
from contrastcli.files import replaced, writing_to
from contrastcli.model.encoder import Precision, SentenceEncoder
from contrastcli.model.vectors import WRITERS, Writer


def read_sentences(source: str) -> list[str]:
    """The sentences of a file, or of stdin for `-`, one a line. Raises DataError."""
    if source != "-":
        from contrastcli.data.sources import load_sentences

        return load_sentences(source)
    from contrastcli.data.formats import decode

    lines = [line.strip() for _, line in decode(sys.stdin.buffer, "stdin")]
    if not lines:
        raise DataError("stdin is empty", "give one sentence a line")
    if "" in lines:
        raise DataError(f"stdin, line {lines.index('') + 1}: blank", "fill it in or delete the line")
    return lines


def encode_to(
    encoder: SentenceEncoder, texts: Sequence[str], output: Path, precision: Precision, on_progress: OnProgress
) -> None:
    """Write the vectors (N, d), float32, in the texts' order, in the format of the output's suffix.

    The file appears when it is whole. Raises UsageError for an unknown suffix, RunError where it cannot be written.
    """
    write = check_output(output)
    with writing_to(output), replaced(output) as draft:
        write(draft, encoder.blocks(texts, precision=precision, on_progress=on_progress), texts, encoder.width)


def check_output(output: Path) -> Writer:
    """How to write a file of that suffix. Raises UsageError for one that is not known, RunError without its folder."""
    if not output.parent.is_dir():
        raise RunError(f"there is no folder {output.parent}", "make it, or write elsewhere")
    if output.is_dir():
        raise RunError(f"{output} is a folder", "give the name of a file")
    if output.suffix not in WRITERS:
        raise UsageError(f"vectors cannot be written as '{output.name}'", f"use {', '.join(WRITERS)}")
    return WRITERS[output.suffix]
