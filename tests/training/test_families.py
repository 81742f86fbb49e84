"""Every family trains under its contract, all of it or by LoRA: exact after a kill, cut anyhow, one model elsewhere."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from contrastcli.errors import DataError
from contrastcli.model.folder import load_encoder
from contrastcli.runs.events import Note
from contrastcli.training.plan import make_plan
from support.command import Contrast, refused
from support.contracts import SCALE
from support.families import embedder, reference
from support.resuming import train_with_a_kill
from support.rounding import assert_near
from support.tiny import Tiny, told
from support.trainers import assert_cache_changes_nothing, first_batch, trainer_of

__all__ = ["embedder"]
TEXTS = ["ba den fir", "go", "lum ka ten sir do bum fa gen", "ba " * 100]


@pytest.mark.filterwarnings("ignore")  # of another library
def test_a_family_trains_resumes_exactly_and_is_exported(embedder: Tiny, tmp_path: Path) -> None:
    changes = {"train__max_steps": 3, "train__save_every": 2, "dev__every": 3}
    killed = train_with_a_kill(embedder.run(tmp_path / "one", "simcse", "pairs", **changes), 2)
    before, after = load_encoder(embedder.backbone), load_encoder(killed.checkpoint())
    assert str(after.contract) == str(before.contract) and after.max_length == before.max_length == 12
    states = [encoder.state_dict() for encoder in (before, after)]
    moved = [name for name, tensor in states[0].items() if not torch.equal(tensor, states[1][name])]
    assert len(moved) > 0.8 * len(list(before.parameters()))
    library = pytest.importorskip("sentence_transformers")
    theirs = library.SentenceTransformer(str(killed.checkpoint()), device="cpu")
    for side in ("left", "right") if "causal" in str(after.contract) else ("right",):
        theirs.tokenizer.padding_side = side
        assert_near(theirs.encode_query(TEXTS), after.encode(TEXTS, "query"), scale=SCALE)
        assert_near(theirs.encode_document(TEXTS), after.encode(TEXTS, "document"), scale=SCALE)


@pytest.mark.parametrize("lora", [0, pytest.param(4, marks=pytest.mark.slow)])
def test_the_cached_gradient_of_a_family_is_that_of_kept_graphs(embedder: Tiny, tmp_path: Path, lora: int) -> None:
    if lora:
        pytest.importorskip("peft")
    trainer = trainer_of(embedder, tmp_path / "run", "simcse", "triplets", model__lora=lora, model__lora_dropout=0.1)
    assert len(trainer.stepper.cut(first_batch(trainer))[0]) >= 4
    assert_cache_changes_nothing(trainer)


LORA: dict[str, Any] = {"model__lora": 4, "model__lora_dropout": 0.1, "train__max_steps": 3, "train__save_every": 2}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the other libraries
def test_an_adapter_of_a_family_is_one_model_everywhere(embedder: Tiny, tmp_path: Path, contrast: Contrast) -> None:
    peft = pytest.importorskip("peft")
    undisturbed = embedder.run(tmp_path / "one", "simcse", "pairs", **LORA, dev__every=3)
    run = train_with_a_kill(undisturbed, 2)
    (text,) = [note.text for note in told(undisturbed, Note) if note.text.startswith("the adapter changes")]
    assert "merged" in text and "exported, in " in text and "bug" not in text and "not measured" not in text
    ours, base = load_encoder(run.checkpoint()).eval(), load_encoder(embedder.backbone).eval()
    assert np.abs(ours.encode(TEXTS) - base.encode(TEXTS)).max() > 1e-3
    assert str(ours.contract) == str(base.contract)
    theirs = peft.PeftModel.from_pretrained(reference(embedder.backbone), run.checkpoint()).eval()
    table = ours.tokenise(TEXTS)
    for row in range(len(TEXTS)):
        ids = torch.from_numpy(table[row].astype(np.int64))[None]
        with torch.inference_mode():
            assert_near(theirs(input_ids=ids).last_hidden_state, ours.backbone(ids, None).last)
    assert contrast("export", str(run.path), str(tmp_path / "whole")).code == 0
    assert contrast("export", str(run.path), str(tmp_path / "alone"), "--adapter").code == 0
    assert not (tmp_path / "whole" / "adapter_config.json").exists() and not list((tmp_path / "alone").glob("model*"))
    library = pytest.importorskip("sentence_transformers")
    for folder in (tmp_path / "whole", tmp_path / "alone"):
        assert_near(load_encoder(folder).eval().encode(TEXTS), ours.encode(TEXTS), scale=SCALE)
        model = library.SentenceTransformer(str(folder), device="cpu")
        assert_near(model.encode_query(TEXTS), ours.encode(TEXTS, "query"), scale=SCALE)
    (tmp_path / "alone" / "adapter_config.json").unlink()
    with pytest.raises(DataError, match=r"alone has no adapter_config\.json"):
        load_encoder(tmp_path / "alone")


def test_without_peft_the_error_says_what_to_install(
    tiny: Tiny, contrast: Contrast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)
    words = ("train", "--backbone", str(tiny.backbone), "--data", str(tiny.data["pairs"]), "--lora", "8", "--no-ui")
    refused(contrast(*words), 2, "LoRA needs the package peft", 'pip install "contrastcli[lora]"')


def test_what_is_set_without_what_it_needs_is_said(tiny: Tiny, place: Path) -> None:
    idle = {"model__lora_alpha": 8, "model__lora_targets": "query", "data__mine_ranks": "5-10"}
    idle |= {"data__mix": "one", "objective__hard_negative_weight": 1, "dev__data": "none", "dev__patience": 2}
    idle |= {"dev__keep_general": 1.0}
    idle |= {"dev__corpus": "documents.txt", "dev__split_seed": 1}
    notes = make_plan(tiny.run(place, "simcse", "pairs", **idle).config()).examples.notes
    assert [note.removeprefix("without ") for note in notes if "no effect" in note] == [
        "model.lora there is no effect of model.lora_alpha, model.lora_targets",
        "data.mine_every there is no effect of data.mine_ranks",
        "several sets there is no effect of data.mix",
        "hard negatives there is no effect of objective.hard_negative_weight",
        "a dev set there is no effect of dev.patience",
        "a split of the training data there is no effect of dev.split_seed",
        "dev data of queries there is no effect of dev.corpus",
        "dev.general there is no effect of dev.keep_general",
    ]


@pytest.mark.parametrize(("head", "pooling", "count"), [("none", "mean", 2), ("train-only", "mask", 0)])
def test_what_is_set_for_heads_or_mask_pooling_is_said(
    tiny: Tiny, place: Path, head: str, pooling: str, count: int
) -> None:
    changes = {"model__head": head, "model__pooling": pooling, "model__denoise": False, "train__head_lr": 0.1}
    run = tiny.trained(place, "simcse", "pairs", train__max_steps=1, **changes)
    notes = [note.text for note in told(run, Note) if "there is no effect of" in note.text]
    expected = (
        "without a head there is no effect of train.head_lr",
        "without mask pooling there is no effect of model.denoise",
    )
    assert notes == [*expected[:count]]
