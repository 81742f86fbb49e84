"""Training that begins with a published embedder, whose contract is kept, or that denoises PromptBERT's template."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from contrastcli.commands.train import preview
from contrastcli.evaluation.evaluate import evaluate
from contrastcli.evaluation.procedure import Options
from contrastcli.evaluation.suites import OWN
from contrastcli.model.contract import read_contract
from contrastcli.model.folder import load_encoder
from contrastcli.objectives.functional import Result, Views
from contrastcli.objectives.rows import Rows
from contrastcli.runs.events import Note, Started
from contrastcli.runs.measured import Evaluated
from contrastcli.training.loop import Clock
from support.contracts import write_embedder
from support.families import write_family
from support.rounding import assert_near
from support.tiny import Tiny, told
from support.trainers import assert_cache_changes_nothing, first_batch, gradients, trainer_of


@pytest.fixture
def embedder(tiny: Tiny, tmp_path: Path) -> Tiny:
    """The world of rows with an embedder as its backbone."""
    return replace(tiny, backbone=write_embedder(tiny.backbone, tmp_path / "embedder"))


def test_the_contract_of_the_backbone_is_that_of_every_checkpoint(embedder: Tiny, place: Path) -> None:
    run = embedder.trained(place, "simcse", "pairs", train__max_steps=3)
    before, after = read_contract(embedder.backbone), read_contract(run.checkpoint())
    assert str(after) == str(before) and load_encoder(run.checkpoint()).max_length == 12
    (started,) = told(run, Started)
    assert started.contract == str(before) and "dense 32 to 40" in started.contract and "'den ba '" in started.contract
    assert not [note for note in told(run, Note) if "instead of" in note.text or "replaces" in note.text]
    weights = [load_encoder(folder).after.state_dict() for folder in (embedder.backbone, run.checkpoint())]
    assert not any(torch.equal(weights[0][name], weights[1][name]) for name in weights[0]), "they are trained too"
    second = replace(embedder, backbone=run.path).trained(place.parent / "two", "simcse", "pairs", train__max_steps=1)
    assert str(read_contract(second.checkpoint())) == str(before), "and a run is a backbone with its contract"


@pytest.mark.parametrize("form", ["pairs", "scored"])
def test_the_score_before_training_is_that_of_the_backbone(embedder: Tiny, place: Path, form: str) -> None:
    run = embedder.trained(place, "simcse", "pairs", train__max_steps=1, dev__data=str(embedder.data[form]))
    measured = evaluate(str(embedder.backbone), (OWN,), Options(files=(str(embedder.data[form]),)))
    (scores,) = measured.results[0].tasks.values()
    assert told(run, Evaluated)[0].score == pytest.approx(scores["score"] / 100, abs=1e-5)


@pytest.mark.parametrize("prompts", ["auto", "sir "])
def test_a_dry_run_counts_the_tokens_of_prompts_too(embedder: Tiny, place: Path, prompts: str) -> None:
    run = embedder.run(place, "simcse", "pairs", train__max_steps=1, model__prompts=prompts)
    inputs = trainer_of(embedder, place.parent, "simcse", "pairs", model__prompts=prompts).inputs
    lengths = preview(run.config(), run).lengths
    tokenizer = load_encoder(embedder.backbone).tokenizer
    read = sorted(len(ids) for ids in tokenizer.encode([*inputs.read], 1000))
    assert lengths is not None and (lengths.p50, lengths.longest) == (read[len(read) // 2], read[-1])
    assert lengths.cut == pytest.approx(sum(count > lengths.limit for count in read) / len(read), abs=1e-4)


@pytest.mark.parametrize(
    ("prompts", "expected"),
    [
        ("auto", ("den ba ", "fir go lum ", "fir go lum ")),
        ("none", ("", "", "")),
        ("sir ", ("sir ", "sir ", "sir ")),
        ("anchor=other,positive=den, lum ,negative=ka ", ("bum ", "den, lum ", "ka ")),
        ("anchor=document,positive=query", ("fir go lum ", "den ba ", "den ba ")),
    ],
)
def test_each_role_is_read_after_its_prompt(
    embedder: Tiny, tmp_path: Path, prompts: str, expected: tuple[str, ...]
) -> None:
    trainer = trainer_of(embedder, tmp_path, "simcse", "triplets", model__prompts=prompts)
    batch, texts = first_batch(trainer), trainer.plan.corpus.texts
    for view, prompt in zip(("anchor", "positive", "negative"), expected, strict=True):
        read = [batch.table[int(row)].tolist() for row in batch.view(view)]
        ids = [int(n) for n in batch.rows.ids[view]]
        assert read == trainer.encoder.tokenizer.encode([prompt + texts[n] for n in ids], 12)
    if prompts.startswith("anchor"):
        contract = trainer.encoder.contract
        assert (contract.prompt("query"), contract.prompt("document")) == expected[:2]


@pytest.mark.parametrize(
    ("prompts", "said"),
    [("auto", "scored pairs are read without"), ("anchor=query,positive=document", "dev pairs with scores are read")],
)
def test_of_scored_pairs_it_is_said_which_prompts_are_read(
    embedder: Tiny, place: Path, prompts: str, said: str
) -> None:
    run = embedder.trained(place, "cosent", "scored", train__max_steps=1, model__prompts=prompts)
    assert [note.text for note in told(run, Note) if note.text.startswith(said)]


def test_a_text_in_two_roles_is_one_text(embedder: Tiny, tmp_path: Path) -> None:
    """What masks duplicates sees texts, and not what stands before them."""
    path = tmp_path / "pairs.tsv"
    path.write_text("anchor\tpositive\n" + "".join(f"ba {n} den\tfir {n}\nfir {n}\tlum {n}\n" for n in range(16)))
    world = replace(embedder, data={"pairs": path})
    batch = first_batch(trainer_of(world, tmp_path, "simcse", "pairs", train__batch_size=32))
    anchors, positives = (set(batch.rows.ids[view].tolist()) for view in ("anchor", "positive"))
    assert len(anchors & positives) == 16
    assert not set(batch.view("anchor").tolist()) & set(batch.view("positive").tolist())


ROLES, SUFFIX = "anchor=ba den ,positive=sir ,negative=ka ", "gum [MASK] lo"
MASK: dict[str, Any] = {"model__pooling": "mask", "model__prompts": ROLES, "model__suffix": SUFFIX}
TEXTS = ["ba den fir", "go", "lum ka ten sir do bum fa gen", ""]


FAMILIES = ["bert", "roberta", "distilbert", "mpnet", "modernbert", "electra", "deberta-v3"]


@pytest.mark.parametrize("family", FAMILIES)
def test_the_bias_is_that_of_the_template_at_its_positions_around_the_text(
    tiny: Tiny, tmp_path: Path, family: str
) -> None:
    """h − ĥ, both by transformers: of ĥ no token sees the places of the text."""
    world = Tiny(write_family(family, tmp_path / family), tiny.data, tiny.dev)
    trainer = trainer_of(world, tmp_path / "run", "simcse", "triplets", **MASK)
    trainer.encoder.eval()
    batch, seen = first_batch(trainer), dict[str, torch.Tensor]()

    def loss(views: Views, rows: Rows, heads: torch.nn.ModuleDict) -> Result:
        seen.update(views)
        return torch.stack([view.sum() for view in views.values()]).sum(), {}

    trainer.stepper.loss = loss
    trainer.stepper.backward(batch)
    model = transformers.AutoModel.from_pretrained(world.backbone, dtype=torch.float32).eval()
    tokenizer = trainer.encoder.tokenizer
    for view, prompt in {"anchor": "ba den ", "positive": "sir ", "negative": "ka "}.items():
        head = len(prompt.split()) + 1
        expected = []
        for row in batch.view(view):
            ids = torch.tensor(batch.table[int(row)].astype(np.int64))[None]
            alone = torch.ones_like(ids)
            alone[:, head:-4] = 0
            at = int((ids[0] == tokenizer.mask_id).nonzero())
            with torch.no_grad():
                states = [model(input_ids=ids, attention_mask=m).last_hidden_state for m in (alone * 0 + 1, alone)]
            expected.append(states[0][0, at] - states[1][0, at])
        assert_near(seen[view], torch.stack(expected), scale=4.0)


def test_a_template_is_no_sentence(tiny: Tiny, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = list[int]()
    monkeypatch.setattr(Clock, "tick", lambda clock, sentences: counts.append(sentences))
    monkeypatch.setattr(Clock, "takes", lambda clock: {})
    monkeypatch.setattr(Clock, "seconds_left", lambda clock, steps: None)
    run = tiny.trained(place, "simcse", "triplets", train__max_steps=2, **MASK)
    assert counts == [told(run, Started)[0].sentences_per_step] * 2


def test_each_length_has_one_template_in_each_view_unless_denoising_is_left_out(tiny: Tiny, tmp_path: Path) -> None:
    plain = first_batch(trainer_of(tiny, tmp_path, "simcse", "pairs", **MASK, model__denoise=False))
    assert plain.templates is None and len(plain.texts) == 32
    batch = first_batch(trainer_of(tiny, tmp_path, "simcse", "pairs", **MASK))
    lengths = [len(set(batch.table.lengths[batch.view(view)].tolist())) for view in ("anchor", "positive")]
    assert len(batch.texts) == 32 + sum(lengths)


@pytest.mark.parametrize(
    ("objective", "form"), [("simcse", "negatives"), ("pcl", "sentences"), ("rankcse", "sentences")]
)
def test_the_gradient_cache_changes_nothing(tiny: Tiny, tmp_path: Path, objective: str, form: str) -> None:
    trainer = trainer_of(tiny, tmp_path, objective, form, **MASK, model__head="train-only")
    assert_cache_changes_nothing(trainer)


def test_the_template_has_its_share_of_the_gradient(tiny: Tiny, tmp_path: Path) -> None:
    trainer = trainer_of(tiny, tmp_path, "simcse", "sentences", **MASK)
    trainer.encoder.eval()
    batch = first_batch(trainer)
    assert batch.templates is not None
    trainer.stepper.loss = lambda views, rows, heads: (views["anchor"][:, 0].sum(), {})
    trainer.stepper.backward(batch)
    actual = gradients(trainer)
    pooled = trainer.encoder.pooled(batch.table, batch.texts)[:, 0]
    torch.autograd.backward((pooled[:16] - pooled[batch.templates[:16]]).sum())
    for name, expected in gradients(trainer).items():
        assert_near(actual[name], expected, scale=max(1.0, float(expected.abs().max())))


SETTINGS: dict[str, Any] = MASK | {"model__head": "train-only", "model__max_length": 14}


@pytest.mark.filterwarnings("ignore")  # of the other library
@pytest.mark.parametrize("family", ["bert", "distilbert", "electra"])
def test_what_was_trained_is_the_same_model_in_sentence_transformers(tiny: Tiny, tmp_path: Path, family: str) -> None:
    library = pytest.importorskip("sentence_transformers")
    world = Tiny(write_family(family, tmp_path / family), tiny.data, tiny.dev)
    # The folders of BERT and RoBERTa on the hub do not name their special tokens.
    (world.backbone / "tokenizer_config.json").write_text('{"model_max_length": 32}')
    run = world.trained(tmp_path / "run", "simcse", "sentences", **SETTINGS, train__max_steps=2)
    theirs, ours = library.SentenceTransformer(str(run.checkpoint()), device="cpu"), load_encoder(run.checkpoint())
    texts = [*TEXTS, "ba den fir " * 30]
    # Texts of no kind come after the words of the anchors.
    assert_near(theirs.encode(texts), ours.encode(texts))
    assert np.array_equal(ours.encode(texts), ours.encode(texts, "query"))
    assert_near(theirs.encode_document(texts), ours.encode(texts, "document"))
    assert abs(ours.encode(texts, "document") - ours.encode(texts)).max() > 1e-3


def test_dev_scores_are_those_of_evaluation_and_subtract_nothing(tiny: Tiny, tmp_path: Path) -> None:
    run = tiny.trained(tmp_path / "run", "simcse", "sentences", **SETTINGS, train__max_steps=3)
    measured = evaluate(str(run.path), (OWN,), Options(files=(str(tiny.dev),)))
    (scores,) = measured.results[0].tasks.values()
    assert told(run, Evaluated)[-1].score == pytest.approx(scores["score"] / 100, abs=1e-5)
