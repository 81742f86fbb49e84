"""CoSENT, AoE, Pearson's r and SBERT's squared error: scored pairs."""

from typing import Annotated

from contrastcli.settings.losses.infonce import Compared
from contrastcli.settings.objective import ObjectiveSettings, Tau
from contrastcli.settings.setting import about


class Ordered(Compared, frozen=True, kw_only=True):
    """Similarities in the order of scores (CoSENT)."""

    tau: Tau = 0.05


class AoE(Ordered, frozen=True, kw_only=True):
    """CoSENT, InfoNCE of the pairs that score high, and CoSENT of angles in the complex plane."""

    angle_tau: Annotated[float, about("temperature of the angle in the complex plane", gt=0, le=1000)] = 1.0
    order_weight: Annotated[float, about("weight of CoSENT", "w1", ge=0, le=1000)] = 1.0
    contrast_weight: Annotated[float, about("weight of InfoNCE", "w2", ge=0, le=1000)] = 1.0
    angle_weight: Annotated[float, about("weight of the angle's term", "w3", ge=0, le=1000)] = 1.0
    positive_from: Annotated[
        float, about("share of the scores' range from which InfoNCE takes a pair for a positive", gt=0, le=1)
    ] = 0.2


class Regression(ObjectiveSettings, frozen=True, kw_only=True):
    """Cosines that equal the scores (SBERT)."""

    lowest: Annotated[float, about("cosine of the lowest score of the data; that of the highest is 1", ge=-1, le=1)] = (
        0.0
    )
