"""MPT, MET and MAT of Nie et al.: a row's positive against the hardest anchor of the batch."""

from __future__ import annotations

from typing import ClassVar

from contrastcli.settings.objective import Margin, ObjectiveSettings, Spec
from contrastcli.settings.setting import Bounds


class Triplet(ObjectiveSettings, frozen=True, kw_only=True):
    """A margin, whose unit subclasses choose."""

    margin: Margin
    margin_bounds: ClassVar[Bounds]

    def bounds(self) -> dict[str, Bounds]:
        return {"margin": self.margin_bounds}


class MPT(Triplet, frozen=True, kw_only=True):
    """Minimum dot product triplet."""

    margin: Margin = 0.09
    margin_bounds = Bounds(-2, 2, "cosine")


class MET(Triplet, frozen=True, kw_only=True):
    """Minimum Euclidean distance triplet, of unit vectors."""

    margin: Margin = 0.45
    margin_bounds = Bounds(-2, 2, "distance")


class MAT(Triplet, frozen=True, kw_only=True):
    """Minimum angle triplet."""

    margin: Margin = 27.0
    margin_bounds = Bounds(-180, 180, "degrees")


def _spec(name: str, settings: type[Triplet], dev_score: float, about: str) -> Spec:
    loss, paper = f"contrastcli.objectives.triplets:{name}", "Nie et al. 2023"
    return Spec(name, settings, ("sentences", "pairs"), loss, paper, measured=(56.13, dev_score), about=about)


SPECS = (
    _spec(
        "mpt", MPT, 71.78, "Pulls a pair together until it beats the nearest other sentence of the batch by a margin."
    ),
    _spec("met", MET, 70.92, "Like mpt, with the margin as a distance of unit vectors."),
    _spec("mat", MAT, 71.05, "Like mpt, with the margin as an angle."),
)
