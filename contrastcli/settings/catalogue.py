"""The objectives that come with contrast, and those of other packages: one `Spec` each.

Adding an objective is one file in `objectives/` and one `Spec` in `BUILT_IN`. Another package adds its own under the
entry point group `contrast.objectives`, each naming a `Spec`. Nothing here imports torch.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated

import msgspec
from msgspec import Meta

from contrastcli.errors import UsageError, error_text, nearest
from contrastcli.settings.losses import (
    MAT,
    MET,
    MPT,
    PCL,
    AoE,
    ArcCon,
    Augment,
    Correlation,
    InBatch,
    Ordered,
    PairSupCon,
    RankCSE,
    Regression,
    SimACE,
    SimCSE,
    SupCon,
)
from contrastcli.settings.objective import Form, ObjectiveSettings, Spec


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
_SCORED = "contrastcli.objectives.scored"
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
        InBatch,
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
    Spec(
        "cosent",
        Ordered,
        ("scored",),
        f"{_SCORED}:cosent",
        "Su 2022 (CoSENT)",
        negatives=_none,
        about="Learns from scores: of two pairs of the batch, the one that scores more must be more similar.",
    ),
    Spec(
        "aoe",
        AoE,
        ("scored",),
        f"{_SCORED}:aoe",
        "Li and Li 2024 (AoE, AnglE)",
        negatives=lambda rows, hard: 2 * rows - 2,
        about="Like cosent; besides, it orders pairs by an angle in the complex plane, and pushes other sentences away "
        "from a pair that scores high.",
    ),
    Spec(
        "pearson",
        Correlation,
        ("scored",),
        f"{_SCORED}:pearson",
        "Pearson's r",
        negatives=_none,
        about="Learns from scores: similarities must rise in proportion to them, whatever their scale.",
    ),
    Spec(
        "mse",
        Regression,
        ("scored",),
        f"{_SCORED}:mse",
        "Reimers and Gurevych 2019 (SBERT), Section 3",
        negatives=_none,
        about="Learns from scores: the cosine of a pair must equal its score, scaled so that the highest is 1.",
    ),
)

ENTRY_POINTS = "contrast.objectives"


def find_objective(name: str, source: str = "") -> Spec:
    """The objective of that name; entry points are loaded only for a name that is not built in.

    Raises UsageError, with the source of the name.
    """
    by_name = {spec.name: spec for spec in BUILT_IN}
    if name not in by_name:
        by_name = {spec.name: spec for spec in all_objectives()}
    if name not in by_name:
        what = f"there is no objective '{name}'"
        raise UsageError(what, nearest(name, by_name), key="objective.name", source=source)
    return by_name[name]


@cache
def all_objectives() -> tuple[Spec, ...]:
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
