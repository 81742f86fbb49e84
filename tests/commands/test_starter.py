"""The embedded starter: enough texts, honestly varied, and a first training run that helps."""

import os
from collections import defaultdict
from pathlib import Path

import pytest

from contrastcli.commands.train import start
from contrastcli.data.examples import Examples, ScoredPairs
from contrastcli.data.sources import STARTER, load_examples
from contrastcli.model.folder import load_model
from contrastcli.model.locate import resolve
from contrastcli.runs.directory import Run
from contrastcli.runs.measured import Evaluated
from contrastcli.settings.sections import Data
from contrastcli.training.dev import DevSet
from support.command import Contrast
from support.settings import preset
from support.tables import scored_pairs
from support.tiny import known, told


@pytest.fixture(scope="module")
def examples() -> Examples:
    return load_examples(Data(train="starter"), ("labelled",), (0, 1, 2))


@pytest.fixture(scope="module")
def dev() -> ScoredPairs:
    return scored_pairs("starter")


def test_each_premise_has_an_entailed_a_neutral_and_a_contradicting_hypothesis(examples: Examples) -> None:
    assert examples.labels is not None
    labels = defaultdict(list)
    for premise, label in zip(examples.views["anchor"], examples.labels, strict=True):
        labels[premise].append(label)
    assert len(labels) >= 400
    assert all(sorted(of_premise) == [0, 1, 2] for of_premise in labels.values())


def test_no_dev_sentence_is_trained_on(examples: Examples, dev: ScoredPairs) -> None:
    trained = {text.lower() for view in examples.views.values() for text in view}
    assert not trained & {text.lower() for text in (*dev.first, *dev.second)}


def test_the_encoder_is_small_and_not_pickled() -> None:
    files = {path.name: path.stat().st_size for path in (STARTER / "backbone").iterdir()}
    assert files["model.safetensors"] <= 16e6
    assert set(files) == {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}


@pytest.mark.slow
def test_training_the_starter_lifts_its_dev_score_and_does_not_lower_sts_b(tmp_path: Path) -> None:
    run = Run(tmp_path / "first")
    assert start(preset("starter"), run) == 0
    evaluated = told(run, Evaluated)
    best = max(known(event.score for event in evaluated if event.best))
    assert best - known([evaluated[0].score])[0] >= 0.05
    if data := os.environ.get("CONTRAST_TEST_DATA"):
        pairs = scored_pairs(str(Path(data) / "stsb" / "sts-dev.csv"))
        before, after = (spearman(pairs, name) for name in ("starter", str(run.path)))
        assert after >= before


def spearman(pairs: ScoredPairs, model: str) -> float:
    """The correlation of a model's cosines with the scores."""
    encoder = load_model(resolve(model))
    correlation = DevSet.of(pairs, encoder).evaluate(encoder, 0).score
    assert correlation is not None
    return correlation


def test_training_data_of_ones_own_are_told_that_they_are_measured_on_the_starters(contrast: Contrast) -> None:
    words = ("train", "--preset", "starter", "--objective", "simcse", "--batch-size", "4", "--dry-run")
    note = "the dev set is the starter's, in English; one of the data's own: --dev split:10%"
    assert note in " ".join(contrast(*words, "--data", "tiny/pairs.jsonl").out.split())
    assert note not in " ".join(contrast(*words, "--data", "tiny/pairs.jsonl", "--dev", "split:10%").out.split())
