"""Dev sets while training: the score by the metric that fits, alignment and uniformity, and what has changed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from contrastcli.data.batching import Indices, scaled
from contrastcli.data.dev_data import DevData
from contrastcli.data.examples import ScoredPairs
from contrastcli.data.relevance import Retrieval
from contrastcli.data.tokens import Advance, TokenTable
from contrastcli.evaluation.procedure import finite
from contrastcli.evaluation.significance import RESAMPLES, interval, resampled, values_of
from contrastcli.model.encoder import SentenceEncoder
from contrastcli.model.metrics import Floats, alignment, cosine, ranks, spearman, spread, uniformity
from contrastcli.objectives.rows import ALIKE
from contrastcli.runs.events import Verdict
from contrastcli.runs.measured import SINGULAR, DevPair, Evaluated
from contrastcli.runs.text import LENGTH, excerpt
from contrastcli.runs.verdict import Change
from contrastcli.training.angles import TEXTS

_UNKNOWN = np.full(1 + RESAMPLES, np.nan)


@dataclass
class DevSet:
    """Dev data, tokenised once: `first` and `second` index the table of its distinct texts.

    They are both texts of scored pairs (P,), or queries (Q,) and documents (N,). `general` is measured at the same
    steps, and shows what is forgotten. `scores`, as `resampled` has them, are the `first`, `last` and `best` so far,
    and `most`, which `interval` takes. Where the run changes its backbone's contract, `first` is without the changes.
    """

    data: DevData
    table: TokenTable
    first: Indices
    second: Indices
    general: "DevSet | None" = None
    scores: dict[str, Floats] = field(default_factory=dict)

    @classmethod
    def of(cls, data: DevData, encoder: SentenceEncoder, general: DevData | None = None) -> "DevSet":
        """Tokenise up to the encoder's own limit, as evaluation does."""
        prompts = [encoder.contract.prompt(kind) for kind in data.kinds]
        columns = [[(prompt, text) for text in texts] for prompt, texts in zip(prompts, data.columns, strict=True)]
        numbers = {text: n for n, text in enumerate(dict.fromkeys(chain.from_iterable(columns)))}
        table = TokenTable.of(encoder.tokenizer.encode(["".join(text) for text in numbers], encoder.max_length))
        table = encoder.with_prompts(table, prompts, np.array([prompts.index(prompt) for prompt, _ in numbers]))
        first, second = (np.array([numbers[text] for text in column]) for column in columns)
        return cls(data, table, first, second, cls.of(general, encoder) if general else None)

    def measure_published(self, encoder: SentenceEncoder, on_progress: Advance) -> Evaluated:
        """Measure the backbone under its own contract, and compare with that from now on."""
        own = DevSet.of(self.data, encoder, self.general.data if self.general else None)
        done = 0

        def advance(more: int) -> None:
            nonlocal done
            done += more
            # Its prompts may make other texts than those of the run.
            on_progress(done, len(own))

        evaluated = own.evaluate(encoder, 0, advance)
        for name, one in self._sets.items():
            one.scores["first"] = own._sets[name].scores["first"]
        return evaluated

    @property
    def _sets(self) -> "dict[str, DevSet]":
        """This and the general set, by their names in a checkpoint."""
        return {"own": self} | ({"general": self.general} if self.general else {})

    def __len__(self) -> int:
        """The texts that are encoded."""
        return sum(len(one.table) for one in self._sets.values())

    def evaluate(self, encoder: SentenceEncoder, step: int, on_chunk: Callable[[int], None] | None = None) -> Evaluated:
        """Measure in float32, as `contrast eval` does. `on_chunk` gets the size of each chunk of texts, and may raise.

        Positives of the alignment are relevant documents, or scored pairs above 4/5 of the range. The uniformity is
        that of all texts of scored pairs, and without distractors of queries and what is relevant to them.
        """
        vectors, left, right, values, places = self._measure(encoder, step, on_chunk)
        shorter = {k: self._score(values_of(self.data, left[:, :k], right[:, :k])[0]) for k in encoder.contract.dims}
        first, second, scores = self._pairs()
        texts = np.union1d(self.first[first], self.second[second])
        similar = scores > 0 if isinstance(self.data, Retrieval) else scaled(scores) > ALIKE
        positives = torch.from_numpy(left[first[similar]]), torch.from_numpy(right[second[similar]])
        if self.general:
            self.general._measure(encoder, step, on_chunk)
        rank, mean_norm, singular = spread(vectors)
        return Evaluated(
            step=step,
            metric=self.data.metric,
            score=self._score(values),
            shorter=shorter,
            alignment=finite(round(alignment(*positives), 6)),
            uniformity=finite(round(uniformity(vectors[texts]), 6)),
            pairs=len(self.data),
            worst=self._worst(left, right, places),
            general=self.general.change("last") if self.general else None,
            rank=finite(round(rank, 2)),
            mean_norm=finite(round(mean_norm, 4)),
            singular=[round(share, 4) for share in singular[:SINGULAR]],
            width=vectors.shape[1],
        )

    def _measure(
        self, encoder: SentenceEncoder, step: int, on_chunk: Callable[[int], None] | None
    ) -> tuple[Tensor, Floats, Floats, Floats, Indices | None]:
        """The vectors of all texts (S, d) and of both columns, and `values_of` them, whose score is remembered."""
        vectors = encoder.encode_table(self.table, on_chunk=on_chunk)  # (S, d)
        left, right = vectors.numpy()[self.first], vectors.numpy()[self.second]
        values, places = values_of(self.data, left, right)
        scores = resampled(values, self._gold)
        self.scores |= {"last": scores} if step else {"first": self.scores.get("first", scores), "last": scores}
        if step and "first" in self.scores:
            change = scores - self.scores["first"]
            self.scores["most"] = np.fmax(self.scores.get("most", -np.inf), change[1:] - change[0])
        return vectors, left, right, values, places

    def kept(self) -> dict[str, Floats]:
        """The scores of both sets, by a name for each, as a checkpoint keeps them."""
        return {f"{name} {which}": x for name, one in self._sets.items() for which, x in one.scores.items()}

    def restore(self, kept: Mapping[str, Floats]) -> None:
        """Take over the scores that a checkpoint keeps."""
        for name, one in self._sets.items():
            prefix = f"{name} "
            one.scores = {key.removeprefix(prefix): kept[key] for key in kept if key.startswith(prefix)}

    def keep_best(self) -> None:
        """Remember the last evaluation as that of the best checkpoint."""
        for one in self._sets.values():
            one.scores["best"] = one.scores["last"]

    def change(self, until: str, *, chosen: bool = False) -> Change:
        """How the score has changed since before training, until `best` or `last`; was the checkpoint chosen by it?"""
        first, now = (self.scores.get(which, _UNKNOWN) for which in ("first", until))
        ends = interval(now - first, self.scores.get("most") if chosen else None)
        before, after, low, high = (finite(round(float(x), 6)) for x in (first[0], now[0], *ends))
        return Change(metric=self.data.metric, before=before, after=after, low=low, high=high)

    def keeps_general(self, most: float) -> bool:
        """Whether the general score has fallen by no more than `most`, × 100; 0 allows any."""
        change = self.general.change("last") if self.general and most else None
        if change is None or change.before is None:
            return True
        return change.after is not None and 100 * (change.before - change.after) <= most

    def verdict(self, step: int, best_step: int | None, base: str) -> Verdict | None:
        """What training made of a model, by its best checkpoint, else its last; None if it began without measuring."""
        until = "last" if best_step is None else "best"
        if not {"first", until} <= self.scores.keys():
            return None
        general = self.general.change(until) if self.general else None
        change = self.change(until, chosen=True)
        return Verdict(step=step, base=base, best_step=best_step or step, change=change, general=general)

    @property
    def _gold(self) -> Floats | None:
        return np.asarray(self.data.scores, np.float64) if isinstance(self.data, ScoredPairs) else None

    def _score(self, values: Floats) -> float | None:
        score = values.mean() if self._gold is None else spearman(values, self._gold)
        return finite(round(float(score), 6))

    def _pairs(self) -> tuple[Indices, Indices, Floats]:
        """The scored pairs, or queries and what is relevant to each: places in both columns, and scores (P,)."""
        if isinstance(self.data, ScoredPairs):
            rows = np.arange(len(self.data))
            return rows, rows, np.asarray(self.data.scores, np.float64)
        first, second, grades = self.data.judged[self.data.relevant].T
        return first, second, grades.astype(np.float64)

    def _worst(self, left: Floats, right: Floats, places: Indices | None) -> list[DevPair]:
        """The pairs whose rank by cosine is farthest from that by score; what is relevant should be the first."""
        first, second, scores = self._pairs()
        cosines = cosine(left[first], right[second])
        by_score, by_cosine = ranks(-scores), ranks(-cosines)
        if isinstance(self.data, Retrieval) and places is not None:
            by_score, by_cosine = np.ones(len(scores)), places[self.data.relevant].astype(np.float64)
        rows = np.argsort(-abs(by_score - by_cosine), kind="stable")[:TEXTS]
        texts = self.data.columns
        return [
            DevPair(
                first=excerpt(texts[0][first[row]], LENGTH),
                second=excerpt(texts[1][second[row]], LENGTH),
                score=float(scores[row]),
                cosine=round(float(cosines[row]), 4),
                score_rank=round(by_score[row]),
                cosine_rank=round(by_cosine[row]),
            )
            for row in (rows if np.isfinite(cosines).all() else ())
        ]
