"""The peer encoder and the perturbed views: trained with the model, saved next to it, and never a part of it."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from contrastcli.data.tokens import TokenTable
from contrastcli.model.encoder import SentenceEncoder
from contrastcli.model.folder import load_encoder
from contrastcli.runs.events import Started
from contrastcli.runs.measured import Step
from contrastcli.training.auxiliaries.views import Perturbation, PerturbedViews, perturb
from contrastcli.training.checkpoint import disk_bytes
from contrastcli.training.loop import Trainer
from support.tiny import Tiny, told
from support.trainers import first_batch, gradients, trainer_of

KINDS: tuple[Perturbation, ...] = ("shuffle", "reverse", "delete", "repeat")
NAMES = ["anchor", "positive", *(f"{kind}_{n}" for n in (1, 2) for kind in KINDS)]
CLS, SEP = 2, 3


def peer_of(trainer: Trainer) -> SentenceEncoder:
    peer = trainer.stepper.extras["peer"]
    assert isinstance(peer, SentenceEncoder)
    return peer


@pytest.fixture
def trainer(tiny: Tiny, tmp_path: Path) -> Trainer:
    return trainer_of(tiny, tmp_path, "pcl", "sentences")


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(0)


def test_shuffling_and_reversing_keep_every_token(random: np.random.Generator) -> None:
    ids = np.arange(20, dtype=np.int32)
    shuffled = perturb("shuffle", ids, random).tolist()
    assert sorted(shuffled) == ids.tolist() != shuffled
    assert perturb("reverse", ids, random).tolist() == ids.tolist()[::-1]


@pytest.mark.parametrize(("length", "changed"), [(0, 0), (1, 0), (2, 0), (3, 1), (10, 2), (13, 3), (30, 6)])
def test_a_fifth_of_the_tokens_is_deleted_or_repeated(random: np.random.Generator, length: int, changed: int) -> None:
    ids = np.arange(length, dtype=np.int32)
    fewer, more = perturb("delete", ids, random).tolist(), perturb("repeat", ids, random).tolist()
    assert len(fewer) == length - changed and fewer == sorted(set(fewer))  # in their order
    assert len(more) == length + changed and set(more) == set(range(length))
    first = [token for place, token in enumerate(more) if token not in more[:place]]
    assert sorted(first) == ids.tolist()


def perturbed(tiny: Tiny, max_length: int = 32, seed: int = 1, prompt: str = "none") -> PerturbedViews:
    """Views of each kind twice, of which the first are tested."""
    settings = {"model__max_length": max_length, "train__seed": seed, "model__prompts": prompt}
    views, *_ = trainer_of(tiny, Path(), "pcl", "sentences", **settings).stepper.auxiliaries
    assert isinstance(views, PerturbedViews)
    views.kinds = KINDS
    return views


def test_special_tokens_stay_at_both_ends_and_no_view_is_too_long(tiny: Tiny) -> None:
    unknown = 1  # a special token of the tokenizer, but none that it puts around a text
    table = TokenTable.of([[CLS, unknown, *range(10, 24), unknown, SEP], [CLS, SEP], [CLS, 9, SEP]])
    views = perturbed(tiny, max_length=18).perturb_texts(table, np.array([0, 1, 2]), step=1)
    assert len(views) == 12 and all(ids.dtype == np.int32 for ids in views)
    assert all(ids[0] == CLS and ids[-1] == SEP and len(ids) <= 18 for ids in views)
    assert not {CLS, SEP} & {int(token) for ids in views for token in ids[1:-1]}
    lengths = [len(ids) for ids in views]
    assert lengths == [18, 2, 3, 18, 2, 3, 15, 2, 3, 18, 2, 3]  # shuffled, reversed, without three, cut at the limit
    assert views[3].tolist() == [CLS, unknown, *range(23, 9, -1), unknown, SEP]


def test_the_prompt_stays_before_the_text(tiny: Tiny) -> None:
    table = TokenTable.of([[CLS, 7, 8, *range(10, 25), SEP], [CLS, 7, SEP]])
    views = perturbed(tiny, prompt="ba den ").perturb_texts(table, np.array([0, 1]), step=1)
    assert {(*ids[:3].tolist(), int(ids[-1])) for ids in views[::2]} == {(CLS, 7, 8, SEP)}
    assert views[2].tolist() == [CLS, 7, 8, *range(24, 9, -1), SEP]
    assert all(ids.tolist() == [CLS, 7, SEP] for ids in views[1::2])  # the limit cut its prompt


def test_views_are_a_function_of_the_seed_and_the_step_alone(tiny: Tiny) -> None:
    table, texts = TokenTable.of([[CLS, *range(10, 25), SEP]] * 2), np.array([0, 1])

    def shown(seed: int, step: int) -> list[list[int]]:
        return [ids.tolist() for ids in perturbed(tiny, seed=seed).perturb_texts(table, texts, step)]

    assert shown(1, 5) == shown(1, 5) != shown(1, 6)
    assert shown(1, 5) != shown(2, 5)
    assert shown(1, 5)[0] != shown(1, 5)[1]  # each text has its own draws


def test_a_batch_holds_every_view_and_each_text_goes_through_both_encoders(trainer: Trainer) -> None:
    batch = first_batch(trainer)
    assert list(batch.views) == NAMES and len(batch.texts) == 10 * 16
    views = {name: [batch.table[int(text)].tolist() for text in batch.view(name)] for name in NAMES}
    corpus = trainer.inputs.table
    assert views["anchor"] == [corpus[int(text)].tolist() for text in batch.rows.ids["anchor"]]
    assert views["positive"] == views["anchor"]
    assert views["reverse_1"] == views["reverse_2"] == [[CLS, *ids[-2:0:-1], SEP] for ids in views["anchor"]]
    assert views["shuffle_1"] != views["shuffle_2"] and views["delete_1"] != views["delete_2"]
    chunks, _ = trainer.stepper.cut(batch)
    embedded = np.concatenate([chunk.places for chunk in chunks])
    assert sorted(embedded) == list(range(20 * 16)) and trainer.plan.sentences_per_step == 20 * 16
    for encoder in (trainer.encoder, peer_of(trainer)):
        texts = np.concatenate([chunk.texts for chunk in chunks if chunk.encoder is encoder])
        assert sorted(texts) == sorted(batch.texts)
    assert list(trainer.stepper.backward(batch).views) == [*NAMES, *(f"peer_{name}" for name in NAMES)]


def test_the_peer_begins_as_the_encoder_shares_nothing_with_it_and_is_trained_too(trainer: Trainer) -> None:
    ours, theirs = (dict(e.backbone.named_parameters()) for e in (trainer.encoder, peer_of(trainer)))
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) and ours[name] is not theirs[name] for name in ours)
    assert peer_of(trainer).training and trainer.stepper.encoders["peer_"] is peer_of(trainer)
    trainer.stepper.backward(first_batch(trainer))
    reached = {name: g for name, g in gradients(trainer).items() if name.startswith(("encoder.", "extras.peer."))}
    assert len(reached) == 2 * len(list(trainer.encoder.parameters()))
    assert [name for name, g in reached.items() if not g.abs().sum() > 0] == []


def test_the_peer_draws_its_own_dropout(trainer: Trainer) -> None:
    views = trainer.stepper.backward(first_batch(trainer)).views
    for name in NAMES:
        assert (views[name] - views[f"peer_{name}"]).abs().amax(dim=1).gt(1e-3).all()
    trainer.encoder.eval()
    peer_of(trainer).eval()
    views = trainer.stepper.backward(first_batch(trainer)).views
    for name in NAMES:
        torch.testing.assert_close(views[name], views[f"peer_{name}"])


def test_the_model_is_the_encoder_alone_and_the_checkpoint_keeps_both(tiny: Tiny, place: Path) -> None:
    run = tiny.trained(place, "pcl", "sentences", train__max_steps=3)
    assert told(run, Started)[0].sentences_per_step == 8 * 10 * 2
    assert told(run, Step)[0].parts.keys() == {"contrast", "peer", "group", "across", "within"}
    before, after = (load_file(folder / "model.safetensors") for folder in (tiny.backbone, run.checkpoint()))
    assert after.keys() <= before.keys()
    folder = run.checkpoint("last") / "training"
    peer = {n: t for n, t in load_file(folder / "heads.safetensors").items() if n.startswith("peer.backbone")}
    model = load_encoder(run.checkpoint("last"))
    assert sum(t.numel() for t in peer.values()) == sum(p.numel() for p in model.backbone.parameters())
    trained = {f"peer.{name}": tensor for name, tensor in model.named_parameters()}
    assert all(not torch.equal(peer[name], trained[name]) for name in peer)  # they have diverged
    size = sum(path.stat().st_size for path in run.checkpoint("last").rglob("*.safetensors"))
    assert disk_bytes(tiny.backbone, with_best=False, encoders=2, keep=1) == pytest.approx(size, rel=0.2)
    states = {name.partition(".")[0] for name in load_file(folder / "optimizer.safetensors")}
    assert len(states) == 2 * len(trained)
