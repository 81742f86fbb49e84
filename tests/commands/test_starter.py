"""The embedded starter: enough texts, honestly varied, and a first training run that helps."""

import os
import re
from collections import Counter
from pathlib import Path

import pytest

from contrastcli.data.sources import STARTER, load_examples, load_scored
from contrastcli.settings.config import Data

FUNCTION_WORDS = """
    a an the this that these those some any each every no all both either neither another other such same i
    you he she it we they me him her us them my your his its our their mine yours who whom whose which what
    and or but nor so yet if unless because since while when whenever where wherever although though until
    before after as than whether once in on at by for with from to of off over under into onto out up down
    through across along around between among about against during without within behind beyond beside besides
    near above below not never only even also just still already too very more most less least much many few
    little again ever how why there here then now despite instead rather except like per
"""
"""Everything else, nouns, verbs, numbers, adjectives and adverbs, is masked."""


def skeleton(sentence):
    kept = set(FUNCTION_WORDS.split())
    words = re.findall(r"[\w'-]+|[.,;:?!]", sentence.lower())
    return " ".join(word if word in kept or not word[0].isalnum() else "_" for word in words)


@pytest.fixture(scope="module")
def examples():
    return load_examples(Data(train="starter"), ("labelled",), (0, 1, 2))


@pytest.fixture(scope="module")
def dev():
    return load_scored("starter")


def test_each_premise_has_an_entailed_a_neutral_and_a_contradicting_hypothesis(examples) -> None:
    labels = {}
    for premise, label in zip(examples.views["anchor"], examples.labels, strict=True):
        labels.setdefault(premise, []).append(label)
    assert len(labels) >= 400
    assert all(sorted(found) == [0, 1, 2] for found in labels.values())


def test_the_dev_scores_fill_the_range(dev) -> None:
    units = Counter(min(4, int(score)) for score in dev.scores)
    assert len(dev) >= 240
    assert all(units[unit] >= 40 for unit in range(5))


def test_no_dev_sentence_is_trained_on(examples, dev) -> None:
    trained = {text.lower() for view in examples.views.values() for text in view}
    assert not trained & {text.lower() for text in (*dev.first, *dev.second)}


def test_no_sentence_frame_stands_more_than_three_times(examples, dev) -> None:
    texts = dict.fromkeys([*examples.views["anchor"], *examples.views["positive"], *dev.first, *dev.second])
    frames = Counter(skeleton(text) for text in texts)
    assert [frame for frame, count in frames.items() if count > 3] == []


def test_the_encoder_is_small_and_not_pickled() -> None:
    files = {path.name: path.stat().st_size for path in (STARTER / "backbone").iterdir()}
    assert files["model.safetensors"] <= 16e6
    assert set(files) == {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}


@pytest.mark.slow
def test_training_the_starter_lifts_its_dev_score_and_does_not_lower_sts_b(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from contrastcli.commands import train as start
    from contrastcli.model.query import load_model
    from contrastcli.runs.directory import find
    from contrastcli.runs.events import Evaluated
    from contrastcli.settings import config
    from contrastcli.training.dev import DevSet

    chosen = config.resolve([config.file_layer(config.preset_path("starter"))])
    assert start.start(chosen, None, tmp_path, "first", where="here", json=False) == 0
    run = find("first", tmp_path)
    scores = [event for event in run.events() if isinstance(event, Evaluated)]
    best = max(event.spearman for event in scores if event.best)
    assert best - scores[0].spearman >= 0.05
    if data := os.environ.get("CONTRAST_TEST_DATA"):
        pairs = load_scored(str(Path(data) / "stsb" / "sts-dev.csv"))
        before, after = (load_model(name) for name in ("starter", str(run.path)))
        scored = [DevSet.of(pairs, encoder).evaluate(encoder, 0).spearman for encoder in (before, after)]
        assert scored[1] >= scored[0]
