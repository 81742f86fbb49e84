"""The settings of the objectives that come with contrast, which objectives.toml lists."""

from typing import Annotated, ClassVar, Literal

from contrastcli.settings.objective import AuxiliarySpec, Margin, ObjectiveSettings, Sigma, SimilarityName, Tau
from contrastcli.settings.setting import Bounds, about, about_data
from contrastcli.settings.similarity import SIMILARITIES, Similarity

# SimCSE, SimACE, ArcCon and DCL: a row's positive against the other texts of the batch


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

    def in_batch(self) -> "InBatch":
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
        float, about("growth of a negative's weight e^(β·s) with its similarity s", "β", ge=0, le=1000, zero="off")
    ] = 0.0
    symmetric: Annotated[bool, about("contrast in both directions: anchors with positives, positives with anchors")] = (
        False
    )
    same_side: Annotated[bool, about("other anchors are negatives of an anchor too")] = False
    orthogonal: Annotated[
        float, about("weight of the orthogonal regulariser, which spreads texts evenly", ge=0, le=1000, zero="off")
    ] = 0.0

    # A field of SimCSE and its kin; without an annotation it is no setting.
    hard_negative_weight = 0.0

    def auxiliaries(self) -> tuple[AuxiliarySpec, ...]:
        guide = AuxiliarySpec("contrastcli.training.auxiliaries.teachers:Guide", {"teachers": self.guide})
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


class DCL(InBatch, frozen=True, kw_only=True):
    """The settings of the decoupled loss, to which a margin that does not depend on the angle adds a constant."""

    def inactive(self) -> dict[str, str]:
        off = {} if self.similarity == "arc" else {"margin": f"no effect while similarity is {self.similarity}"}
        return super().inactive() | off


# MPT, MET and MAT of Nie et al.: a row's positive against the hardest anchor of the batch


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


# PairSupCon, SupCon with its baseline Augment: labelled pairs


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
        if self.classification and not self.beta:
            contrast = ("similarity", "sigma", "margin", "tau", "hard_negatives")
            off = dict.fromkeys(contrast, "no effect while beta is 0")
        return super().inactive() | off


_Drawn = Annotated[int, about("positives drawn per anchor", "N+", ge=0, zero="all")]
_AgainstDrawn = Annotated[int, about("negatives drawn per anchor", "N-", ge=0, zero="all")]
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
        if not self.lambda_:
            contrast = ("similarity", "sigma", "margin", "tau", "normalize", "positives", "negatives")
            return dict.fromkeys(contrast, "no effect while lambda is 0")
        if self.normalize:
            return super().inactive()
        reason = "no effect while normalize is false; true compares angles, not raw dot products"
        return dict.fromkeys(("similarity", "sigma", "margin"), reason)


# PCL and RankCSE: InfoNCE, and the lists of similarities of other encoders


Distillation = Literal["listnet", "listmle"]

_Teachers = Annotated[
    str,
    about_data(
        "models to learn from, each FOLDER|RUN|NAME[:POOLING][=WEIGHT], with commas between", names_model="several"
    ),
]
_TeacherTau = Annotated[float, about("temperature of a teacher's scores; of logits 1", "τ2", gt=0, le=1000)]


class PCL(Contrast, frozen=True, kw_only=True):
    """Two peer encoders over many views of a sentence (SimACE Eq. 12)."""

    def auxiliaries(self) -> tuple[AuxiliarySpec, ...]:
        kinds = ("shuffle", "reverse", "delete", "repeat") * 2
        return (
            AuxiliarySpec("contrastcli.training.auxiliaries.views:PerturbedViews", {"kinds": kinds}, views=len(kinds)),
            AuxiliarySpec("contrastcli.training.auxiliaries.views:Peer", encoders=1),
        )


class RankCSE(Contrast, frozen=True, kw_only=True):
    """InfoNCE with consistent rankings and a teacher's ranking (SimACE Eq. 13 and 14)."""

    beta: Annotated[float, about("weight of consistency", "β", ge=0, le=1000, essential=True)] = 1.0
    gamma: Annotated[float, about("weight of distillation", "γ", ge=0, le=1000, zero="no teacher")] = 1.0
    distillation: Annotated[Distillation, about("what is learnt of a teacher's list: its softmax, or its order")] = (
        "listmle"
    )
    teachers: _Teachers = ""
    teacher_tau: _TeacherTau = 0.05

    def inactive(self) -> dict[str, str]:
        off: dict[str, str] = {}
        if not self.gamma:
            off = dict.fromkeys(("distillation", "teachers", "teacher_tau"), "no effect while gamma is 0")
        elif self.distillation == "listmle":
            off = {"teacher_tau": "no effect while distillation is listmle"}
        return super().inactive() | off

    def auxiliaries(self) -> tuple[AuxiliarySpec, ...]:
        teachers = AuxiliarySpec("contrastcli.training.auxiliaries.teachers:Teachers", {"teachers": self.teachers})
        return (teachers,) if self.gamma else ()


# CoSENT, AoE, Pearson's r and SBERT's squared error: scored pairs


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

    def inactive(self) -> dict[str, str]:
        off = {} if self.contrast_weight else {"positive_from": "no effect while contrast_weight is 0"}
        off |= {} if self.angle_weight else {"angle_tau": "no effect while angle_weight is 0"}
        return super().inactive() | off

    def bounds(self) -> dict[str, Bounds]:
        is_alone = not self.order_weight and not self.contrast_weight
        return super().bounds() | ({"angle_weight": Bounds(0.001, 1000)} if is_alone else {})


class Regression(ObjectiveSettings, frozen=True, kw_only=True):
    """Cosines that equal the scores (SBERT)."""

    lowest: Annotated[float, about("cosine of the lowest score of the data; that of the highest is 1", ge=-1, le=1)] = (
        0.0
    )


# Margin-MSE, KL and embed: a teacher's scores of rows, or its embeddings


class Taught(Ordered, frozen=True, kw_only=True):
    """Similarities on the scale of a teacher's scores."""

    teacher_tau: _TeacherTau = 0.05


class Embed(ObjectiveSettings, frozen=True, kw_only=True):
    """Embeddings of a teacher."""

    teachers: _Teachers = ""

    def auxiliaries(self) -> tuple[AuxiliarySpec, ...]:
        return (AuxiliarySpec("contrastcli.training.auxiliaries.teachers:Targets", {"teachers": self.teachers}),)
