"""A run that was killed and resumed equals one that was not, bit for bit. See test_kills.py for kills at any moment."""

import json
import shutil
import sys
from pathlib import Path

import pytest
from safetensors.torch import load_file
from torch import nn

from contrastcli.api import ObjectiveSettings, Spec
from contrastcli.errors import DataError
from contrastcli.files import flush_tree
from contrastcli.model.folder import load_encoder
from contrastcli.objectives.functional import Result, Views
from contrastcli.objectives.rows import Rows
from contrastcli.runs import directory as runs
from contrastcli.runs.directory import Run
from contrastcli.runs.events import Done, Note
from contrastcli.training import checkpoint
from support.families import write_family
from support.packages import bring_objective
from support.resuming import Killed, state, train_with_a_kill
from support.tiny import Tiny, on_step, told, train

SHORT = {"train__max_steps": 8, "train__save_every": 4, "dev__every": 4}


@pytest.mark.parametrize(
    ("objective", "form", "step", "changes"),
    [
        ("pairsupcon", "labelled", 25, {"model__head": "keep", "train__head_lr": 1e-2, "train__epochs": 3}),
        ("pairsupcon", "labelled", 20, {"train__save_every": 20}),  # at an epoch's end
        ("supcon", "grouped", 31, {"objective__positives": 1, "objective__negatives": 4}),
        ("simcse", "triplets", 13, {"objective__mlm_weight": 0.1, "model__head": "train-only", "train__warmup": 0.3}),
        pytest.param("simcse", "negatives", 13, {"train__token_budget": 200}, marks=pytest.mark.slow),
        pytest.param("simcse", "pairs+sentences", 33, {"data__mix": "one"}, marks=pytest.mark.slow),
        ("dcl", "pairs+triplets", 44, {"data__mix_temperature": 2, "data__mine_every": 30}),  # between two minings
        ("dcl", "triplets", 20, {"data__mine_every": 10, "data__mine_below": 0.99}),  # at one
        ("simcse", "negatives", 18, {"data__mine_every": 6, "data__mine_below": 1}),
        ("simcse", "pairs", 2, {"train__schedule": "cosine", "train__epochs": 1}),  # before anything was saved
        pytest.param(
            *("pcl", "sentences", 5),
            {"model__head": "train-only", "train__token_budget": 600, **SHORT},
            marks=pytest.mark.slow,
        ),
        ("pcl", "sentences", 2, {"objective__similarity": "angle", "train__weight_decay": 0.1, **SHORT}),
        ("rankcse", "sentences", 5, {"objective__distillation": "listnet", **SHORT}),
        ("pairsupcon", "labelled", 5, {"model__head": "keep", "model__dims": "8=0.5,16", **SHORT}),
        ("simcse", "sentences", 5, {"model__pooling": "mask", "model__suffix": "gum [MASK] lo", **SHORT}),
    ],
)
def test_a_killed_run_ends_as_if_nothing_had_happened(
    tiny: Tiny, tmp_path: Path, objective: str, form: str, step: int, changes: dict[str, object]
) -> None:
    settings = {"train__epochs": 2, "train__max_steps": step + 6, "train__save_every": 5, "dev__every": 10} | changes
    if "+" in form:  # several sets
        settings["data__train"] = ",".join(f"{tiny.data[one]}={n}" for n, one in enumerate(form.split("+"), 1))
        form = "pairs"
    train_with_a_kill(tiny.run(tmp_path / "whole", objective, form, **settings), step)


def test_a_killed_run_of_encoders_by_transformers_ends_as_if_nothing_had_happened(tiny: Tiny, tmp_path: Path) -> None:
    """They have buffers that are not saved, and a config in an order of its own."""
    backbone = str(write_family("electra", tmp_path / "electra"))
    changes = {"model__backbone": backbone, "model__dims": "8,16", **SHORT}
    train_with_a_kill(tiny.run(tmp_path / "whole", "pcl", "sentences", **changes), 5)


@pytest.mark.usefixtures("four_threads")
def test_a_killed_run_on_several_threads_ends_as_if_nothing_had_happened(tiny: Tiny, tmp_path: Path) -> None:
    train_with_a_kill(tiny.run(tmp_path / "whole", "simcse", "triplets", train__token_budget=200, **SHORT), 5)


def tied_heads(width: int) -> nn.ModuleDict:
    first, second = nn.Linear(width, width), nn.Linear(width, width)
    second.weight = first.weight
    return nn.ModuleDict({"first": first, "second": second})


def over_tied_heads(views: Views, rows: Rows, heads: nn.ModuleDict) -> Result:
    return (heads["first"](views["anchor"]) - heads["second"](views["positive"])).square().mean(), {}


def test_heads_that_share_a_weight_are_saved_and_share_it_still(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loss, heads = (f"{__name__}:{name}" for name in ("over_tied_heads", "tied_heads"))
    spec = Spec("tied", ObjectiveSettings, ("pairs",), loss, "Someone 2030", heads=heads)
    bring_objective(monkeypatch, spec.name, lambda: spec)
    train_with_a_kill(tiny.run(tmp_path / "whole", spec.name, "pairs", **SHORT), 5)


def test_a_grouped_objective_has_epochs_of_different_lengths(tiny: Tiny, tmp_path: Path) -> None:
    from contrastcli.training.plan import make_plan

    plan = make_plan(tiny.config("supcon", "grouped", train__epochs=6))
    lengths = [len(plan.order.epoch(number)) for number in range(6)]
    assert len(set(lengths)) > 1  # else resuming would prove nothing
    assert plan.steps == sum(lengths)
    everything = [(step, epoch, rows.tolist()) for step, epoch, rows in plan.batches(0)]
    assert [step for step, _, _ in everything] == list(range(1, plan.steps + 1)) and everything[-1][1] == 6
    for start_at in (1, lengths[0], lengths[0] + 3, plan.steps):
        rest = [(step, epoch, rows.tolist()) for step, epoch, rows in plan.batches(start_at)]
        assert rest == everything[start_at:]


@pytest.fixture(scope="module")
def stopped_once(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run that was stopped after two steps; no test may change it."""
    run = tiny.run(tmp_path_factory.mktemp("stopped") / "one")
    train(run, on_step(2, run.stop_path.touch))
    return run


@pytest.fixture
def stopped(stopped_once: Run, tmp_path: Path) -> Run:
    """A copy of it, which a test may damage."""
    return Run(Path(shutil.copytree(stopped_once.path, tmp_path / "one")))


@pytest.mark.parametrize(
    ("name", "damage", "words"),
    [
        ("training/position.json", None, "position.json is missing"),
        ("training/optimizer.safetensors", None, "optimizer.safetensors is missing"),
        ("training/heads.safetensors", b"short", "heads.safetensors is damaged: its checksum is not that in"),
        ("training/checksums.json", b"{", "checksums.json is malformed"),
        ("model.safetensors", b"", "model.safetensors is damaged"),
        ("1_Pooling/config.json", None, "config.json is missing"),
    ],
)
def test_a_damaged_checkpoint_is_named_and_left_alone(
    stopped: Run, name: str, damage: bytes | None, words: str
) -> None:
    file = stopped.checkpoint("last") / name
    file.unlink() if damage is None else file.write_bytes(damage)
    with pytest.raises(DataError, match=words) as error:
        train(stopped)
    again = f"train again: contrast train --config {stopped.config_path}, or restore the file from a copy"
    assert error.value.hint == again  # there is no other checkpoint
    assert stopped.checkpoints() == {"last": "000002"}
    assert told(stopped, Done)[-1].status == "failed"


def test_an_incomplete_checkpoint_is_removed_and_one_without_checksums_still_resumes(stopped: Run) -> None:
    for file in stopped.checkpoints_dir.rglob("checksums.json"):
        file.unlink()
    torn = stopped.checkpoints_dir / ".000006.tmp"
    unnamed = stopped.checkpoints_dir / "000005"  # renamed, but checkpoints.json was not yet replaced
    for folder in (torn, unnamed):
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(b"torn")
    assert train(stopped).status == "finished"
    assert {folder.name for folder in stopped.checkpoints_dir.iterdir()} == set(stopped.checkpoints().values())
    assert load_file(stopped.checkpoint() / "model.safetensors")


def test_the_last_checkpoints_are_kept_and_a_run_can_continue_from_each_without_the_compiler(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("torch._dynamo", "torch.fx.experimental.symbolic_shapes"):
        monkeypatch.setitem(sys.modules, name, None)  # importing it takes seconds
    run = tiny.trained(tmp_path / "one", dev__data="none", dev__every=5, train__save_every=3, train__keep=3)
    assert sorted(folder.name for folder in run.checkpoints_dir.iterdir()) == ["000015", "000018", "000020"]
    whole = state(run)
    run.checkpoints_path.write_text('{"last": "000015"}')
    for later in ("000018", "000020"):
        (run.checkpoints_dir / later).rename(run.path / later)
    train(run)
    assert state(run) == whole
    assert runs.prune([run])[run] > 0
    assert run.full_checkpoints() == []
    for folder in run.checkpoints_dir.iterdir():
        load_encoder(folder)  # the checksums of the model are still right


def test_resuming_a_finished_run_takes_no_step_and_notes_that_it_is_not_by_the_version_before(run: Run) -> None:
    before, checkpoints = json.loads(run.environment_path.read_bytes()), state(run)
    began = {"checksum": "of other weights"}
    changed = before | {"contrast": "0.0.1", "threads": 3, "backbone": began}
    run.environment_path.write_text(json.dumps(changed))
    assert train(run) == Done(step=4, status="finished", code=0)
    assert state(run) == checkpoints
    note = f"resumed with contrast {before['contrast']} (was 0.0.1), threads {before['threads']} (was 3)"
    note += f", other weights in {before['backbone']['name']} than it began from"
    assert [event.text for event in told(run, Note)].count(note) == 1
    assert json.loads(run.environment_path.read_bytes())["backbone"] == began


def test_what_led_to_a_checkpoint_is_on_the_disk_before_it(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, flushed = tiny.run(tmp_path / "one", train__save_every=5), list[tuple[int, int]]()

    def record(path: Path) -> None:
        steps = [event.step for event in run.events()]
        saved = [int(folder.name) for folder in run.checkpoints_dir.glob("[!.]*")]
        flushed.append((max(steps, default=0), max(saved, default=-1)))

    monkeypatch.setattr(checkpoint, "flush", record)
    train(run)
    assert len(flushed) > 3 and all(saved < step or not step for step, saved in flushed)


def test_a_checkpoint_that_cannot_be_finished_leaves_the_last_one(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tiny.run(tmp_path / "one", dev__every=5)

    def interrupted(folder: Path) -> None:
        if "000010" in folder.name:
            raise Killed
        flush_tree(folder)

    monkeypatch.setattr(checkpoint, "flush_tree", interrupted)
    with pytest.raises(Killed):
        train(run)
    assert run.checkpoints() == {"last": "000005", "best": "000005"}
    assert {folder.name for folder in run.checkpoints_dir.iterdir()} == {"000005"}
