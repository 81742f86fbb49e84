"""Every family trains under its contract: exact after a kill, the same gradient however it is cut, and exported."""

from pathlib import Path

import pytest
import torch

from contrastcli.model.folder import load_encoder
from support.contracts import SCALE
from support.families import embedder
from support.resuming import train_with_a_kill
from support.rounding import assert_near
from support.tiny import Tiny
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
    assert_near(theirs.encode_query(TEXTS), after.encode(TEXTS, "query"), scale=SCALE)
    assert_near(theirs.encode_document(TEXTS), after.encode(TEXTS, "document"), scale=SCALE)


@pytest.mark.parametrize("lora", [0, 4])
def test_the_cached_gradient_of_a_family_is_that_of_kept_graphs(embedder: Tiny, tmp_path: Path, lora: int) -> None:
    if lora:
        pytest.importorskip("peft")
    trainer = trainer_of(embedder, tmp_path / "run", "simcse", "triplets", model__lora=lora, model__lora_dropout=0.1)
    assert len(trainer.stepper.cut(first_batch(trainer))[0]) >= 4
    assert_cache_changes_nothing(trainer)
