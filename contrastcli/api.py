"""What another package may import: for an objective's settings, `Spec`, loss and auxiliaries, and for a `Suite`.

`contrast train --help` imports the module of a `Spec`, and `contrast help suites` that of a `Suite`, so torch is loaded
only by the names for losses, auxiliaries and procedures.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from contrastcli.errors import DataError
from contrastcli.evaluation.suites import Average, Suite
from contrastcli.settings.objective import AuxiliarySpec, Margin, ObjectiveSettings, SimilarityName, Spec, Tau
from contrastcli.settings.setting import Bounds, about
from contrastcli.settings.similarity import SIMILARITIES, Similarity

if TYPE_CHECKING:
    from contrastcli.evaluation.procedure import Options, Procedure, SuiteContext, in_folder, in_words
    from contrastcli.objectives.functional import (
        discrimination,
        fresh_linear,
        isin,
        mask_logits,
        mean_over,
        pair_features,
    )
    from contrastcli.objectives.rows import CONTRADICTION, ENTAILMENT, NEUTRAL, Rows
    from contrastcli.objectives.similarity import cosines, from_cosine, paired, pairwise, unit
    from contrastcli.training.auxiliaries.auxiliary import Auxiliary
else:
    _LAZY = ("objectives.functional", "objectives.rows", "objectives.similarity", "evaluation.procedure")
    _LAZY += ("training.auxiliaries.auxiliary",)

    def __getattr__(name: str) -> object:
        for file in _LAZY if name in __all__ else ():
            module = import_module(f"contrastcli.{file}")  # loads torch
            if hasattr(module, name):
                return getattr(module, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["Auxiliary", "AuxiliarySpec", "Bounds", "Margin", "ObjectiveSettings", "Spec", "Tau", "about"]
__all__ += ["SIMILARITIES", "Similarity", "SimilarityName"]
__all__ += ["CONTRADICTION", "ENTAILMENT", "NEUTRAL", "Rows"]
__all__ += ["discrimination", "fresh_linear", "isin", "mask_logits", "mean_over", "pair_features"]
__all__ += ["cosines", "from_cosine", "paired", "pairwise", "unit"]
__all__ += ["Average", "DataError", "Options", "Procedure", "Suite", "SuiteContext", "in_folder", "in_words"]
