"""What an objective is: a `Spec`, with the rows that it needs, its settings, its loss and its paper."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from msgspec import structs

from contrastcli.settings.setting import Bounds, Section, Setting, about, describe
from contrastcli.settings.similarity import SIMILARITIES

Form = Literal["sentences", "classes", "pairs", "triplets", "labelled", "scored", "scored-triplets"]
"""Training rows: a sentence; one and its class, whose name becomes its positive; anchor and positive; these and hard
negatives; premise, hypothesis and label; anchor, positive and score; triplets with a teacher's score of the positive
and of each negative."""

SimilarityName = Annotated[
    str, about("how two embeddings are compared", "s(a,b)", essential=True, choices=SIMILARITIES.keys())
]
Sigma = Annotated[float, about("width of rbf, between vectors of length 1", "σ", ge=0.001, le=1000, usual=(0.1, 10))]
Margin = Annotated[float, about("shift of the positive; above 0 makes it harder", "m", ge=-180, le=180, essential=True)]
Tau = Annotated[
    float, about("temperature that divides every similarity", "τ", gt=0, le=1000, essential=True, usual=(0.01, 10))
]


@dataclass(frozen=True)
class AuxiliarySpec:
    """Something that is trained or computed next to the encoder.

    `make` is the `module:class` of an `Auxiliary` (training/auxiliaries/auxiliary.py), made with `settings` as
    keywords. It adds `views` to each batch, and `encoders` through which all views go as well.
    """

    make: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    views: int = 0
    encoders: int = 0


class ObjectiveSettings(Section, frozen=True, kw_only=True):
    """Base of every objective's settings.

    With both `similarity` and `margin`, a subclass gets the margin's unit, limits and default from the similarity.
    """

    def inactive(self) -> dict[str, str]:
        """Settings that have no effect, given the values of the others, each with the reason."""
        margin, similarity = self.bounds().get("margin"), SIMILARITIES.get(getattr(self, "similarity", ""))
        off = ["margin"] if margin is not None and margin.low == margin.high else []
        off += ["sigma"] if similarity and not similarity.of_width and hasattr(self, "sigma") else []
        return {name: f"no effect while similarity is {getattr(self, 'similarity', '')}" for name in off}

    def bounds(self) -> dict[str, Bounds]:
        """Limits and units that depend on the values of other settings."""
        similarity = SIMILARITIES.get(getattr(self, "similarity", ""))
        return {"margin": similarity.margin} if similarity and hasattr(self, "margin") else {}

    def arguments(self) -> dict[str, Any]:
        """What a loss may name: each setting by its field, a similarity as an object, and all of them as `settings`."""
        named = structs.asdict(self)
        if similarity := SIMILARITIES.get(named.get("similarity", "")):
            named["similarity"] = similarity.with_width(named.get("sigma", 1.0))
        return {"settings": self} | named

    def auxiliaries(self) -> tuple[AuxiliarySpec, ...]:
        """What is trained or computed next to the encoder."""
        return ()

    def further_negatives(self, rows: int) -> int:
        """Negatives of an anchor besides those that `Spec.negatives` counts, in a batch of so many rows."""
        return 0

    @property
    def encoders(self) -> int:
        """How many encoders are trained."""
        return 1 + sum(auxiliary.encoders for auxiliary in self.auxiliaries())

    def texts_per_row(self, columns: float) -> float:
        """How often the encoders read a text for each row of so many columns, added views included."""
        return (columns + sum(auxiliary.views for auxiliary in self.auxiliaries())) * self.encoders

    @classmethod
    def defaults(cls, chosen: Mapping[str, Any]) -> dict[str, Any]:
        """Every default, given the values that were chosen: with another similarity than its own, that one's margin."""
        defaults = {s.name: s.default for s in describe("objective", cls).values()}
        own, name = (str(values.get("similarity")) for values in (defaults, defaults | dict(chosen)))
        if name != own and name in SIMILARITIES and "margin" in defaults:
            defaults["margin"] = SIMILARITIES[name].default_margin
        return defaults


def in_batch_negatives(rows: int, hard: int) -> int:
    """Negatives of an anchor among the other rows' positives and all hard negatives."""
    return rows - 1 + hard


def all_other_texts(rows: int, hard: int) -> int:
    """Negatives of an anchor among both texts of the other rows."""
    return 2 * rows - 2


def no_negatives(rows: int, hard: int) -> int:
    """Of a loss that contrasts nothing."""
    return 0


@dataclass(frozen=True)
class Spec:
    """One objective.

    `needs` lists the row forms that it takes, the preferred one first. `loss` and `heads` are `module:function` names:

        loss(views, rows, heads, *, <its settings>) -> (loss, parts)
        heads(width) -> ModuleDict of modules that only the loss uses

    The views are the rows' columns (anchor, positive, negative, negative_2 …) and those that auxiliaries add. `labels`
    are the labels that the loss uses (0 entailment, 1 neutral, 2 contradiction); rows with others are dropped.
    `grouped` keeps the rows of one anchor in one batch. With `copies` a sentence is read twice, as its own positive.
    `negatives` counts an anchor's negatives, given the rows and the hard negatives of a batch: without it, the other
    rows' positives and all hard negatives. `measured` are the scores that `MEASURED` describes. `about` says in plain
    words what it pulls together and pushes apart.
    """

    name: str
    settings: type[ObjectiveSettings]
    needs: tuple[Form, ...]
    loss: str
    paper: str
    heads: str = ""
    labels: tuple[int, ...] = ()
    grouped: bool = False
    copies: bool = True
    negatives: Callable[[int, int], int] = in_batch_negatives
    measured: tuple[float, float] | None = None
    about: str = ""

    def describe(self) -> Mapping[str, Setting]:
        return describe("objective", self.settings)
