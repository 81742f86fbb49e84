"""CoSENT, AoE, Pearson's r and SBERT's squared error: scored pairs."""

from __future__ import annotations

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


SPECS = (
    Spec(
        "cosent",
        Ordered,
        ("scored",),
        "contrastcli.objectives.scored:cosent",
        "Su 2022 (CoSENT)",
        negatives=no_negatives,
        about="Learns from scores: of two pairs of the batch, the one that scores more must be more similar.",
    ),
    Spec(
        "aoe",
        AoE,
        ("scored",),
        "contrastcli.objectives.scored:aoe",
        "Li and Li 2024 (AoE, AnglE)",
        negatives=all_other_texts,
        about="Like cosent; besides, it orders pairs by an angle in the complex plane, and pushes other sentences away "
        "from a pair that scores high.",
    ),
    Spec(
        "pearson",
        Compared,
        ("scored",),
        "contrastcli.objectives.scored:pearson",
        "Pearson's r",
        negatives=no_negatives,
        about="Learns from scores: similarities must rise in proportion to them, whatever their scale.",
    ),
    Spec(
        "mse",
        Regression,
        ("scored",),
        "contrastcli.objectives.scored:mse",
        "Reimers and Gurevych 2019 (SBERT), Section 3",
        negatives=no_negatives,
        about="Learns from scores: the cosine of a pair must equal its score, scaled so that the highest is 1.",
    ),
)
