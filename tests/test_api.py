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


def test_the_names_for_settings_and_suites_load_no_torch_and_those_for_losses_and_procedures_come_too() -> None:
    light, heavy = (", ".join(sorted(names)) for names in (SETTINGS | SUITES, LOSSES | PROCEDURES))
    code = f"import sys; from contrastcli.api import {light}; assert 'torch' not in sys.modules\n"
    subprocess.run([sys.executable, "-c", f"{code}from contrastcli.api import {heavy}"], check=True)


def test_no_other_name_is_there() -> None:
    with pytest.raises(AttributeError, match="no attribute 'promoted'"):
        attrgetter("promoted")(api)
