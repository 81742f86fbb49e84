"""What a training changed: a score before and after it, with an interval, and what that says."""

from typing import Annotated, Literal

import msgspec

from contrastcli.runs.text import MISSING, score
from contrastcli.settings.metrics import metric_title

Judgement = Literal["better", "not different", "worse"]

Score = Annotated[float, msgspec.Meta(ge=-1, le=1)] | None


def against(judgement: Judgement, other: str) -> str:
    """A judgement in words: `better than` another model."""
    return f"{judgement} {'from' if judgement == 'not different' else 'than'} {other}"


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A score of a model and of another one after it, in −1..1, and the 95 % interval of their difference.

    None where one is undefined.
    """

    metric: str = "spearman"
    before: Score
    after: Score
    low: Annotated[float, msgspec.Meta(ge=-2, le=2)] | None = None
    high: Annotated[float, msgspec.Meta(ge=-2, le=2)] | None = None

    @property
    def judgement(self) -> Judgement:
        """What is certain at 95 %, by the interval as it is shown: what is rounded to nothing is no difference."""
        low, high = (round(end or 0.0, 4) for end in (self.low, self.high))
        return "better" if low > 0 else "worse" if high < 0 else "not different"

    @property
    def scores(self) -> str:
        """As in `nDCG@10 63.10 → 68.40`."""
        return f"{metric_title(self.metric)} {score(self.before)} → {score(self.after)}"

    @property
    def interval(self) -> str:
        """As in `+3.90 … +6.60`."""
        return " … ".join(MISSING if end is None else f"{100 * end:+z.2f}" for end in (self.low, self.high))

    def __str__(self) -> str:
        """As in `nDCG@10 63.10 → 68.40 (+5.30, 95 % +3.90 … +6.60)`."""
        if self.before is None or self.after is None:
            return self.scores
        return f"{self.scores} ({100 * (self.after - self.before):+z.2f}, 95 % {self.interval})"
