"""Teachers: named like any model, run once a sentence by their own contract, and never trained."""

import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from torch import Tensor

from contrastcli.errors import DataError, UsageError
from contrastcli.files import cache_dir, checksum_of
from contrastcli.model.encoder import SentenceEncoder
from contrastcli.model.folder import load_encoder, save_encoder
from contrastcli.model.pooling import Normalize
from contrastcli.model.weights import WEIGHTS
from contrastcli.objectives.rows import Rows
from contrastcli.runs.directory import Run
from contrastcli.runs.event import Event
from contrastcli.runs.events import Progress
from contrastcli.runs.measured import Step
from contrastcli.settings.losses import RankCSE, SimCSE
from contrastcli.settings.objective import AuxiliarySpec
from contrastcli.training.auxiliaries.auxiliary import make_auxiliaries
from contrastcli.training.auxiliaries.teachers import Teacher, Teachers
from contrastcli.training.loop import Trainer
from contrastcli.training.plan import make_plan
from contrastcli.training.session import Session
from contrastcli.training.setup import make_trainer
from support import tiny as tiny_module
from support.contracts import under
from support.resuming import train_with_a_kill
from support.rounding import assert_near
from support.tiny import Tiny, on_step, told, train, write_backbone
from support.trainers import CPU, first_batch, trainer_of


def named(words: str) -> list[Teacher]:
    (teachers,) = make_auxiliaries(RankCSE(teachers=words))
    assert isinstance(teachers, Teachers) and teachers.models == tuple(one.name for one in teachers.teachers)
    return teachers.teachers


def views_of(trainer: Trainer, rows: Rows) -> Mapping[str, Tensor]:
    """The teachers' views of some rows."""
    teachers, *_ = trainer.stepper.auxiliaries
    return teachers.views(rows, CPU)


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder of another width, another vocabulary, another pooling and normalised vectors."""
    folder = tmp_path_factory.mktemp("stranger")
    words = tiny_module.WORDS
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiny_module, "WORDS", words[::-1])
        write_backbone(folder / "backbone", hidden_size=16, intermediate_size=24)
    encoder = load_encoder(folder / "backbone", "cls")
    save_encoder(under(encoder, Normalize()), folder / "model")
    return folder / "model"


def test_teachers_are_named_with_a_pooling_and_a_weight_where_they_need_one() -> None:
    assert named("runs/one") == [Teacher("runs/one", 1.0, None)]
    assert named("last,a:last") == [Teacher("last", 1.0, None), Teacher("a", 1.0, "last")]
    teachers = named("owner/a@v2:cls=0.33, C:\\models\\b = 2,starter:last-mean,a=3e-7")
    assert teachers == [
        Teacher("owner/a@v2", 0.33, "cls"),
        Teacher("C:\\models\\b", 2.0, None),
        Teacher("starter", 1.0, "last-mean"),
        Teacher("a", 3e-7, None),
    ]
    assert named(",".join(map(str, teachers))) == teachers, "they are written as they are read"


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ("", "names none"),
        ("a,,b", "an empty name"),
        ("=0.3", "an empty name"),
        ("a=much", "'much' of 'a=much' is not a weight"),
        ("a=0", "'0' of 'a=0' is not a weight"),
        ("a=inf,b", "'inf' of 'a=inf' is not a weight"),
        ("a=nan,b", "'nan' of 'a=nan' is not a weight"),
    ],
)
def test_a_malformed_list_of_teachers_is_an_error_with_a_remedy(words: str, what: str) -> None:
    with pytest.raises(UsageError, match=what) as raised:
        named(words)
    assert "--teachers" in raised.value.hint or "NAME" in raised.value.hint
    if words:
        with pytest.raises(UsageError, match=rf"objective\.guide.*{what}"):
            make_auxiliaries(SimCSE(guide=words))


def test_without_distillation_no_teacher_is_needed(tiny: Tiny, place: Path) -> None:
    assert make_auxiliaries(RankCSE(gamma=0.0)) == make_auxiliaries(RankCSE(gamma=0.0, teachers="a=b")) == []
    run = tiny.trained(place, "rankcse", "sentences", objective__teachers="", objective__gamma=0.0, train__max_steps=2)
    assert told(run, Step)[-1].parts.keys() == {"contrast", "consistency"}


def cosines(encoder: SentenceEncoder, first: list[str], second: list[str]) -> NDArray[np.float64]:
    """The cosine of each text of one list with each of the other, by the model alone."""
    u, v = (encoder.encode(texts).astype(np.float64) for texts in (first, second))
    products: NDArray[np.float64] = u @ v.T
    return products / np.outer(np.linalg.norm(u, axis=1), np.linalg.norm(v, axis=1))


@pytest.mark.parametrize("form", ["sentences", "pairs"])
def test_two_teachers_are_one_whose_cosines_are_their_weighted_mean(
    tiny: Tiny, tmp_path: Path, stranger: Path, form: str
) -> None:
    trainer = trainer_of(
        tiny, tmp_path, "rankcse", form, objective__teachers=f"{stranger},{tiny.backbone}:first-last=2"
    )
    tokenizers = [load_encoder(folder).tokenizer for folder in (tiny.backbone, stranger)]
    assert tokenizers[0].encode(["ba den"], 8) != tokenizers[1].encode(["ba den"], 8), "each reads with its own"
    rows = first_batch(trainer).rows
    views = views_of(trainer, rows)
    texts = {view: [trainer.plan.corpus.texts[int(i)] for i in rows.ids[view]] for view in ("anchor", "positive")}
    assert (texts["anchor"] == texts["positive"]) == (form == "sentences")
    first = cosines(load_encoder(stranger), texts["anchor"], texts["positive"])
    second = cosines(load_encoder(tiny.backbone, "first-last"), texts["anchor"], texts["positive"])
    assert views["teacher_anchor"].shape == (16, 16 + 32)
    assert_near(views["teacher_anchor"].norm(dim=1), torch.ones(16))
    taught = (views["teacher_anchor"] @ views["teacher_positive"].T).double().numpy()
    assert_near(taught, first / 3 + 2 * second / 3, scale=1)


def test_each_distinct_sentence_is_encoded_once_for_all_runs(
    tiny: Tiny, tmp_path: Path, stranger: Path, encoded: list[str]
) -> None:
    events: list[Event] = []
    for epochs in (1, 3):
        config = tiny.config("rankcse", "pairs", objective__teachers=str(stranger), train__epochs=epochs)
        plan = make_plan(config)
        make_trainer(Run(tmp_path), plan, CPU, Session(events.append))
    assert sorted(encoded) == sorted(set(plan.corpus.texts))
    progress = [(e.done, e.total) for e in events if isinstance(e, Progress) and e.what == "encoding by a teacher"]
    assert progress[-1] == (len(encoded), len(encoded))
    assert len(list((cache_dir() / "vectors").iterdir())) == 1


def test_a_run_records_its_teachers_and_leaves_them_as_they_were(tiny: Tiny, place: Path, stranger: Path) -> None:
    before = {path: path.read_bytes() for path in stranger.rglob("*") if path.is_file()}
    words = f"{stranger}=2,{tiny.backbone}"
    run = tiny.trained(place, "rankcse", "sentences", objective__teachers=words, train__max_steps=3)
    assert {path: path.read_bytes() for path in stranger.rglob("*") if path.is_file()} == before
    kept = load_file(run.checkpoint("last") / "training" / "heads.safetensors")
    assert not any("teacher" in name for name in kept)
    assert json.loads(run.environment_path.read_text())["teachers"] == [
        {"name": str(folder), "folder": str(folder), "revision": None, "checksum": checksum_of(folder / WEIGHTS)}
        for folder in (stranger, tiny.backbone)
    ]


def test_a_run_teaches_with_its_best_checkpoint_and_none_that_learns_meanwhile(tiny: Tiny, place: Path) -> None:
    teacher = tiny.trained(place.with_name("teacher"), "simcse", "sentences", train__max_steps=2)
    run = tiny.run(place, "rankcse", "sentences", objective__teachers=str(teacher.path), train__max_steps=4)
    train(run, on_step(2, run.stop_path.touch))
    expected = load_encoder(teacher.checkpoint()).encode(make_plan(run.config()).corpus.texts)
    (file,) = (cache_dir() / "vectors").iterdir()
    assert np.array_equal(np.load(file), expected)
    teacher.write_config(teacher.config().with_values({"train.max_steps": 6}))
    train(teacher)
    with pytest.raises(DataError, match="teacher has other weights than those with which the run began"):
        train(run)


@pytest.mark.parametrize("form", ["negatives", "sentences"])
def test_a_guide_sees_every_text_of_a_row_and_drops_false_negatives(
    tiny: Tiny, tmp_path: Path, stranger: Path, form: str
) -> None:
    trainer = trainer_of(tiny, tmp_path, "simcse", form, objective__guide=str(stranger), objective__same_side=True)
    rows = first_batch(trainer).rows
    views = views_of(trainer, rows)
    assert views.keys() == {f"guide_{view}" for view in rows.ids}
    texts = [trainer.plan.corpus.texts[int(i)] for i in rows.ids["positive"]]
    expected = torch.from_numpy(load_encoder(stranger).encode(texts))
    assert_near(views["guide_positive"], expected)
    assert trainer.plan.negatives_per_anchor == 15 + 15 + {"negatives": 24, "sentences": 0}[form]
    plain = trainer_of(tiny, tmp_path, "simcse", form, objective__same_side=True)
    guided, unguided = (one.stepper.backward(first_batch(one)).loss for one in (trainer, plain))
    assert guided == unguided if form == "sentences" else guided < unguided  # a sentence is closest to itself


def targets(trainer: Trainer, texts: list[str]) -> Tensor:
    """The teacher's views of some texts of a corpus."""
    numbers = torch.tensor([list(trainer.plan.corpus.texts).index(text) for text in texts])
    return views_of(trainer, Rows({"anchor": numbers}))["teacher_anchor"]


def test_a_sentence_is_read_once_to_learn_its_embedding(tiny: Tiny, tmp_path: Path, stranger: Path) -> None:
    """Whatever the rows, each text of them is learnt; of a teacher of the student's width all numbers are kept."""
    trainer = trainer_of(tiny, tmp_path, "embed", "triplets", objective__teachers=f"{tiny.backbone}:cls")
    batch, texts = first_batch(trainer), list(trainer.plan.corpus.texts)
    assert len(texts) == len(trainer.plan.corpus) == 480 and list(batch.views) == ["anchor"]
    vectors = torch.from_numpy(load_encoder(tiny.backbone, "cls").encode(texts))
    assert_near(targets(trainer, texts), torch.nn.functional.normalize(vectors))
    outcome = trainer.stepper.backward(batch)
    assert outcome.views.keys() == {"anchor"}


def test_of_a_wider_teacher_the_directions_are_kept_that_change_cosines_least(
    tiny: Tiny, tmp_path: Path, stranger: Path
) -> None:
    words = f"{tiny.backbone},{stranger}=0.5"
    trainer = trainer_of(tiny, tmp_path, "embed", "sentences", objective__teachers=words)
    texts = list(trainer.plan.corpus.texts)
    made = targets(trainer, texts).double().numpy()
    parts = [share * load_encoder(folder).encode(texts) for folder, share in ((tiny.backbone, 1), (stranger, 1))]
    weights = ((2 / 3) ** 0.5, (1 / 3) ** 0.5)
    whole = np.hstack([w * v / np.linalg.norm(v, axis=1, keepdims=True) for w, v in zip(weights, parts, strict=True)])
    assert whole.shape == (160, 48) and made.shape == (160, 32)
    # Of all projections to 32 numbers, that of the largest singular values changes the products least.
    left = np.linalg.svd(whole, compute_uv=False)[32:]
    error = np.linalg.norm(whole @ whole.T - made @ made.T)
    assert error == pytest.approx(np.linalg.norm(left**2), rel=1e-3)
    variances = (made**2).sum(axis=0)
    assert list(variances) == sorted(variances, reverse=True)


def test_a_resumed_run_keeps_its_directions(
    tiny: Tiny, place: Path, stranger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On another machine they might point the other way."""
    changes: dict[str, object] = {"objective__teachers": f"{tiny.backbone},{stranger}", "dev__data": "none"}
    changes |= {"train__max_steps": 8, "train__save_every": 4}
    eigh, directions = torch.linalg.eigh, itertools.cycle((1, -1))

    def turned(x: Tensor) -> object:
        return SimpleNamespace(eigenvectors=next(directions) * eigh(x).eigenvectors)

    monkeypatch.setattr(torch.linalg, "eigh", turned)
    train_with_a_kill(tiny.run(place, "embed", "sentences", **changes), 4)


def test_a_student_wider_than_its_teacher_is_refused(tiny: Tiny, place: Path, stranger: Path) -> None:
    with pytest.raises(UsageError, match=r"the teacher's embeddings have 16 numbers, and the student's 32") as caught:
        trainer_of(tiny, place, "embed", "sentences", objective__teachers=str(stranger))
    assert "contrast mine --score-with" in caught.value.hint


def test_what_cannot_be_imported_of_an_objective_is_named() -> None:
    missing = AuxiliarySpec("contrastcli.training.auxiliaries.views:NoSuchViews")
    with pytest.raises(UsageError, match="NoSuchViews cannot be imported"):
        make_auxiliaries(Mock(auxiliaries=lambda: [missing]))
