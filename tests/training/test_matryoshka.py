"""A run that trains shorter embeddings too: what it says of each size is what the saved model does at that size."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

from contrastcli.model.folder import load_model
from contrastcli.model.locate import resolve
from contrastcli.runs.directory import Run
from contrastcli.runs.events import Note
from contrastcli.runs.measured import Angles, Evaluated, Step
from support.settings import config
from support.tiny import Tiny, known, told

DIMS = {"model__dims": "8=0.5,16", "train__max_steps": 6, "dev__every": 3}


@pytest.fixture(scope="module")
def nested(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A finished run; no test may change it."""
    return tiny.trained(tmp_path_factory.mktemp("nested") / "one", "simcse", "pairs", **DIMS)


def test_the_dev_scores_by_size_are_those_of_the_saved_model_at_that_size(tiny: Tiny, nested: Run) -> None:
    assert nested.status().best == max(known(event.score for event in told(nested, Evaluated) if event.step))
    last, rows = told(nested, Evaluated)[-1], [json.loads(line) for line in tiny.dev.read_text().splitlines()]
    assert [*last.shorter] == [8, 16]
    model = resolve(str(nested.checkpoint("last")))
    for dim, score in last.shorter.items():
        u, v = (load_model(model, dim=dim).encode([row[f"sentence{n}"] for row in rows]) for n in (1, 2))
        cosines = (u * v).sum(1) / np.linalg.norm(u, axis=1) / np.linalg.norm(v, axis=1)
        assert u.shape[1] == dim
        assert score == pytest.approx(spearmanr(cosines, [row["score"] for row in rows]).statistic, abs=1e-5)


def test_the_loss_has_a_part_and_the_batch_has_angles_for_each_size(tiny: Tiny, place: Path) -> None:
    run = tiny.trained(place, "pairsupcon", "labelled", **DIMS)
    for step, angles in zip(told(run, Step), told(run, Angles), strict=True):
        parts = step.parts
        assert parts.keys() == {"contrast", "classification", "loss@8", "loss@16"}
        (whole,) = known([sum(known([parts["contrast"], parts["classification"]]))])
        small, middle = known([parts["loss@8"], parts["loss@16"]])
        assert step.loss == pytest.approx(whole + 0.5 * small + middle, rel=1e-5)
        assert [*angles.shorter] == [8, 16]
        assert all(angles.shorter[8][name] not in (None, getattr(angles, name)) for name in Angles.titles)


def test_a_size_that_is_the_whole_width_sets_its_weight(tiny: Tiny) -> None:
    model = config(model__dims=[8, 16, "32=2"]).model
    assert model.dims == "8,16,32=2"
    assert model.weights(32) == {32: 2.0, 8: 1.0, 16: 1.0}
    assert config().model.weights(32) == {}


def test_training_without_the_sizes_of_its_backbone_says_so(tiny: Tiny, place: Path, nested: Run) -> None:
    again = tiny.trained(place, "simcse", "pairs", model__backbone=str(nested.path), train__max_steps=1)
    (text,) = [note.text for note in told(again, Note) if "numbers" in note.text]
    assert text == "the backbone was trained at 8, 16 numbers too, and this run is not: --dims 8,16"
    assert load_model(resolve(str(again.path))).contract.dims == ()
