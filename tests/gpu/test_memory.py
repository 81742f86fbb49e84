"""Memory that runs out costs a smaller budget and a note, wherever it does."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from contrastcli.model import encoder
from contrastcli.model.devices import memory_mb
from contrastcli.runs.events import Note
from contrastcli.runs.measured import Step
from contrastcli.training import loop
from contrastcli.training.passes import Passes
from support.gpu import CUDA, DEVICE, Base, settle
from support.tiny import Tiny, told, train

NO_DEV: dict[str, object] = {"dev__data": "none"}
PLACES: dict[str, tuple[Any, str, dict[str, object]]] = {
    "forward": (Passes, "forward", NO_DEV),
    "backward": (Passes, "backward", NO_DEV),
    "optimiser": (loop, "allocate_state", NO_DEV),
    "dev": (encoder, "side_by_side", {"dev__every": 2}),
    "mining": (encoder, "side_by_side", NO_DEV | {"data__mine_every": 2, "data__mine_below": 0.0}),
}


@pytest.mark.parametrize("place", PLACES)
def test_memory_that_runs_out_somewhere(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """The device itself says that it has no more."""
    owner, name, changes = PLACES[place]
    original, calls = getattr(owner, name), []

    def limited(*words: Any) -> Any:
        calls.append(words)
        if len(calls) == 2:
            torch.empty(1 << 50, dtype=torch.uint8, device=DEVICE)
        return original(*words)

    monkeypatch.setattr(owner, name, limited)
    settings: dict[str, object] = {"train__max_steps": 4, "train__device": DEVICE.type, "train__token_budget": 2_000}
    run = tiny.run(tmp_path / "one", "simcse", "pairs", **(settings | changes))
    assert train(run).status == "finished"
    assert [step.step for step in told(run, Step)] == [1, 2, 3, 4]
    notes = [note.text for note in told(run, Note) if note.text.startswith("memory ran out")]
    assert len(notes) == 1 and len(calls) > 2


@pytest.mark.skipif(not CUDA, reason="a CPU's memory has no such limit")
def test_a_step_that_does_not_fit_is_taken_in_smaller_chunks(
    base: Base, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Of the GPU's memory there are 6 GB: weights, gradients and moments take 1.8, and the batch's graphs 10."""
    settle()
    total = torch.cuda.get_device_properties(DEVICE).total_memory
    torch.cuda.set_per_process_memory_fraction(6e9 / total)
    try:
        run = base.run(
            tmp_path / "one", train__max_steps=6, train__batch_size=512, train__token_budget=60_000, train__log_every=1
        )
        assert train(run).status == "finished"
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    notes = [note.text for note in told(run, Note) if note.text.startswith("memory ran out")]
    record_property("times that memory ran out", len(notes))
    record_property("peak GB", memory_mb(DEVICE) / 1e3)
    assert notes and len(told(run, Step)) == 6
