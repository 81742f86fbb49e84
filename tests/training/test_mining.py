"""Training mines its hard negatives again, from its own state. See test_resume.py for runs that were killed."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from contrastcli.model.folder import load_encoder
from contrastcli.runs.events import Note, Progress, Started
from contrastcli.training.auxiliaries.mining import MinedNegatives
from contrastcli.training.plan import make_plan
from support.contracts import write_embedder
from support.tiny import Tiny, told
from support.trainers import trainer_of


@pytest.mark.parametrize(
    ("model", "form", "first"), [("plain", "pairs", 0), ("plain", "triplets", 5), ("embedder", "pairs", 0)]
)
def test_the_hard_negatives_are_those_that_the_encoder_finds(
    tiny: Tiny, place: Path, tmp_path: Path, model: str, form: str, first: int
) -> None:
    """Recomputed from the model of the step that they were mined at; triplets begin with their own.

    Those of an embedder are mined by queries among documents, after the prompts of both.
    """
    backbone = write_embedder(tiny.backbone, tmp_path / "embedder") if model == "embedder" else tiny.backbone
    changes = {"data__mine_every": 5, "data__mine_below": 0.99, "train__save_every": 5, "train__keep": 3}
    run = replace(tiny, backbone=backbone).trained(place, "simcse", form, **changes, train__max_steps=10)
    corpus = make_plan(run.config()).corpus
    anchors, positives = corpus.views["anchor"], corpus.views["positive"]
    candidates = np.setdiff1d(np.arange(len(corpus.texts)), anchors)
    for step, folder in ((5, backbone), (10, run.checkpoints_dir / "000005")):
        mined = load_file(run.checkpoints_dir / f"{step:06d}" / "training" / "heads.safetensors")["mined"]
        if step <= first:
            assert np.array_equal(mined[:, 0], corpus.views["negative"])
            continue
        encoder = load_encoder(folder)
        embedded = (encoder.encode(corpus.texts, kind) for kind in ("query", "document"))
        queries, documents = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True) for vectors in embedded)
        for row, (anchor, positive) in enumerate(zip(anchors, positives, strict=True)):
            others = candidates[candidates != positive]
            closeness = documents[others] @ queries[anchor]
            closeness[closeness > 0.99 * (documents[positive] @ queries[anchor])] = -1
            assert mined[row, 0] == (others[closeness.argmax()] if closeness.max() > -1 else -1)
        assert len(np.unique(mined)) > 10


def test_a_negative_that_is_an_anchor_elsewhere_may_be_mined(tiny: Tiny, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("anchor,positive,negative\nba,den,ka\nka,fir,go\nlo,sum,go\n")
    changes = {"data__train": str(file), "data__mine_every": 2, "train__batch_size": 3}
    trainer = trainer_of(tiny, tmp_path / "run", "simcse", "triplets", **changes)
    (mined,) = (one for one in trainer.stepper.auxiliaries if isinstance(one, MinedNegatives))
    assert {mined.corpus.texts[int(text)] for text in mined.pool.candidates} == {"den", "ka", "fir", "go", "sum"}


def test_a_run_tells_what_it_mined(tiny: Tiny, place: Path) -> None:
    run = tiny.trained(place, "simcse", "pairs", data__mine_every=8, data__mine_below=0.0)
    notes = [(note.step, note.text) for note in told(run, Note) if "mined" in note.text]
    assert [step for step, _ in notes] == [0, 8, 16]
    assert notes[0][1] == "hard negatives mined: 100% changed, 0 rows have none"
    assert [event.total for event in told(run, Progress) if event.what == "mining"] == [160] * 3
    (started,) = told(run, Started)
    assert (started.negatives_per_anchor, started.sentences_per_step) == (15, 24)
