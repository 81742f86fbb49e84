"""SimCSE, SimACE, ArcCon and DCL: a row's positive against the other texts of the batch."""

from __future__ import annotations

from typing import Annotated

from contrastcli.settings.objective import (
    AuxiliarySpec,
    Margin,
    ObjectiveSettings,
    Sigma,
    SimilarityName,
    Tau,
)
from contrastcli.settings.setting import about, about_data
from contrastcli.settings.similarity import SIMILARITIES, Similarity


class Compared(ObjectiveSettings, frozen=True, kw_only=True):
    """The settings of losses that compare embeddings by a similarity."""

    similarity: SimilarityName = "cosine"
    sigma: Sigma = 1.0

    @property
    def chosen_similarity(self) -> Similarity:
        return SIMILARITIES[self.similarity].with_width(self.sigma)


class Contrast(Compared, frozen=True, kw_only=True):
    """The settings of most contrastive losses."""

    margin: Margin = 0.0
    tau: Tau = 0.05

    def in_batch(self) -> InBatch:
        """The contrast of a batch with these settings, and no others."""
        return InBatch(similarity=self.similarity, sigma=self.sigma, margin=self.margin, tau=self.tau)


class InBatch(Contrast, frozen=True, kw_only=True):
    """The settings of every contrast of a batch."""

    guide: Annotated[
        str,
        about_data(
            "models that drop negatives which they find closer than the positive, each NAME[:POOLING][=WEIGHT], with "
            "commas between; none: off",
            names_model="several",
        ),
    ] = ""
    hardness: Annotated[
        float, about("growth of a negative's weight e^(β·s) with its similarity s; 0: off", "β", ge=0, le=1000)
    ] = 0.0
    symmetric: Annotated[bool, about("contrast in both directions: anchors with positives, positives with anchors")] = (
        False
    )
    same_side: Annotated[bool, about("other anchors are negatives of an anchor too")] = False
    orthogonal: Annotated[
        float, about("weight of the orthogonal regulariser, which spreads texts evenly; 0: off", ge=0, le=1000)
    ] = 0.0

    # A field of SimCSE and its kin; without an annotation it is no setting.
    hard_negative_weight = 0.0

    def auxiliaries(self) -> tuple[AuxiliarySpec, ...]:
        guide = AuxiliarySpec("contrastcli.training.auxiliaries.teachers:Guide", {"guide": self.guide})
        return (guide,) if self.guide else ()

    def further_negatives(self, rows: int) -> int:
        return rows - 1 if self.same_side else 0


class SimCSE(InBatch, frozen=True, kw_only=True):
    """InfoNCE over a batch (SimCSE Eq. 1 and 5); SimACE and ArcCon are other values of the same settings."""

    hard_negative_weight: Annotated[
        float, about("added to the logit of a row's own hard negative", ge=-100, le=100)
    ] = 0.0
    mlm_weight: Annotated[float, about("weight of the masked-language-model term", ge=0, le=100)] = 0.0
    mlm_probability: Annotated[float, about("share of tokens that the term masks", gt=0, lt=1)] = 0.15

    def inactive(self) -> dict[str, str]:
        off = {} if self.mlm_weight else {"mlm_probability": "no effect while mlm_weight is 0"}
        return super().inactive() | off

    def auxiliaries(self) -> tuple[AuxiliarySpec, ...]:
        settings = {"weight": self.mlm_weight, "probability": self.mlm_probability}
        masked = AuxiliarySpec("contrastcli.training.auxiliaries.mlm:MaskedTokens", settings)
        return super().auxiliaries() + ((masked,) if self.mlm_weight else ())


class SimACE(SimCSE, frozen=True, kw_only=True):
    """SimCSE's settings with SimACE's angle, margin and temperature (SimACE Eq. 7-9)."""

    similarity: SimilarityName = "angle"
    margin: Margin = 10.0
    tau: Tau = 0.06


class ArcCon(SimCSE, frozen=True, kw_only=True):
    """SimCSE's settings with ArcCSE's additive margin on the positive's angle."""

    similarity: SimilarityName = "arc"
    margin: Margin = 10.0
