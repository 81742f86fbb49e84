"""The names that another package may import stay, wherever the files behind them move."""

import subprocess
import sys
from operator import attrgetter

import pytest

from contrastcli import api

SETTINGS = {
    *("AuxiliarySpec", "Bounds", "Margin", "ObjectiveSettings", "Spec", "Tau", "about"),
    *("SIMILARITIES", "Similarity", "SimilarityName"),
}
LOSSES = {
    *("Rows", "ENTAILMENT", "NEUTRAL", "CONTRADICTION"),
    *("mean_over", "mask_logits", "isin", "discrimination", "pair_features", "fresh_linear"),
    *("unit", "cosines", "pairwise", "paired", "from_cosine"),
}


SUITES = {"Suite", "Average", "DataError"}
PROCEDURES = {"Procedure", "SuiteContext", "Options", "in_folder", "in_words"}


def test_the_names_are_these() -> None:
    assert sorted(api.__all__) == sorted(SETTINGS | LOSSES | SUITES | PROCEDURES)


def loads_torch(names: set[str]) -> bool:
    """Whether a fresh interpreter has loaded torch after importing these names."""
    code = f"import sys; from contrastcli.api import {', '.join(sorted(names))}; print('torch' in sys.modules)"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "True\n"


def test_the_names_for_settings_and_suites_load_no_torch_and_those_for_losses_and_procedures_do() -> None:
    assert not loads_torch(SETTINGS | SUITES)
    assert loads_torch(LOSSES) and loads_torch(PROCEDURES)


def test_no_other_name_is_there() -> None:
    with pytest.raises(AttributeError, match="no attribute 'promoted'"):
        attrgetter("promoted")(api)
