"""`contrast encode`: the sentences of a file to vectors on disk."""

import os
import shlex
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from contrastcli.boundary import narrate, narrate_all
from contrastcli.data.examples import from_frame
from contrastcli.data.formats import format_of, read_stream
from contrastcli.data.sources import load_sentences
from contrastcli.data.texts import Column
from contrastcli.data.tokens import OnProgress
from contrastcli.errors import DataError, Use
from contrastcli.files import check_output, replaced, writing_to
from contrastcli.model.devices import is_int8_slower_than_bf16
from contrastcli.model.encoder import SentenceEncoder
from contrastcli.model.folder import load_model
from contrastcli.model.locate import resolve
from contrastcli.model.metrics import cosine
from contrastcli.model.vectors import WRITERS
from contrastcli.settings.sections import Blank, Kind, Precision
from contrastcli.show import console

_SAMPLE_TEXTS = 256
"""Texts whose embeddings are compared to those of fp32."""

STDIN_BYTES = 1 << 30
"""Memory for the sentences of stdin, which may have no end."""


def encode_file(
    source: str,
    output: Path,
    model: str | None,
    runs_dir: Path,
    *,
    kind: Kind | None,
    precision: Precision,
    dim: int | None,
    columns: str,
    blank: Blank,
) -> None:
    """Write the vectors of the sentences of a file, or of stdin for `-`, one a line.

    Raises UsageError, DataError and RunError.
    """
    check_output(output, "vectors", WRITERS)
    if " " in source and not format_of(Path(source)) and not os.path.exists(source):
        words = (shlex.quote(source), shlex.quote(str(output)))
        raise DataError(f"there is no file {source}", "echo {} | contrast encode - -o {}".format(*words))
    ref = resolve(model, runs_dir)
    if source == "-":
        lines = read_stream(sys.stdin.buffer, ".txt", "stdin", memory=STDIN_BYTES)
        rows = from_frame(lines, columns, "", "stdin", blank=blank)
    else:
        rows = load_sentences(source, columns, blank)
    texts = rows.views["anchor"]
    narrate_all(rows.notes)
    encoder = load_model(ref, precision=precision, dim=dim)
    with console.progress() as advance:
        encode_to(encoder, texts, output, partial(advance, "encoding"), rows.ids, kind)
    if encoder.full:
        limit = f"the model's {encoder.max_length:,} tokens"
        narrate(f"{encoder.full:,} of {len(texts):,} texts fill {limit}, or are cut there")
    if precision == "int8":
        if is_int8_slower_than_bf16():
            narrate("--precision bf16 is faster on this CPU, and nearer to fp32")
        narrate(compare_to_fp32(encoder, texts))
    narrate(f"wrote {output}: {len(texts):,} vectors of {encoder.width}")


def encode_to(
    encoder: SentenceEncoder,
    texts: Sequence[str],
    output: Path,
    on_progress: OnProgress,
    ids: Column[object] | None = None,
    kind: Kind | None = None,
) -> None:
    """Write the vectors (N, d), float32, in the order of the texts, in the format of the output's suffix.

    A .parquet has a column of the ids, where there are some.
    The file appears when it is complete. Raises RunError if it cannot be written.
    """
    with writing_to(output, Use("-o", "FILE", "write elsewhere:")), replaced(output) as draft:
        blocks = encoder.blocks(texts, kind, on_progress=on_progress)
        WRITERS[output.suffix](draft, blocks, texts, encoder.width, ids)


def compare_to_fp32(encoder: SentenceEncoder, texts: Sequence[str]) -> str:
    """The cosines of the encoder's embeddings to those of fp32, for a sample of texts."""
    sample = texts[:: -(-len(texts) // _SAMPLE_TEXTS)]
    precision, vectors = encoder.precision, encoder.encode(sample)
    encoder.precision = "fp32"
    cosines = cosine(vectors, encoder.encode(sample))  # (n,)
    encoder.precision = precision
    where = f"of {len(sample):,} texts"
    return f"cosine of {precision} to fp32, {where}: {cosines.mean():.4f} at the mean, {cosines.min():.4f} at the least"
