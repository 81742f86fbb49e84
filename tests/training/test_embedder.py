"""Training that begins with a published embedder: its contract is kept, and its prompts go to the roles."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from contrastcli.commands.train import preview
from contrastcli.evaluation.evaluate import evaluate
from contrastcli.evaluation.procedure import Options
from contrastcli.evaluation.suites import OWN
from contrastcli.model.contract import read_contract
from contrastcli.model.folder import load_encoder
from contrastcli.runs.events import Note, Started
from contrastcli.runs.measured import Evaluated
from support.contracts import PROMPTS, SCALE, write_embedder
from support.resuming import train_with_a_kill
from support.rounding import assert_near
from support.tiny import Tiny, told
from support.trainers import first_batch, trainer_of


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


@pytest.mark.filterwarnings("ignore")  # of the other library
def test_a_killed_run_ends_as_if_nothing_had_happened_and_is_a_model_of_sentence_transformers(
    embedder: Tiny, place: Path
) -> None:
    library = pytest.importorskip("sentence_transformers")
    settings = {"train__max_steps": 4, "train__save_every": 2, "dev__every": 3, "model__head": "keep"}
    settings["model__prompts"] = "anchor=document,positive=sir "
    run = train_with_a_kill(embedder.run(place, "simcse", "pairs", **settings), 2)
    assert read_contract(run.checkpoint()).prompts == PROMPTS | {"query": PROMPTS["document"], "document": "sir "}
    theirs, ours = library.SentenceTransformer(str(run.checkpoint()), device="cpu"), load_encoder(run.checkpoint())
    texts = ["ba den fir", "go", "lum ka ten sir do bum fa gen"]
    assert_near(theirs.encode_query(texts), ours.encode(texts, "query"), scale=SCALE)
    assert_near(theirs.encode_document(texts), ours.encode(texts, "document"), scale=SCALE)
    assert theirs.max_seq_length == 12
