"""CoSENT, AoE, Pearson's r and SBERT's squared error: scored pairs."""

from typing import Annotated

from contrastcli.settings.losses.infonce import Compared
from contrastcli.settings.objective import ObjectiveSettings, Spec, Tau, all_other_texts, no_negatives
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


_LOSSES = "contrastcli.objectives.scored"

SPECS = (
    Spec("cosent", Ordered, ("scored",), f"{_LOSSES}:cosent", "Su 2022 (CoSENT)", negatives=no_negatives),
    Spec("aoe", AoE, ("scored",), f"{_LOSSES}:aoe", "Li and Li 2024 (AoE, AnglE)", negatives=all_other_texts),
    Spec("pearson", Compared, ("scored",), f"{_LOSSES}:pearson", "Pearson's r", negatives=no_negatives),
    Spec(
        "mse",
        Regression,
        ("scored",),
        f"{_LOSSES}:mse",
        "Reimers and Gurevych 2019 (SBERT), Section 3",
        negatives=no_negatives,
    ),
)
