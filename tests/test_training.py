"""A run from its first event to its last: what it says, what it keeps, and how it ends."""

from __future__ import annotations

import json
import math
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny import Tiny, train, write_tokenizer

from contrastcli.config import Train
from contrastcli.errors import ContrastError, DataError, DivergedError, InterruptedEarly, UsageError
from contrastcli.events import Angles, AnyEvent, Done, Evaluated, Note, Saved, Started, Step
from contrastcli.model.folder import load_encoder
from contrastcli.runs import Run
from contrastcli.training import loop
from contrastcli.training.dev import DevSet
from contrastcli.training.optim import rate

E = TypeVar("E", bound=AnyEvent)


def told(run: Run, kind: type[E]) -> list[E]:
    return [event for event in run.events() if isinstance(event, kind)]


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def on_step(number: int, act: Callable[[], object]) -> Callable[[AnyEvent], None]:
    """Something to do as soon as that step is logged."""
    return lambda event: act() if isinstance(event, Step) and event.step == number else None  # type: ignore[func-returns-value]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "runs" / "one"


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let the dev set say these scores, one an evaluation, step 0 first."""

    def script(*scores: float | None) -> None:
        left = iter(scores)

        def evaluate(self: DevSet, encoder: object, step: int) -> Evaluated:
            return Evaluated(step=step, spearman=next(left), alignment=0.1, uniformity=-1.0, pairs=30)

        monkeypatch.setattr(DevSet, "evaluate", evaluate)

    return script


# ---- what a run says ------------------------------------------------------------------------------------------------


def test_a_run_tells_its_story_in_order(tiny: Tiny, place: Path) -> None:
    run = tiny.run(place, dev__every=10, train__log_every=7)
    assert train(run) == Done(step=20, status="finished", code=0)
    story = [(type(event).__name__, event.step) for event in run.events() if not isinstance(event, Note)]
    steps = [("Step", 1), ("Angles", 1), ("Step", 7), ("Angles", 7)]
    middle = [("Evaluated", 10), ("Saved", 10), ("Step", 14), ("Angles", 14)]
    end = [("Step", 20), ("Angles", 20), ("Evaluated", 20), ("Saved", 20), ("Done", 20)]
    assert [(name, step) for name, step in story if name != "Progress"] == [
        ("Started", 0),
        ("Evaluated", 0),
        *steps,
        *middle,
        *end,
    ]
    started = told(run, Started)[0]
    assert (started.steps, started.steps_per_epoch, started.batch_size, started.sentences_per_step) == (20, 20, 8, 16)
    assert (started.negatives_per_anchor, started.device, started.precision) == (14, "cpu", "fp32")
    assert run.status().state == "finished"


@pytest.mark.parametrize(
    "changes",
    [{"train__warmup": 0.25}, {"train__schedule": "cosine", "train__epochs": 2}, {"train__schedule": "constant"}],
)
def test_the_logged_rate_is_the_one_that_the_optimiser_used(
    tiny: Tiny, place: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, object]
) -> None:
    used: list[float] = []
    original = torch.optim.AdamW.step

    def step(self: torch.optim.AdamW) -> None:
        used.append(self.param_groups[0]["lr"])
        original(self)

    monkeypatch.setattr(torch.optim.AdamW, "step", step)
    run = tiny.run(place, train__max_steps=15, **changes)
    train(run)
    settings = Train(**{key.removeprefix("train__"): value for key, value in changes.items()})  # type: ignore[arg-type]
    assert [event.lr for event in told(run, Step)] == used
    assert used == pytest.approx([1e-3 * rate(settings, step, 15) for step in range(1, 16)])


def test_loss_is_the_sum_of_its_parts_and_epochs_are_counted(tiny: Tiny, place: Path) -> None:
    run = tiny.run(place, objective__beta=3.0, train__epochs=2, train__max_steps=30)
    train(run)
    steps = told(run, Step)
    for event in steps:
        parts = event.parts
        assert event.loss == pytest.approx(parts["classification"] + 3 * parts["contrast"], rel=1e-5)  # type: ignore[operator]
        assert event.grad_norm is not None and event.grad_norm > 0
    assert [event.epoch for event in steps] == pytest.approx([step / 20 for step in range(1, 31)], abs=1e-4)


def test_training_learns_the_rows(tiny: Tiny, place: Path) -> None:
    run = tiny.run(place, "simcse", "sentences", train__epochs=6, dev__data="none")
    train(run)
    losses = [event.loss for event in told(run, Step)]
    assert sum(losses[-20:]) < 0.5 * sum(losses[:20])  # type: ignore[arg-type]
    gaps = [event.negative - event.positive for event in told(run, Angles)]  # type: ignore[operator]
    assert gaps[-1] > gaps[0] + 10  # degrees


def test_notes_of_settings_and_data_are_told(tiny: Tiny, place: Path) -> None:
    run = tiny.run(place, "simcse", "labelled", model__max_length=100, train__max_steps=1)
    train(run)
    notes = [event.text for event in told(run, Note)]
    assert any("became" in note for note in notes)
    assert any("max_length is 32, the most that this backbone reads" in note for note in notes)


# ---- what it keeps --------------------------------------------------------------------------------------------------


def test_best_keeps_the_model_and_last_what_resuming_needs(
    tiny: Tiny, place: Path, scripted: Callable[..., None]
) -> None:
    scripted(0.99, 0.1, 0.5, 0.3, 0.4)
    run = tiny.run(place, dev__every=5)
    train(run)
    assert run.checkpoints() == {"last": "000020", "best": "000010"}
    assert {path.name for path in run.checkpoints_dir.iterdir()} == {"000010", "000020"}
    best, last = files(run.checkpoint("best")), files(run.checkpoint("last"))
    assert {name for name in last if name.startswith("training/")} == {
        "training/heads.safetensors",
        "training/optimizer.safetensors",
        "training/position.json",
    }
    assert best == {name for name in last if not name.startswith("training/")}
    assert [(event.step, event.best) for event in told(run, Saved)] == [
        (5, True),
        (10, True),
        (15, False),
        (20, False),
    ]
    assert [event.best for event in told(run, Evaluated)] == [False, True, True, False, False]


def test_the_untrained_score_is_shown_and_no_candidate(tiny: Tiny, place: Path, scripted: Callable[..., None]) -> None:
    scripted(0.9, 0.1, 0.2)
    run = tiny.run(place, dev__every=10)
    train(run)
    assert told(run, Evaluated)[0].spearman == 0.9
    assert run.checkpoints()["best"] == "000020"
    assert run.status().best == 0.2


def test_a_new_best_is_saved_between_saves(tiny: Tiny, place: Path, scripted: Callable[..., None]) -> None:
    scripted(0.0, 0.1, 0.3, 0.2, 0.25, 0.2)
    run = tiny.run(place, dev__every=4, train__save_every=10)
    train(run)
    assert [event.step for event in told(run, Saved)] == [4, 8, 10, 20]
    assert run.checkpoints() == {"last": "000020", "best": "000008"}


def test_the_best_model_scores_what_was_told(tiny: Tiny, place: Path) -> None:
    run = tiny.run(place, dev__every=5, train__epochs=2)
    train(run)
    from contrastcli.data.sources import load_scored

    pairs = load_scored(str(tiny.dev))
    assert pairs is not None
    best = load_encoder(run.checkpoint("best"))
    again = DevSet.of(pairs, best).evaluate(best, 0)
    scores = {event.step: event.spearman for event in told(run, Evaluated) if event.step}
    assert scores[int(run.checkpoints()["best"])] == again.spearman == max(scores.values())  # type: ignore[type-var]


def test_without_a_dev_set_there_is_no_best_and_last_counts(tiny: Tiny, place: Path) -> None:
    run = tiny.run(place, dev__data="none", dev__every=8)
    train(run)
    assert run.checkpoints() == {"last": "000020"}
    assert run.checkpoint().name == "000020"
    assert told(run, Evaluated) == []
    assert [event.step for event in told(run, Saved)] == [8, 16, 20]


def test_an_undefined_score_is_never_the_best(tiny: Tiny, place: Path, scripted: Callable[..., None]) -> None:
    scripted(None, None, 0.2, None)
    run = tiny.run(place, dev__every=7)
    train(run)
    assert run.checkpoints() == {"last": "000020", "best": "000014"}


def test_training_stops_when_patience_ends_and_keeps_its_last_state(
    tiny: Tiny, place: Path, scripted: Callable[..., None]
) -> None:
    scripted(0.0, 0.1, 0.3, 0.3, 0.2, 0.9, 0.9, 0.9, 0.9, 0.9)
    run = tiny.run(place, dev__every=2, dev__patience=2, train__save_every=20)
    assert train(run) == Done(step=8, status="finished", code=0)
    assert run.checkpoints() == {"last": "000008", "best": "000004"}
    assert told(run, Note)[-1].text == "stopped early: 2 evaluations without a best"


def test_an_early_stop_that_a_kill_cut_short_takes_no_further_step(
    tiny: Tiny, place: Path, scripted: Callable[..., None]
) -> None:
    def killed(event: AnyEvent) -> None:
        if isinstance(event, Note) and "stopped early" in event.text:
            raise SystemExit

    run = tiny.run(place, dev__every=2, dev__patience=2)
    scripted(0.0, 0.3, 0.2, 0.2)
    with pytest.raises(SystemExit):
        train(run, killed)
    assert train(run) == Done(step=6, status="finished", code=0)


def test_a_collapsing_score_is_said_as_it_happens(tiny: Tiny, place: Path, scripted: Callable[..., None]) -> None:
    scripted(0.9, 0.6, 0.51, 0.49, None)
    run = tiny.run(place, dev__every=5)
    train(run)
    falls = [(event.step, event.text) for event in told(run, Note) if "collapsing" in event.text]
    assert [step for step, _ in falls] == [15, 20]
    assert "fell to 49.00 from 60.00 at step 5" in falls[0][1]
    assert "undefined" in falls[1][1]


def test_a_head_for_training_only_is_dropped_and_a_kept_one_is_in_the_model(tiny: Tiny, place: Path) -> None:
    for head, kept in [("train-only", False), ("keep", True)]:
        run = tiny.run(place.with_name(head), "simcse", "sentences", model__head=head, train__max_steps=2)
        train(run)
        assert (load_encoder(run.checkpoint()).dense is not None) == kept
        assert any(name.startswith("2_Dense") for name in files(run.checkpoint())) == kept
        heads = load_file(run.checkpoint("last") / "training" / "heads.safetensors")
        assert any(name.startswith("projection") for name in heads) != kept


def test_the_backbone_stays_as_it_is(tiny: Tiny, place: Path) -> None:
    before = {path: path.read_bytes() for path in tiny.backbone.iterdir()}
    run = tiny.run(place, train__max_steps=3)
    train(run)
    assert {path: path.read_bytes() for path in tiny.backbone.iterdir()} == before
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        assert (run.checkpoint() / name).is_file()


# ---- how it ends ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_step_saves_and_stops(tiny: Tiny, place: Path, number: signal.Signals) -> None:
    before = signal.getsignal(number)
    run = tiny.run(place)
    assert train(run, on_step(7, lambda: signal.raise_signal(number))) == Done(step=7, status="stopped", code=0)
    assert run.checkpoints()["last"] == "000007"
    assert run.status().state == "stopped"
    assert signal.getsignal(number) is before
    assert train(run) == Done(step=20, status="finished", code=0)


def test_a_stop_request_does_the_same(tiny: Tiny, place: Path) -> None:
    run = tiny.run(place)
    assert train(run, on_step(5, run.stop_path.touch)) == Done(step=5, status="stopped", code=0)
    assert not run.stop_path.exists()
    assert run.checkpoints()["last"] == "000005"


def test_a_lost_terminal_ends_nothing(tiny: Tiny, place: Path) -> None:
    run = tiny.run(place)
    assert train(run, on_step(5, lambda: signal.raise_signal(signal.SIGHUP))).status == "finished"


def test_an_interrupt_before_the_loop_says_that_nothing_was_saved(tiny: Tiny, place: Path) -> None:
    def interrupt(event: AnyEvent) -> None:
        if isinstance(event, Started):
            signal.raise_signal(signal.SIGINT)

    run = tiny.run(place)
    with pytest.raises(InterruptedEarly) as raised:
        train(run, interrupt)
    assert raised.value.code == 130
    done = told(run, Done)[-1]
    assert (done.status, done.code, done.message) == ("stopped", 130, "interrupted")
    assert "no step had been saved" in done.hint


@pytest.mark.parametrize(("step", "code"), [(3, 130), (15, 1)])
def test_a_second_interrupt_ends_it_at_once(tiny: Tiny, place: Path, step: int, code: int) -> None:
    def twice() -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    run = tiny.run(place, dev__every=10)
    with pytest.raises(ContrastError) as raised:
        train(run, on_step(step, twice))
    done = told(run, Done)[-1]
    assert (raised.value.code, done.code, done.status, done.step) == (code, code, "stopped", step)
    assert run.checkpoints() == ({} if code == 130 else {"last": "000010", "best": "000010"})
    assert train(run).status == "finished"


def test_an_unexpected_error_is_told_and_raised(tiny: Tiny, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(loop.angles, "measure", broken)
    run = tiny.run(place)
    with pytest.raises(ZeroDivisionError):
        train(run)
    done = told(run, Done)[-1]
    assert (done.status, done.code, done.message) == ("failed", 1, "ZeroDivisionError: division by zero")
    assert run.status().state == "failed"


@pytest.fixture
def explosive(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """From step 7 on, the learning rate is enormous."""
    original = loop.set_rate

    def set_rate(optimizer: torch.optim.Optimizer, settings: Train, step: int, steps: int) -> float:
        lr = original(optimizer, settings, step, steps)
        for group in optimizer.param_groups if step >= 7 else ():
            group["lr"] = 1e30
        return lr

    monkeypatch.setattr(loop, "set_rate", set_rate)
    yield


def finite(file: Path) -> bool:
    return all(bool(tensor.isfinite().all()) for tensor in load_file(file).values())


@pytest.mark.usefixtures("explosive")
@pytest.mark.parametrize("clip", [0.0, 1.0])
def test_a_diverging_run_stops_with_its_batch_written_down(tiny: Tiny, place: Path, clip: float) -> None:
    run = tiny.run(place, train__save_every=2, train__log_every=100, train__clip=clip, dev__every=2)
    with pytest.raises(DivergedError, match="step 8") as raised:
        train(run)
    done = told(run, Done)[-1]
    assert raised.value.code == done.code == 4
    assert (done.status, run.status().state) == ("diverged", "diverged")
    assert "--lr" in done.hint
    last = run.checkpoint("last")
    assert last.name == "000006"
    assert finite(last / "model.safetensors") and finite(last / "training" / "optimizer.safetensors")

    written = json.loads((run.path / "diverged.json").read_text())
    rows = [json.loads(line) for line in tiny.data["labelled"].read_text().splitlines()]
    assert written["step"] == 8
    assert len(written["rows"]) == 8
    assert written["anchor"] == [rows[row]["premise"] for row in written["rows"]]
    assert written["positive"] == [rows[row]["hypothesis"] for row in written["rows"]]


def test_a_broken_weight_diverges_at_the_first_step(tiny: Tiny, place: Path, tmp_path: Path) -> None:
    backbone = tmp_path / "broken"
    backbone.mkdir()
    (backbone / "config.json").write_bytes((tiny.backbone / "config.json").read_bytes())
    write_tokenizer(backbone)
    weights = load_file(tiny.backbone / "model.safetensors")
    weights["embeddings.word_embeddings.weight"][:, 3] = math.inf
    save_file(weights, backbone / "model.safetensors")
    run = tiny.run(place, model__backbone=str(backbone))
    with pytest.raises(DivergedError, match="step 1"):
        train(run)
    assert run.checkpoints() == {}
    assert told(run, Evaluated)[0].spearman is None


def test_a_batch_larger_than_the_data_starts_nothing(tiny: Tiny, place: Path) -> None:
    run = tiny.run(place, train__batch_size=161)
    with pytest.raises(UsageError, match="the data has 160 rows"):
        train(run)
    assert run.events() == []


def test_a_run_does_not_go_on_with_other_rows(tiny: Tiny, place: Path, tmp_path: Path) -> None:
    data = tmp_path / "rows.jsonl"
    lines = tiny.data["labelled"].read_text().splitlines(keepends=True)
    data.write_text("".join(lines))
    run = tiny.run(place, data__train=str(data))
    train(run, on_step(5, run.stop_path.touch))
    data.write_text("".join(lines[2:] + lines[:2]))
    with pytest.raises(DataError, match="not those that the run began with"):
        train(run)
    data.write_text("".join(lines))
    assert train(run).status == "finished"


# ---- precision and seeds --------------------------------------------------------------------------------------------


def weights(run: Run) -> dict[str, torch.Tensor]:
    return load_file(run.checkpoint("last") / "model.safetensors")


def test_bf16_trains_finite_fp32_weights_and_repeats_itself(tiny: Tiny, place: Path) -> None:
    made = []
    for name, changes in [("a", {}), ("b", {}), ("c", {"train__seed": 7}), ("d", {"train__precision": "fp32"})]:
        run = tiny.run(place.with_name(name), **{"train__precision": "bf16", "train__max_steps": 8, **changes})
        train(run)
        assert all(event.loss is not None for event in told(run, Step))
        made.append(weights(run))
    assert {tensor.dtype for tensor in made[0].values()} == {torch.float32}
    first, again, other_seed, full = made
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not all(torch.equal(first[name], other_seed[name]) for name in first)
    assert not all(torch.equal(first[name], full[name]) for name in first)
    for name in first:
        torch.testing.assert_close(first[name], full[name], rtol=0, atol=0.02)


def test_runs_of_one_seed_are_equal_and_of_another_differ(tiny: Tiny, place: Path) -> None:
    made = []
    for name, seed in [("a", 1), ("b", 1), ("c", 2)]:
        run = tiny.run(place.with_name(name), train__seed=seed, train__max_steps=6)
        train(run)
        made.append(weights(run))
    assert all(torch.equal(made[0][name], made[1][name]) for name in made[0])
    assert not any(torch.equal(made[0][name], made[2][name]) for name in made[0] if name.endswith("query.weight"))
