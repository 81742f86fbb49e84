"""PairSupCon, SupCon with its baseline Augment, and SBERT's softmax: labelled pairs."""

from typing import Annotated, Literal

from contrastcli.settings.losses.infonce import Compared, Contrast
from contrastcli.settings.objective import Margin, ObjectiveSettings, Tau
from contrastcli.settings.setting import about

HardNegatives = Literal["importance", "exponent", "uniform"]


class PairSupCon(Contrast, frozen=True, kw_only=True):
    """Instance discrimination with weighted hard negatives, and classification of the pair."""

    beta: Annotated[float, about("weight of instance discrimination", "β", ge=0, le=1000, essential=True)] = 1.0
    hard_negatives: Annotated[
        HardNegatives, about("weight of each negative: the released code's, Eq. 3's as printed, or none", "α")
    ] = "importance"
    classification: Annotated[bool, about("also classify each pair, not only discriminate")] = True

    def inactive(self) -> dict[str, str]:
        off = {} if self.classification else {"beta": "no effect while classification is false"}
        return super().inactive() | off


_Drawn = Annotated[int, about("positives drawn per anchor; 0: all", "N+", ge=0)]
_AgainstDrawn = Annotated[int, about("negatives drawn per anchor; 0: all", "N-", ge=0)]
_PaddedLength = Annotated[
    bool, about("take means over the batch's longest text, as the released code does; for temperatures as printed")
]


class Augment(ObjectiveSettings, frozen=True, kw_only=True):
    """Classification of the pairs that supervised contrastive learning would contrast."""

    positives: _Drawn = 0
    negatives: _AgainstDrawn = 0
    padded_length: _PaddedLength = False


class SupCon(Compared, frozen=True, kw_only=True):
    """Supervised contrastive learning over the hypotheses of a premise, and classification."""

    lambda_: Annotated[
        float, about("weight of the contrastive term against classification", "λ", ge=0, le=1, essential=True)
    ] = 0.3
    tau: Tau = 1.0
    normalize: Annotated[bool, about("compare by a similarity; off: by dot products, as published")] = False
    margin: Margin = 0.0
    positives: _Drawn = 0
    negatives: _AgainstDrawn = 0
    padded_length: _PaddedLength = False

    def inactive(self) -> dict[str, str]:
        if self.normalize:
            return super().inactive()
        return dict.fromkeys(("similarity", "sigma", "margin"), "no effect while normalize is false")
