"""What an objective of another package may import: for its settings and `Spec`, and for its loss.

`contrast train --help` imports the module of a `Spec`, so torch is loaded only by the names for losses.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from contrastcli.settings.objective import AuxiliarySpec, Margin, ObjectiveSettings, SimilarityName, Spec, Tau
from contrastcli.settings.setting import Bounds, about
from contrastcli.settings.similarity import SIMILARITIES, Similarity

if TYPE_CHECKING:
    from contrastcli.objectives.functional import (
        discrimination,
        fresh_linear,
        full_precision,
        isin,
        mask_logits,
        mean_over,
        pair_features,
    )
    from contrastcli.objectives.rows import CONTRADICTION, ENTAILMENT, NEUTRAL, Rows
    from contrastcli.objectives.similarity import cosines, from_cosine, paired, pairwise, unit
else:

    def __getattr__(name: str) -> object:
        for file in ("functional", "rows", "similarity") if name in __all__ else ():
            module = import_module(f"contrastcli.objectives.{file}")  # loads torch
            if hasattr(module, name):
                return getattr(module, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "CONTRADICTION",
    "ENTAILMENT",
    "NEUTRAL",
    "SIMILARITIES",
    "AuxiliarySpec",
    "Bounds",
    "Margin",
    "ObjectiveSettings",
    "Rows",
    "Similarity",
    "SimilarityName",
    "Spec",
    "Tau",
    "about",
    "cosines",
    "discrimination",
    "fresh_linear",
    "from_cosine",
    "full_precision",
    "isin",
    "mask_logits",
    "mean_over",
    "pair_features",
    "paired",
    "pairwise",
    "unit",
]
