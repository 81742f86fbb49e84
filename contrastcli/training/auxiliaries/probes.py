"""Probes: pairs of one's own, whose angles every evaluation measures, also where there is no dev set."""

from collections.abc import Sequence

from contrastcli.model.metrics import degrees
from contrastcli.runs.measured import Probed
from contrastcli.training.auxiliaries.auxiliary import Auxiliary, AuxiliaryContext


class Probes(Auxiliary):
    """Tells the angles of pairs of texts, as `contrast query` measures them."""

    name = "probes"

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        self._pairs = pairs

    def load(self, context: AuxiliaryContext) -> None:
        self._encoder, self._emit = context.encoder, context.session.emit

    def after_evaluation(self, step: int) -> None:
        texts = [text for pair in self._pairs for text in pair]
        vectors = self._encoder.encode_table(self._encoder.tokenise(texts))
        angles = zip(self._pairs, degrees(vectors[::2], vectors[1::2]).tolist(), strict=True)
        self._emit(Probed(step=step, angles={" | ".join(pair): round(angle, 3) for pair, angle in angles}))
