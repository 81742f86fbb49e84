"""Texts as token ids: the tokenizer of a model folder, a table of the distinct texts, and its cache on disk."""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from contrastcli.errors import DataError
from contrastcli.files import cache_dir, read_json

if TYPE_CHECKING:
    from tokenizers import Tokenizer as FastTokenizer

Ids = NDArray[np.int32]
OnProgress = Callable[[int, int], None]

SHARD = 50_000  # texts tokenised between two reports of progress


class Tokenizer:
    """A model folder's own tokenizer; with `lowercase` it reads texts in lower case, whatever it does itself.

    Raises DataError where the folder has none that can be read.
    """

    def __init__(self, folder: Path, *, lowercase: bool = False) -> None:
        self._files = {path.name: path.read_bytes() for name in _FILES if (path := folder / name).is_file()}
        self._fast = _load(folder)
        if lowercase:
            _lower(self._fast)
            self._files.pop("tokenizer.json", None)  # so that the one that is saved does the same
        self._fast.no_padding()
        self._fast.no_truncation()
        self.fingerprint = hashlib.sha256(self._fast.to_str().encode()).hexdigest()
        named = special_names(folder)
        self.pad_id = self._id(named.get("pad_token"), 0)
        self.mask_id = self._id(named.get("mask_token"), -1)
        self.cls_id = self._id(named.get("cls_token") or named.get("bos_token"), -1)
        self.special_ids = frozenset(
            id_ for word in named.values() if (id_ := self._fast.token_to_id(word)) is not None
        )
        self.vocab_size: int = self._fast.get_vocab_size(with_added_tokens=True)

    def _id(self, word: str | None, absent: int) -> int:
        found = self._fast.token_to_id(word) if word else None
        return absent if found is None else int(found)

    def encode(self, texts: Sequence[str], max_length: int) -> list[list[int]]:
        """Token ids of each text with its special tokens, at most `max_length` of them."""
        self._fast.enable_truncation(max_length)
        return [e.ids for e in self._fast.encode_batch_fast(list(texts))]

    def vocabulary(self) -> list[str]:
        """Every token, by id."""
        return [self._fast.id_to_token(i) or "" for i in range(self.vocab_size)]

    def save(self, folder: Path) -> None:
        """Write the tokenizer's own files as they were read, whatever they are: its folder may be gone by now."""
        for name, data in self._files.items():
            (folder / name).write_bytes(data)
        if "tokenizer.json" not in self._files:
            self._fast.no_truncation()
            self._fast.save(str(folder / "tokenizer.json"))


_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "sentencepiece.bpe.model",
    "spiece.model",
)


def _load(folder: Path) -> FastTokenizer:
    from tokenizers import Tokenizer as FastTokenizer

    path = folder / "tokenizer.json"
    if path.is_file():
        try:
            return FastTokenizer.from_file(str(path))
        except Exception as error:  # the library raises nothing narrower
            raise DataError(f"{path} cannot be read: {error}", "fetch the model folder again") from None
    return _convert(folder)


def _convert(folder: Path) -> FastTokenizer:
    """A folder of the years before tokenizer.json: transformers knows how to convert it."""
    from transformers import AutoTokenizer

    try:
        slow: Any = AutoTokenizer.from_pretrained(str(folder))
        return slow.backend_tokenizer  # type: ignore[no-any-return]
    except Exception as error:  # transformers raises OSError, ValueError, ImportError and others
        reason = str(error).splitlines()[0]
        raise DataError(f"{folder} has no tokenizer that can be read: {reason}", "add its tokenizer.json") from None


def _lower(fast: FastTokenizer) -> None:
    from tokenizers import normalizers

    own = [fast.normalizer] if fast.normalizer is not None else []
    fast.normalizer = normalizers.Sequence([normalizers.Lowercase(), *own])


def special_names(folder: Path) -> dict[str, str]:
    """Names of special tokens by their roles, from whichever of the two files has them. Raises DataError."""
    found: dict[str, str] = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        for role, token in (read_json(folder / name, dict[str, Any]) or {}).items():
            word = token.get("content") if isinstance(token, dict) else token
            if role.endswith("_token") and isinstance(word, str):
                found[role] = word
    return found


@dataclass(frozen=True)
class TokenTable:
    """Token ids of many texts in one flat array: text i is `flat[starts[i]:starts[i + 1]]`."""

    flat: Ids
    starts: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, index: int) -> Ids:
        return self.flat[self.starts[index] : self.starts[index + 1]]

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each text: (N,)."""
        return np.diff(self.starts)

    @classmethod
    def of(cls, rows: Iterable[Sequence[int] | Ids]) -> TokenTable:
        """A table of ids given text by text."""
        arrays = [np.asarray(row, dtype=np.int32) for row in rows]
        starts = np.zeros(len(arrays) + 1, dtype=np.int64)
        np.cumsum([len(a) for a in arrays], out=starts[1:])
        return cls(np.concatenate(arrays) if arrays else np.zeros(0, np.int32), starts)


def tokenise(
    texts: Sequence[str], tokenizer: Tokenizer, max_length: int, on_progress: OnProgress | None = None
) -> TokenTable:
    """All texts as one table, from the cache where the same texts met the same tokenizer and length before."""
    path = cache_dir() / "tokens" / f"{_key(texts, tokenizer, max_length)}.npz"
    table = _stored(path, len(texts))
    if table is None:
        table = _tokenise(texts, tokenizer, max_length, on_progress)
        _store(path, table)
    return table


def _tokenise(
    texts: Sequence[str], tokenizer: Tokenizer, max_length: int, on_progress: OnProgress | None
) -> TokenTable:
    parts: list[TokenTable] = []
    for start in range(0, len(texts), SHARD):
        parts.append(TokenTable.of(tokenizer.encode(texts[start : start + SHARD], max_length)))
        if on_progress:
            on_progress(min(start + SHARD, len(texts)), len(texts))
    lengths = np.concatenate([p.lengths for p in parts]) if parts else np.zeros(0, np.int64)
    flat = np.concatenate([p.flat for p in parts]) if parts else np.zeros(0, np.int32)
    return TokenTable(flat, np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]))


def _key(texts: Sequence[str], tokenizer: Tokenizer, max_length: int) -> str:
    digest = hashlib.sha256(f"2 {tokenizer.fingerprint} {max_length}\n".encode())
    for text in texts:
        data = text.encode()
        digest.update(b"%d " % len(data) + data)  # with its length: a text may hold any character
    return digest.hexdigest()


def _stored(path: Path, count: int) -> TokenTable | None:
    """The table of that many texts in a cache file; None where there is none, or none that is whole."""
    try:
        with open(path, "rb") as file, np.load(file) as stored:
            table = TokenTable(stored["flat"], stored["starts"])
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None
    return table if len(table) == count and table.starts[-1] == len(table.flat) else None


def _store(path: Path, table: TokenTable) -> None:
    """Keep the table for the next run. A cache that cannot be written costs time, not the run."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        try:
            with open(temporary, "wb") as file:
                np.savez(file, flat=table.flat, starts=table.starts)
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError:
        return
