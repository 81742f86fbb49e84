"""What the encoder reads in training: the texts of a corpus after their prompts, tokenised once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np

from contrastcli.data.batching import Corpus, Indices
from contrastcli.data.downloads import counted
from contrastcli.data.tokens import Advance, Tokenizer, TokenTable, tokenise
from contrastcli.model.encoder import SentenceEncoder
from contrastcli.runs.results import Lengths

_SAMPLE = 2_000
"""Texts whose lengths are measured before training."""
_MOST_CHARACTERS = 1 << 17


@dataclass(frozen=True)
class Inputs:
    """A row of the `table`, of at most `max_length` tokens, for each text under each of its `prompts`, by view.

    `read` are the rows as text. `rows` has for each view the row of each text, (T + 1,), −1 for none.
    """

    table: TokenTable
    read: "Prompted"
    rows: Mapping[str, Indices]
    prompts: Mapping[str, str]
    max_length: int

    def texts_of(self, rows: Indices) -> Indices:
        """The texts of rows, −1 for none: (N,) → (N,)."""
        return np.where(rows < 0, -1, self.read.texts[rows])

    @classmethod
    def of(
        cls, corpus: Corpus, encoder: SentenceEncoder, prompts: Mapping[str, str], max_length: int, advance: Advance
    ) -> "Inputs":
        read = Prompted.of(corpus, prompts)
        table = tokenise(read.whole, encoder.tokenizer, max_length, advance)
        table = encoder.with_prompts(table, read.prompts, read.which)
        rows = np.full((len(read.prompts), len(corpus.texts) + 1), -1)
        rows[read.which, read.texts] = np.arange(len(read))
        by_view = {view: rows[read.prompts.index(prompt)] for view, prompt in prompts.items()}
        return cls(table, read, by_view, prompts, max_length)


def measure_lengths(texts: Sequence[str], tokenizer: Tokenizer, limit: int) -> Lengths:
    """The tokens of some of the texts and of the one with most characters. Raises DataError."""
    longest = max(enumerate(counted("measuring texts", texts)), key=lambda one: len(one[1]))[0]
    some = [texts[n][:_MOST_CHARACTERS] for n in {*range(0, len(texts), -(-len(texts) // _SAMPLE)), longest}]
    return Lengths.of((len(ids) for ids in tokenizer.encode(some, _MOST_CHARACTERS)), limit)


@dataclass(frozen=True)
class Prompted(Sequence[str]):
    """Texts after prompts, put together when they are read: the numbers of both, (R,), in `texts` and `which`."""

    all_texts: Sequence[str]
    prompts: Sequence[str]
    which: Indices
    texts: Indices

    @classmethod
    def of(cls, corpus: Corpus, prompts: Mapping[str, str]) -> "Prompted":
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
