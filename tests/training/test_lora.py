"""Training with LoRA, and with frozen layers: what is trained, saved, resumed, and equal in other software."""

import json
import shutil
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from safetensors.numpy import load_file

from contrastcli.commands.export.export import export_model
from contrastcli.commands.train import preview
from contrastcli.errors import DataError, UsageError
from contrastcli.model.folder import load_encoder
from contrastcli.model.locate import resolve
from contrastcli.runs.directory import Run, remove
from contrastcli.runs.events import Note
from contrastcli.runs.measured import Evaluated
from contrastcli.show import settings as show
from support.contracts import write_embedder
from support.resuming import state, train_with_a_kill
from support.rounding import assert_near
from support.tiny import Tiny, told, train
from support.trainers import assert_cache_changes_nothing, trainer_of

if find_spec("peft") is None:
    pytest.skip("LoRA needs the package peft", allow_module_level=True)
pytestmark = pytest.mark.filterwarnings("ignore")  # of the other libraries

TEXTS = ["ba den fir", "go", "lum ka ten sir do bum fa gen"]
LORA: dict[str, Any] = {"model__lora": 4, "model__lora_dropout": 0.1, "train__max_steps": 12}


@pytest.fixture(scope="module")
def adapter(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A finished run; no test may change it."""
    return tiny.trained(tmp_path_factory.mktemp("lora") / "one", "simcse", "pairs", **LORA)


def test_a_run_keeps_its_adapter_names_its_base_and_says_what_is_equal(tiny: Tiny, adapter: Run) -> None:
    folder = adapter.checkpoint()
    weights = load_file(folder / "adapter_model.safetensors")
    assert not (folder / "model.safetensors").exists() and all(".lora_" in name for name in weights)
    assert {name.split(".")[5] for name in weights} == {"attention", "intermediate", "output"}
    assert json.loads((folder / "base.json").read_text())["base"]["name"] == str(tiny.backbone)
    (trained,) = [note.text for note in told(adapter, Note) if "are trained" in note.text]
    assert trained.startswith(f"{sum(w.size for w in weights.values()):,} of the backbone's ")
    optimizer = load_file(folder / "training" / "optimizer.safetensors")
    moments = sum(tensor.size for name, tensor in optimizer.items() if name.endswith("exp_avg"))
    assert moments == sum(w.size for w in weights.values())
    (equal,) = [note.text for note in told(adapter, Note) if note.text.startswith("the adapter changes")]
    assert "one text as in a batch" in equal and "merged" in equal and "exported, in " in equal and "bug" not in equal


def test_a_finished_run_is_finished_whatever_the_other_library_says(
    tiny: Tiny, place: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    settings = LORA | {"train__max_steps": 1}
    assert train(tiny.run(place.with_name("prompts"), "simcse", "pairs", model__prompts="query: ", **settings))
    assert not caplog.messages, "the other library says that there is a prompt"

    fail = Mock(side_effect=RuntimeError("of another version"))
    monkeypatch.setattr("contrastcli.training.equalities.save_encoder", fail)
    run = tiny.run(place, "simcse", "pairs", **settings)
    assert train(run).status == "finished"
    assert [note for note in told(run, Note) if note.text.endswith("the rest was not measured: of another version")]


def test_a_dry_run_says_that_checkpoints_are_small(tiny: Tiny, place: Path) -> None:
    planned = dict(show.planned(preview(tiny.config("simcse", "pairs", **LORA), Run(place))))
    assert planned["disk"] == "little: checkpoints hold the adapter alone"


def test_before_the_first_step_it_is_the_backbone(tiny: Tiny, tmp_path: Path) -> None:
    encoder = trainer_of(tiny, tmp_path, "simcse", "pairs", **LORA).encoder
    assert_near(encoder.eval().encode(TEXTS), load_encoder(tiny.backbone).eval().encode(TEXTS))


def test_a_killed_run_ends_as_if_nothing_had_happened(tiny: Tiny, tmp_path: Path) -> None:
    settings = LORA | {"train__max_steps": 4, "train__save_every": 2, "dev__every": 3, "train__precision": "bf16"}
    settings |= {"train__token_budget": 200, "model__freeze": "1", "model__head": "keep"}
    settings |= {"model__lora_targets": "query,value"}
    killed = train_with_a_kill(tiny.run(tmp_path / "one", "simcse", "pairs", **settings), 2)
    assert "last/adapter_model.safetensors" in state(killed)


@pytest.mark.parametrize(
    ("objective", "form", "changes"),
    [
        ("simcse", "sentences", {"objective__mlm_weight": 0.1}),
        ("pairsupcon", "labelled", {}),
        ("pcl", "sentences", {}),
        ("rankcse", "pairs", {}),
        ("embed", "sentences", {}),
    ],
)
def test_whatever_is_beside_the_encoder_the_adapter_alone_is_trained_with_the_cache_too(
    tiny: Tiny, tmp_path: Path, objective: str, form: str, changes: dict[str, object]
) -> None:
    trainer = trainer_of(tiny, tmp_path, objective, form, **LORA, **changes)
    moved = {name for name, gradient in assert_cache_changes_nothing(trainer).items() if gradient.any()}
    inside = {name for name in moved if ".layers." in name or ".words." in name or ".positions." in name}
    assert inside and all(".lora_B." in name for name in inside), "A has no gradient as long as B is 0"


def test_a_run_with_an_adapter_is_a_backbone_but_not_of_another(tiny: Tiny, tmp_path: Path, adapter: Run) -> None:
    world = replace(tiny, backbone=adapter.path)
    second = world.trained(tmp_path / "two", "simcse", "pairs", train__max_steps=1, train__lr=1e-9)
    assert (second.checkpoint() / "model.safetensors").exists()
    assert told(second, Evaluated)[0].score == pytest.approx(told(adapter, Evaluated)[-1].score, abs=1e-4)
    assert_near(load_encoder(second.checkpoint()).encode(TEXTS), load_encoder(adapter.checkpoint()).encode(TEXTS))
    masked = world.run(tmp_path / "masked", "simcse", "pairs", train__max_steps=1, objective__mlm_weight=0.1)
    assert train(masked).status == "finished", "the language-model head is the base's"
    with pytest.raises(UsageError, match="is an adapter already") as raised:
        train(world.run(tmp_path / "three", "simcse", "pairs", **LORA))
    assert f"contrast export {adapter.path} FOLDER" in raised.value.hint


def test_a_base_that_is_gone_or_another_is_named(tiny: Tiny, tmp_path: Path) -> None:
    base = Path(shutil.copytree(tiny.backbone, tmp_path / "my base"))
    run = replace(tiny, backbone=base).trained(tmp_path / "run", "simcse", "pairs", **LORA | {"train__max_steps": 1})
    shutil.rmtree(base)
    with pytest.raises(DataError, match=f"is an adapter of {base}, which is missing") as raised:
        load_encoder(run.checkpoint())
    assert raised.value.hint.endswith(f"ln -s FOLDER '{base}'")
    shutil.copytree(write_embedder(tiny.backbone, tmp_path / "other"), base)
    with pytest.raises(DataError, match=f"is an adapter of {base}, which has other weights now"):
        load_encoder(run.checkpoint())


def test_a_base_that_another_run_trained_stays_when_that_one_goes(tiny: Tiny, tmp_path: Path) -> None:
    other = tiny.trained(tmp_path / "other", "simcse", "pairs", train__max_steps=1)
    world = replace(tiny, backbone=other.path)
    run = world.trained(tmp_path / "run", "simcse", "pairs", **LORA | {"train__max_steps": 2})
    before, weights = load_encoder(run.checkpoint()).encode(TEXTS), run.base_dir / "model.safetensors"
    assert weights.samefile(other.checkpoint() / "model.safetensors")
    remove(other)
    moved = Run(run.path.rename(tmp_path / "moved"))
    assert load_encoder(moved.checkpoint()).encode(TEXTS).tobytes() == before.tobytes()
    export_model(resolve(str(moved.path)), tmp_path / "adapter", adapter=True)
    assert_near(load_encoder(tmp_path / "adapter").encode(TEXTS), before)
    (tmp_path / "lib" / "base").mkdir(parents=True)
    copied = Path(shutil.copytree(moved.checkpoint(), tmp_path / "lib" / "adapters" / "one"))
    with pytest.raises(DataError, match="is missing"):
        load_encoder(copied)


@pytest.mark.parametrize(("words", "kept"), [("embeddings", 0), ("1", 1)])
def test_frozen_weights_stay_as_they_were(tiny: Tiny, place: Path, words: str, kept: int) -> None:
    run = tiny.trained(place, "simcse", "pairs", train__max_steps=2, model__freeze=words)
    before, after = (load_encoder(folder).backbone.state_dict() for folder in (tiny.backbone, run.checkpoint()))
    same = {name for name, tensor in before.items() if torch.equal(tensor, after[name])}
    frozen = {name for name in before if ".layers." not in name or int(name.split(".layers.")[1][0]) < kept}
    assert same == frozen
    assert any("are trained (" in note.text for note in told(run, Note))
