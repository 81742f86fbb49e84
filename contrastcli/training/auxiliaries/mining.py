"""Hard negatives that training mines again and again, with the encoder as it is then."""

from collections.abc import Callable

import numpy as np
import torch

from contrastcli.data.batching import Corpus, Indices
from contrastcli.model.mining import Pool, Rule, mine, read_ranks
from contrastcli.settings.sections import Data
from contrastcli.training.auxiliaries.auxiliary import Auxiliary, AuxiliaryContext


class MinedNegatives(Auxiliary):
    """The hard negatives of a corpus, (N, n) texts that are replaced in place every few steps."""

    name = "mined"

    def __init__(self, corpus: Corpus, data: Data) -> None:
        """Make room for a negative in rows that have none. Raises UsageError."""
        self.corpus = corpus
        self.every = data.mine_every
        self.first_step = data.mine_every + 1 if "negative" in corpus.views else 1
        others = np.unique(np.concatenate([texts for view, texts in corpus.views.items() if view != "anchor"]))
        self.candidates = others[others >= 0]
        names = [view for view in corpus.views if view.startswith("negative")] or ["negative"]
        none = np.zeros(len(corpus), np.int64)
        self.negatives = np.stack([corpus.views.get(name, none) for name in names], axis=1)
        corpus.views.update(zip(names, self.negatives.T, strict=True))
        ranks = read_ranks(data.mine_ranks, "data.mine_ranks")
        self.rule = Rule(*ranks, data.mine_below or None, count=len(names))
        self.state = {self.name: torch.from_numpy(self.negatives)}

    def load(self, context: AuxiliaryContext) -> None:
        """Any text of the corpus may be a negative but those that are anchors only."""
        self.context, inputs = context, context.inputs
        texts, columns = self.corpus.texts, self.corpus.views | {"negative": self.candidates}
        read = (inputs.rows[view][columns[view]] for view in ("anchor", "positive", "negative"))
        self.pool = Pool.of((texts[int(text)] for text in inputs.read.texts), *read)

    def before_step(self, step: int, settle: Callable[[], None]) -> None:
        """Replace the negatives by those that the encoder finds now; the main process finds them for all."""
        if step < self.first_step or (step - 1) % self.every:
            return
        settle()
        session = self.context.session
        mined = session.world.broadcast(self._mine(step - 1) if session.world.is_main else self.negatives)
        changed, missing = np.mean(mined != self.negatives), int((mined[:, 0] < 0).sum())
        self.negatives[:] = mined
        session.note(step - 1, f"hard negatives mined: {changed:.0%} changed, {missing:,} rows have none")

    def _mine(self, step: int) -> Indices:
        """The negatives that the encoder finds now: (N, n) texts, −1 for none."""
        session, inputs = self.context.session, self.context.inputs
        advance = session.progress(step, "encoding", len(inputs.table))
        vectors = self.context.encoder.encode_table(inputs.table, on_chunk=advance).numpy()
        mined, advance = np.zeros_like(self.negatives), session.progress(step, "mining", len(self.negatives))
        for judged in mine(vectors, self.pool, self.rule):
            mined[judged.rows] = inputs.texts_of(judged.negatives(self.rule.count))
            advance(len(judged.rows))
        return mined
