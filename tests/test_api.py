"""The names that another package may import stay, wherever the files behind them move."""

import pickle
import subprocess
import sys
from operator import attrgetter

import pytest

from contrastcli import api
from contrastcli.errors import DataError, Preempted, UsageError, Use

SETTINGS = {
    *("AuxiliarySpec", "Bounds", "Margin", "ObjectiveSettings", "Spec", "Tau", "about"),
    *("SIMILARITIES", "Similarity", "SimilarityName"),
}
LOSSES = {
    "Auxiliary",
    *("Rows", "ENTAILMENT", "NEUTRAL", "CONTRADICTION"),
    *("mean_over", "mask_logits", "isin", "discrimination", "pair_features", "fresh_linear"),
    *("unit", "cosines", "pairwise", "paired", "from_cosine"),
}


SUITES = {"Suite", "Average", "DataError"}
PROCEDURES = {"Procedure", "SuiteContext", "Options", "in_folder", "in_words"}


def test_the_names_are_these_and_no_other_is_there() -> None:
    assert sorted(api.__all__) == sorted(SETTINGS | LOSSES | SUITES | PROCEDURES)
    assert all(getattr(api, name) is not None for name in api.__all__)
    with pytest.raises(AttributeError, match="no attribute 'promoted'"):
        attrgetter("promoted")(api)


def test_the_names_for_settings_and_suites_load_no_torch() -> None:
    names = ", ".join(sorted(SETTINGS | SUITES))
    code = f"import sys; from contrastcli.api import {names}; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("kind", [DataError, Preempted, UsageError])
def test_an_error_in_another_process_arrives_whole(kind: type[DataError | Preempted | UsageError]) -> None:
    error = kind("it is wrong", [Use("--dev", "FILE"), "or not"], key="dev.data", source="--dev")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.hint) == (kind, "it is wrong (--dev)", error.hint)
    assert vars(again) == vars(error)
