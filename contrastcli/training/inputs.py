"""What the encoder reads in training: the texts of a corpus after their prompts, tokenised once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np

from contrastcli.data.batching import Corpus, Indices
from contrastcli.data.tokens import OnProgress, Tokenizer, TokenTable, tokenise
from contrastcli.model.encoder import SentenceEncoder
from contrastcli.runs.results import Lengths

_SAMPLE = 2_000
"""Texts whose lengths are measured before training."""
MOST_CHARACTERS = 1 << 17


@dataclass(frozen=True)
class Inputs:
    """A row of the `table` for each text under each of its prompts; `read` are the rows as text.

    `texts` (R,) are the rows' texts of the corpus. `rows` has for each view the row of each text, (T + 1,), or −1. Both
    are empty where every text has one row, of its own number.
    """

    table: TokenTable
    read: Sequence[str]
    texts: Indices
    rows: Mapping[str, Indices]

    def rows_of(self, view: str, texts: Indices) -> Indices:
        """The rows of texts, −1 for none, in a view: (N,) → (N,)."""
        return self.rows[view][texts] if self.rows else texts

    def texts_of(self, rows: Indices) -> Indices:
        """The texts of rows, −1 for none: (N,) → (N,)."""
        return np.where(rows < 0, -1, self.texts[rows]) if self.rows else rows

    @classmethod
    def of(
        cls, corpus: Corpus, encoder: SentenceEncoder, prompts: Mapping[str, str], max_length: int, advance: OnProgress
    ) -> Inputs:
        """The inputs of a corpus, given the prompt of each view."""
        read = Prompted.of(corpus, prompts)
        table = tokenise(read.whole, encoder.tokenizer, max_length, advance)
        table = encoder.with_prompts(table, read.prompts, read.which)
        if len(read.prompts) == 1:
            return cls(table, read, np.zeros(0, np.int64), {})
        rows = np.full((len(read.prompts), len(corpus.texts) + 1), -1)
        rows[read.which, read.texts] = np.arange(len(read))
        return cls(table, read, read.texts, {view: rows[read.prompts.index(p)] for view, p in prompts.items()})


def measure_lengths(texts: Sequence[str], tokenizer: Tokenizer, limit: int) -> Lengths:
    """The tokens of some of the texts and of the one with most characters. Raises DataError."""
    longest = max(range(len(texts)), key=lambda n: len(texts[n]))
    some = [texts[n][:MOST_CHARACTERS] for n in {*range(0, len(texts), -(-len(texts) // _SAMPLE)), longest}]
    return Lengths.of((len(ids) for ids in tokenizer.encode(some, MOST_CHARACTERS)), limit)


@dataclass(frozen=True)
class Prompted(Sequence[str]):
    """Texts after prompts, put together when they are read: the numbers of both, (R,), in `texts` and `which`."""

    all_texts: Sequence[str]
    prompts: Sequence[str]
    which: Indices
    texts: Indices

    @classmethod
    def of(cls, corpus: Corpus, prompts: Mapping[str, str]) -> Prompted:
        """Each text of a corpus under each of its prompts, given the prompt of each view."""
        distinct = list(dict.fromkeys(prompts.values()))
        parts = [np.arange(len(corpus.texts))]
        if len(distinct) > 1:
            # Mining may make every text that is not an anchor alone the negative of any row.
            others = np.concatenate([texts for view, texts in corpus.views.items() if view != "anchor"])
            used = {view: texts if view == "anchor" else others for view, texts in corpus.views.items()}
            parts = [np.unique(np.concatenate([used[v] for v in used if prompts[v] == p])) for p in distinct]
            parts = [part[part >= 0] for part in parts]
        which = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        return cls(corpus.texts, distinct, which, np.concatenate(parts))

    @property
    def whole(self) -> Sequence[str]:
        """These texts; without prompts those of the corpus, which are read faster."""
        return self if any(self.prompts) else self.all_texts

    def __len__(self) -> int:
        return len(self.texts)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        if isinstance(place, slice):
            return [self[n] for n in range(*place.indices(len(self)))]
        return str(self.prompts[self.which[place]] + self.all_texts[int(self.texts[place])])
