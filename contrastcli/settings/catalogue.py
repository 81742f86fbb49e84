"""All objectives: those that come with contrast, and those of other packages.

Adding an objective is one file in `objectives/`, one `Spec` in `losses/` and a sentence in `ABOUT`. Another package
adds its own under the entry point group `contrast.objectives`, each naming a `Spec`. Nothing here imports torch.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Annotated

import msgspec
from msgspec import Meta

from contrastcli.errors import UsageError, nearest
from contrastcli.settings.losses import infonce, labelled, lists, scored, triplets
from contrastcli.settings.objective import Form, ObjectiveSettings, Spec
from contrastcli.settings.other_names import our_name
from contrastcli.settings.outside import load_outside

MEASURED = (
    "Spearman × 100 on STS-B dev, before → after 250 steps of 64 rows with the starter's encoder, mean pooling, "
    "lr 1e-4, a linear schedule and one seed: on NLI triplets, or on labelled NLI pairs for supcon, augment and "
    "softmax; rankcse with all-MiniLM-L6-v2 as its teacher"
)
"""How the `measured` scores of the built-in objectives were obtained."""

ABOUT: Mapping[str, str] = {
    "simcse": "Pulls a pair, or a sentence and its copy, together; pushes all other sentences of the batch away.",
    "simace": "Like simcse on angles: a positive must be nearer than the others by a margin in degrees.",
    "arccon": "Like simcse, with degrees added to the positive's angle, so that it must come closer still.",
    "dcl": "Like simcse, but the positive does not compete with the negatives, which helps small batches.",
    "mpt": "Pulls a pair together until it beats the nearest other sentence of the batch by a margin.",
    "met": "Like mpt, with the margin as a distance of unit vectors.",
    "mat": "Like mpt, with the margin as an angle.",
    "pairsupcon": (
        "Pulls a premise and what it entails together, pushes others away, the nearest most; classifies pairs."
    ),
    "supcon": "Pulls a premise and what it entails together, pushes what it does not entail away; classifies pairs.",
    "augment": "Pulls and pushes nothing directly: classifies the pairs that supcon would contrast.",
    "softmax": "Pulls and pushes nothing directly: classifies pairs as entailment, neutral or contradiction.",
    "pcl": "Pulls many changed copies of a sentence, seen by two encoders, together; pushes other sentences away.",
    "rankcse": "Like simcse; besides, sentences must rank alike in both copies, and as a teacher model ranks them.",
    "cosent": "Learns from scores: of two pairs of the batch, the one that scores more must be more similar.",
    "aoe": (
        "Like cosent; besides, it orders pairs by an angle in the complex plane, and pushes other sentences away from "
        "a pair that scores high."
    ),
    "pearson": "Learns from scores: similarities must rise in proportion to them, whatever their scale.",
    "mse": "Learns from scores: the cosine of a pair must equal its score, scaled so that the highest is 1.",
}
"""What each of them pulls together and pushes apart, in plain words."""

BUILT_IN: tuple[Spec, ...] = tuple(
    replace(spec, about=ABOUT[spec.name])
    for spec in (*infonce.SPECS, *triplets.SPECS, *labelled.SPECS, *lists.SPECS, *scored.SPECS)
)

ENTRY_POINTS = "contrast.objectives"


def find_objective(name: str, source: str = "") -> Spec:
    """The objective of that name. Raises UsageError, with the source of the name."""
    by_name = {spec.name: spec for spec in BUILT_IN}
    # Entry points are loaded only for a name that is not built in.
    if name not in by_name:
        by_name = {spec.name: spec for spec in all_objectives()}
        if name in (broken := outside_objectives()[1]):
            raise broken[name]
    if name not in by_name:
        what, ours = f"there is no objective '{name}'", by_name.get(our_name(name))
        hint = f"did you mean '{ours.name}', which trains on {', '.join(ours.needs)}?" if ours else ""
        raise UsageError(what, hint or nearest(name, by_name), key="objective.name", source=source)
    return by_name[name]


def all_objectives() -> tuple[Spec, ...]:
    """All objectives, those of other packages last."""
    return (*BUILT_IN, *outside_objectives()[0])


@cache
def outside_objectives() -> tuple[tuple[Spec, ...], dict[str, UsageError]]:
    """The objectives of other packages, and the errors of those that cannot be loaded."""
    return load_outside(ENTRY_POINTS, _checked)


def _checked(spec: object) -> Spec:
    """The Spec of an entry point. Raises TypeError or ValueError if it is none, or cannot be used."""
    if not isinstance(spec, Spec):
        raise TypeError("it is not a Spec")
    if not (isinstance(spec.settings, type) and issubclass(spec.settings, ObjectiveSettings)):
        raise TypeError("its settings are no ObjectiveSettings")
    spec.describe()
    spec.settings()  # each needs a default
    msgspec.convert(spec.needs, Annotated[tuple[Form, ...], Meta(min_length=1)])
    msgspec.convert([spec.loss, spec.heads or spec.loss], list[Annotated[str, Meta(pattern=r"^[\w.]+:\w+$")]])
    msgspec.convert(spec.negatives(2, 0), int)
    return spec
