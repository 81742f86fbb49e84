"""The objectives that come with contrast, and those of other packages: one `Spec` each.

Adding an objective is one file in `objectives/` and one `Spec` in `BUILT_IN`. Another package adds its own under the
entry point group `contrast.objectives`, each naming a `Spec`. Nothing here imports torch.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from contrastcli.errors import UsageError, nearest
from contrastcli.files import error_text
from contrastcli.settings.objective import (
    AuxiliarySpec,
    Form,
    Margin,
    ObjectiveSettings,
    SimilarityName,
    Spec,
    Tau,
)
from contrastcli.settings.setting import Bounds, about

PositivesDrawn = Annotated[int, about("positives drawn per anchor; 0: all", "N+", ge=0)]
NegativesDrawn = Annotated[int, about("negatives drawn per anchor; 0: all", "N-", ge=0)]


class Contrast(ObjectiveSettings, frozen=True, kw_only=True):
    """The settings of most contrastive losses."""

    similarity: SimilarityName = "cosine"
    margin: Margin = 0.0
    tau: Tau = 0.05


class SimCSE(Contrast, frozen=True, kw_only=True):
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
        return (AuxiliarySpec("contrastcli.training.mlm:MaskedTokens", settings),) if self.mlm_weight else ()


class SimACE(SimCSE, frozen=True, kw_only=True):
    """SimCSE's settings with SimACE's angle, margin and temperature (SimACE Eq. 7-9)."""

    similarity: SimilarityName = "angle"
    margin: Margin = 10.0
    tau: Tau = 0.06


class ArcCon(SimCSE, frozen=True, kw_only=True):
    """SimCSE's settings with ArcCSE's additive margin on the positive's angle."""

    similarity: SimilarityName = "arc"
    margin: Margin = 10.0


class Triplet(ObjectiveSettings, frozen=True, kw_only=True):
    """A positive against the hardest anchor of the batch (Nie et al.); subclasses say what measures the margin."""

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


class PCL(Contrast, frozen=True, kw_only=True):
    """Two peer encoders over many views of a sentence (SimACE Eq. 12)."""

    def auxiliaries(self) -> tuple[AuxiliarySpec, ...]:
        kinds = ("shuffle", "reverse", "delete", "repeat") * 2
        return (
            AuxiliarySpec("contrastcli.training.views:PerturbedViews", {"kinds": kinds}, views=len(kinds)),
            AuxiliarySpec("contrastcli.training.views:Peer", encoders=1),
        )


class RankCSE(Contrast, frozen=True, kw_only=True):
    """InfoNCE with consistent rankings and a teacher's ranking (SimACE Eq. 13 and 14)."""

    beta: Annotated[float, about("weight of consistency", "β", ge=0, le=1000, essential=True)] = 1.0
    gamma: Annotated[float, about("weight of distillation; 0: no teacher", "γ", ge=0, le=1000)] = 1.0
    distillation: Annotated[
        Literal["listnet", "listmle"], about("what is learnt of a teacher's list: its order or its softmax")
    ] = "listmle"
    teachers: Annotated[
        str,
        about("models to learn from, each FOLDER|RUN|NAME[:POOLING][=WEIGHT], with commas between", role="data"),
    ] = ""
    teacher_tau: Annotated[float, about("temperature of a teacher's list", "τ2", gt=0, le=1000)] = 0.05

    def inactive(self) -> dict[str, str]:
        off: dict[str, str] = {}
        if not self.gamma:
            off = dict.fromkeys(("distillation", "teachers", "teacher_tau"), "no effect while gamma is 0")
        elif self.distillation == "listmle":
            off = {"teacher_tau": "no effect while distillation is listmle"}
        return super().inactive() | off

    def auxiliaries(self) -> tuple[AuxiliarySpec, ...]:
        settings = {"teachers": self.teachers}
        return (AuxiliarySpec("contrastcli.training.teachers:Teachers", settings),) if self.gamma else ()


class PairSupCon(Contrast, frozen=True, kw_only=True):
    """Instance discrimination with weighted hard negatives, and classification of the pair."""

    beta: Annotated[float, about("weight of instance discrimination", "β", ge=0, le=1000, essential=True)] = 1.0
    hard_negatives: Annotated[
        Literal["importance", "exponent", "uniform"],
        about("weight of each negative: the released code's, Eq. 3's as printed, or none", "α"),
    ] = "importance"
    classification: Annotated[bool, about("also classify each pair, not only discriminate")] = True

    def inactive(self) -> dict[str, str]:
        off = {} if self.classification else {"beta": "no effect while classification is false"}
        return super().inactive() | off


class SupCon(ObjectiveSettings, frozen=True, kw_only=True):
    """Supervised contrastive learning over the hypotheses of a premise, and classification."""

    lambda_: Annotated[
        float, about("weight of the contrastive term against classification", "λ", ge=0, le=1, essential=True)
    ] = 0.3
    tau: Tau = 1.0
    normalize: Annotated[bool, about("compare by a similarity; off: by dot products, as published")] = False
    similarity: SimilarityName = "cosine"
    margin: Margin = 0.0
    positives: PositivesDrawn = 0
    negatives: NegativesDrawn = 0

    def inactive(self) -> dict[str, str]:
        if self.normalize:
            return super().inactive()
        return dict.fromkeys(("similarity", "margin"), "no effect while normalize is false")


class Augment(ObjectiveSettings, frozen=True, kw_only=True):
    """Classification of the pairs that supervised contrastive learning would contrast."""

    positives: PositivesDrawn = 0
    negatives: NegativesDrawn = 0


def _none(rows: int, hard: int) -> int:
    return 0


MEASURED = (
    "Spearman × 100 on STS-B dev, before → after 250 steps of 64 rows with the starter's encoder, mean pooling, "
    "lr 1e-4, a linear schedule and one seed: on NLI triplets, or on labelled NLI pairs for supcon, augment and "
    "softmax; rankcse with all-MiniLM-L6-v2 as its teacher"
)
"""How the `measured` scores of the built-in objectives were obtained."""

_CONTRAST: tuple[Form, ...] = ("sentences", "triplets", "pairs")
_INFONCE = "contrastcli.objectives.infonce:infonce"
_DCL = "contrastcli.objectives.infonce:dcl"
_TRIPLETS = "contrastcli.objectives.triplets"

BUILT_IN: tuple[Spec, ...] = (
    Spec(
        "simcse",
        SimCSE,
        _CONTRAST,
        _INFONCE,
        "Gao et al. 2021 (SimCSE), Eq. 1 and 5",
        measured=(56.13, 69.73),
        about="Pulls a pair, or a sentence and its copy, together; pushes all other sentences of the batch away.",
    ),
    Spec(
        "simace",
        SimACE,
        _CONTRAST,
        _INFONCE,
        "SimACE, Eq. 7-9",
        measured=(56.13, 70.35),
        about="Like simcse on angles: a positive must be nearer than the others by a margin in degrees.",
    ),
    Spec(
        "arccon",
        ArcCon,
        _CONTRAST,
        _INFONCE,
        "Zhang et al. 2022 (ArcCSE)",
        measured=(56.13, 68.02),
        about="Like simcse, with degrees added to the positive's angle, so that it must come closer still.",
    ),
    Spec(
        "dcl",
        Contrast,
        _CONTRAST,
        _DCL,
        "Nie et al. 2023, after Yeh et al. 2022",
        measured=(56.13, 70.92),
        about="Like simcse, but the positive does not compete with the negatives, which helps small batches.",
    ),
    Spec(
        "mpt",
        MPT,
        ("sentences", "pairs"),
        f"{_TRIPLETS}:mpt",
        "Nie et al. 2023",
        measured=(56.13, 71.78),
        about="Pulls a pair together until it beats the nearest other sentence of the batch by a margin.",
    ),
    Spec(
        "met",
        MET,
        ("sentences", "pairs"),
        f"{_TRIPLETS}:met",
        "Nie et al. 2023",
        measured=(56.13, 70.92),
        about="Like mpt, with the margin as a distance of unit vectors.",
    ),
    Spec(
        "mat",
        MAT,
        ("sentences", "pairs"),
        f"{_TRIPLETS}:mat",
        "Nie et al. 2023",
        measured=(56.13, 71.05),
        about="Like mpt, with the margin as an angle.",
    ),
    Spec(
        "pairsupcon",
        PairSupCon,
        ("labelled",),
        "contrastcli.objectives.pairsupcon:pairsupcon",
        "Zhang et al. 2021 (PairSupCon), Eq. 2-5",
        heads="contrastcli.objectives.pairsupcon:heads",
        labels=(0, 2),
        negatives=lambda rows, hard: 2 * rows - 2,
        measured=(56.13, 68.55),
        about="Pulls a premise and what it entails together, pushes others away, the nearest most; classifies pairs.",
    ),
    Spec(
        "supcon",
        SupCon,
        ("labelled",),
        "contrastcli.objectives.supcon:supcon",
        "Liao 2021, Eq. 1-3",
        heads="contrastcli.objectives.supcon:heads",
        labels=(0, 1, 2),
        grouped=True,
        measured=(56.54, 68.73),
        about="Pulls a premise and what it entails together, pushes what it does not entail away; classifies pairs.",
    ),
    Spec(
        "augment",
        Augment,
        ("labelled",),
        "contrastcli.objectives.supcon:augment",
        "Liao 2021, Table 2",
        heads="contrastcli.objectives.supcon:heads",
        labels=(0, 1, 2),
        grouped=True,
        negatives=_none,
        measured=(56.54, 55.21),
        about="Pulls and pushes nothing directly: classifies the pairs that supcon would contrast.",
    ),
    Spec(
        "softmax",
        ObjectiveSettings,
        ("labelled",),
        "contrastcli.objectives.softmax:softmax",
        "Reimers and Gurevych 2019 (SBERT)",
        heads="contrastcli.objectives.softmax:heads",
        labels=(0, 1, 2),
        negatives=_none,
        measured=(56.13, 55.24),
        about="Pulls and pushes nothing directly: classifies pairs as entailment, neutral or contradiction.",
    ),
    Spec(
        "pcl",
        PCL,
        ("sentences",),
        "contrastcli.objectives.pcl:pcl",
        "Wu et al. 2022 (PCL), SimACE Eq. 12",
        about="Pulls many changed copies of a sentence, seen by two encoders, together; pushes other sentences away.",
    ),
    Spec(
        "rankcse",
        RankCSE,
        ("sentences", "pairs"),
        "contrastcli.objectives.rankcse:rankcse",
        "Liu et al. 2023 (RankCSE), SimACE Eq. 13 and 14",
        measured=(56.13, 69.65),
        about="Like simcse; besides, sentences must rank alike in both copies, and as a teacher model ranks them.",
    ),
)

ENTRY_POINTS = "contrast.objectives"


def find(name: str, source: str = "") -> Spec:
    """The objective of that name; entry points are loaded only for a name that is not built in.

    Raises UsageError, with the source of the name.
    """
    by_name = {spec.name: spec for spec in BUILT_IN}
    if name not in by_name:
        by_name = {spec.name: spec for spec in every()}
    if name not in by_name:
        what = f"there is no objective '{name}'"
        raise UsageError(what, nearest(name, by_name), key="objective.name", source=source)
    return by_name[name]


def every() -> tuple[Spec, ...]:
    """All objectives, those of other packages last. Raises UsageError for an entry point that cannot be used."""
    from importlib.metadata import entry_points  # a tenth of what `contrast --help` takes

    outside = []
    for entry in entry_points(group=ENTRY_POINTS):
        try:
            outside.append(_checked(entry.load()))
        except (Exception, SystemExit) as error:
            what = f"the objective '{entry.name}' ({entry.value}) cannot be loaded: {error_text(error)}"
            raise UsageError(what, "fix or uninstall its package: see contrast help own-objective") from error
    return (*BUILT_IN, *outside)


def _checked(spec: object) -> Spec:
    """The Spec of an entry point. Raises TypeError or ValueError if it is none, or cannot be used."""
    if not isinstance(spec, Spec):
        raise TypeError("it is not a Spec")
    if not (isinstance(spec.settings, type) and issubclass(spec.settings, ObjectiveSettings)):
        raise TypeError("its settings are no ObjectiveSettings")
    spec.describe()
    spec.settings()  # each setting needs a default
    msgspec.convert(spec.needs, Annotated[tuple[Form, ...], Meta(min_length=1)])
    msgspec.convert([spec.loss, spec.heads or spec.loss], list[Annotated[str, Meta(pattern=r"^[\w.]+:\w+$")]])
    msgspec.convert(spec.negatives(2, 0), int)
    return spec
