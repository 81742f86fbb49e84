"""`contrast encode`: the sentences of a file to vectors on disk."""

import re
import shlex
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

from contrastcli.boundary import narrate, narrate_all
from contrastcli.data.examples import Examples
from contrastcli.data.formats import read_stream
from contrastcli.data.sources import load_sentences, sentences_of
from contrastcli.data.texts import Texts
from contrastcli.data.tokens import Advance
from contrastcli.data.writing import check_unread
from contrastcli.errors import UsageError, Use
from contrastcli.files import cache_key, check_output, replaced, resumed, writing_to
from contrastcli.model.devices import is_int8_slower_than_bf16, limit_prepared_products
from contrastcli.model.encoder import SentenceEncoder
from contrastcli.model.folder import load_model
from contrastcli.model.locate import resolve
from contrastcli.model.metrics import cosine
from contrastcli.model.prompts import prompted_kinds
from contrastcli.model.vectors import HEADERS, Stored, dequantise, fingerprint, quantise, write_parquet
from contrastcli.settings.sections import Blank, Dtype, Kind, Precision
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
    dtype: Dtype,
    shard: str,
    dim: int | None,
    normalize: bool,
    columns: str,
    blank: Blank,
) -> None:
    """Write the vectors of the sentences of a file, or of stdin for `-`, one a line.

    Raises UsageError, DataError and RunError.
    """
    check_output(output, "vectors", (*HEADERS, ".parquet"))
    check_unread(output, source)
    number, parts = _parse_shard(shard)
    ref = resolve(model, runs_dir)
    if source == "-":
        lines = read_stream(sys.stdin.buffer, ".txt", "stdin", memory=STDIN_BYTES)
        rows = sentences_of(lines, "stdin", columns, blank)
    else:
        rows = load_sentences(source, columns, blank)
    texts = rows.views["anchor"]
    # Hardly any chunk of texts has the shapes of another.
    limit_prepared_products(16)
    encoder = load_model(ref, precision=precision, dim=dim, normalize=normalize)
    narrate_all([*rows.notes, *_remarks(output, number, parts, encoder, kind)])
    part = range(len(texts) * (number - 1) // parts, len(texts) * number // parts)
    with console.progress() as advance:
        _write(output, encoder, rows, part, kind, dtype, partial(advance, "encoding"))
    if encoder.full:
        narrate(f"texts that fill the model's {encoder.max_length:,} tokens, or are cut there: {encoder.full:,}")
    if precision == "int8" and is_int8_slower_than_bf16():
        narrate("--precision bf16 is faster on this CPU, and nearer to fp32")
    if part and (precision == "int8" or dtype != "float32"):
        narrate(compare_to_fp32(encoder, texts, part, kind, dtype))
    where = f"rows {part.start + 1:,} to {part.stop:,}" if part else "none"
    narrate(f"wrote {output}: {len(part):,} vectors of {encoder.width}{f', {where} of {len(texts):,}' * (parts > 1)}")


def _remarks(output: Path, number: int, parts: int, encoder: SentenceEncoder, kind: Kind | None) -> Iterator[str]:
    """Notes on a file that is replaced, prompts that are not read, and a kind that changes nothing."""
    if output.exists():
        own = shlex.quote(str(output.with_stem(f"{output.stem}-{number}")))
        alone = f"will hold part {number}/{parts} alone; a file for each part: -o {own}"
        yield f"{output} {alone}" if parts > 1 else f"{output} is there, and will be replaced"
    if kind and not any(encoder.contract.prompts.values()):
        yield f"{encoder.name} has no prompts, and --as {kind} changes nothing"
    if kind is None and (kinds := prompted_kinds(encoder.contract.prompt)):
        yield f"{encoder.name} has prompts for {kinds}, and none is read: a corpus is --as document"


def _parse_shard(shard: str) -> tuple[int, int]:
    """The K and N of K/N. Raises UsageError."""
    match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", shard)
    number, parts = map(int, match.groups()) if match else (0, 0)
    if not 1 <= number <= parts:
        first = Use("--shard", f"1/{parts or 8}", "the first part is")
        raise UsageError(f"--shard is '{shard}', none of N parts", first)
    return number, parts


def _write(
    output: Path,
    encoder: SentenceEncoder,
    sentences: Examples,
    rows: range,
    kind: Kind | None,
    dtype: Dtype,
    on_progress: Advance,
) -> None:
    """Write the vectors of some rows of the sentences in the format of the output's suffix.

    A .parquet has a column of the ids, where there are some. The file appears when it is complete. What a process that
    was killed wrote of the same vectors is kept, but in a .parquet. Raises RunError if it cannot be written.
    """
    texts, elsewhere = sentences.views["anchor"], Use("-o", "FILE", "write elsewhere:")
    like = quantise(np.zeros((1, encoder.width), np.float32), dtype)

    def blocks(rows: range) -> Iterable[Stored]:
        return map(partial(quantise, dtype=dtype), encoder.blocks(texts, kind, on_progress, rows))

    if output.suffix not in HEADERS:
        with writing_to(output, elsewhere), replaced(output) as path:
            write_parquet(path, blocks(rows), like, texts, sentences.ids, rows.start)
        return
    key = cache_key(repr((fingerprint(encoder), encoder.contract.prompt(kind), dtype, rows)), texts)
    with resumed(output, key, HEADERS[output.suffix](like, len(rows)), elsewhere) as draft:
        if draft.is_lost:
            narrate(f"note: what was begun of {output} is damaged, or of other texts, options or another model")
        if done := draft.kept // like.nbytes:
            narrate(f"note: {done:,} of the {len(rows):,} vectors are there already")
        for block in blocks(rows[done:]):
            draft.append(block.data)


def compare_to_fp32(encoder: SentenceEncoder, texts: Texts, rows: range, kind: Kind | None, dtype: Dtype) -> str:
    """The cosines of the encoder's embeddings, as they are written, to those of fp32, for a sample of some rows."""
    sample = texts[rows.start : rows.stop : -(-len(rows) // _SAMPLE_TEXTS)]
    precision, vectors = encoder.precision, dequantise(quantise(encoder.encode(sample, kind), dtype), encoder.width)
    encoder.precision = "fp32"
    cosines = cosine(vectors, encoder.encode(sample, kind))  # (n,)
    encoder.precision = precision
    what = precision if dtype == "float32" else dtype if precision == "fp32" else f"{precision} as {dtype}"
    where = f"of {len(sample):,} texts"
    return f"cosine of {what} to fp32, {where}: {cosines.mean():.4f} at the mean, {cosines.min():.4f} at the least"
