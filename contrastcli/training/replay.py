"""Steps of a run trained again, in a temporary copy, and compared with what the run recorded, bit for bit."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import torch

from contrastcli.errors import RunError
from contrastcli.files import json_bytes, read_json, writing_to
from contrastcli.model.devices import choose_device, choose_precision
from contrastcli.model.weights import read_tensors
from contrastcli.runs.directory import Run
from contrastcli.runs.events import Evaluated, Event, Saved, Started, Step, decode, encode
from contrastcli.training.distributed import World
from contrastcli.training.environment import check_rows, write_environment
from contrastcli.training.plan import Plan, make_plan
from contrastcli.training.setup import make_trainer

_COMPARED: Mapping[type[Event], Sequence[str]] = {
    Step: ("loss", "parts", "lr", "grad_norm", "epoch"),
    Evaluated: ("metric", "score", "alignment", "uniformity", "best"),
}
"""What of an event does not depend on the clock and the memory of the device."""

Show = Callable[[Event], object]


class _Enough(Exception):
    """The last step is done, and with it its evaluation and its checkpoint."""


def replay(run: Run, count: int, show: Show) -> str:
    """Train at most `count` steps of a run again and return what was compared, in words.

    They begin at the newest full checkpoint before the last one, which there is if train.keep is above 1, else at the
    start of the run. Raises RunError for the first difference, DataError if the run or its data are not there.
    """
    full = run.full_checkpoints()[:-1]
    first = int(full[-1].name) if full else 0
    events = run.events()
    starts = [event for event in events if isinstance(event, Started)]
    begun = [event for event in starts if event.step <= first]
    if not begun:
        raise RunError(f"run {run.name} has not begun to train", "let it train first")
    config = run.config()
    plan = make_plan(replace(config, train=msgspec.structs.replace(config.train, log_every=1)))
    plan = replace(plan, steps=begun[-1].steps)  # the learning rate depends on it, and a resume may have changed it
    check_rows(run.environment_path, plan)
    changes = [event.step for event in starts if event.step > first and event.steps != plan.steps]
    last = min([first + count, plan.steps, *changes])
    show(msgspec.structs.replace(begun[-1], step=first, steps=last))
    with tempfile.TemporaryDirectory(prefix="contrast-") as place, writing_to(Path(place)):
        copy = Run(Path(place) / run.name)
        copy.checkpoints_dir.mkdir(parents=True)
        if full:
            shutil.copytree(full[-1], copy.checkpoints_dir / full[-1].name)
            copy.checkpoints_path.write_bytes(json_bytes({"last": full[-1].name}))
        compared = [event for event in events if type(event) in _COMPARED and first < event.step <= last]
        recorded = {(type(event), event.step): event for event in compared}
        return _Replay(run, copy, plan, first, last, recorded, show).compare()


@dataclass
class _Replay:
    """The steps after `first`, up to `last`, of the copy of a run, and what the run recorded of them."""

    run: Run
    copy: Run
    plan: Plan
    first: int
    last: int
    recorded: dict[tuple[type[Event], int], Event]
    show: Show
    counts: Counter[str] = field(default_factory=Counter)

    def compare(self) -> str:
        """Train and compare. Raises RunError for the first difference."""
        device = choose_device(self.plan.config.train.device)
        precision = choose_precision(self.plan.config.train.precision, device)
        write_environment(self.copy.environment_path, self.plan, device, precision, 1)
        trainer = make_trainer(self.copy, self.plan, device, self._emit, lambda: False, World())
        with suppress(_Enough):
            trainer.train()
        for event in self.recorded.values():
            raise self._differs(f"step {event.step:,}: {event.kind()} is recorded, and did not happen again")
        steps = f"steps {self.first + 1:,} to {self.last:,}"
        if not self.counts:
            raise RunError(f"nothing is recorded of {steps} that could be compared", "train more steps again")
        kinds = {what: self.counts[what] for what in ("logged step", "evaluation", "checkpoint")}
        counts = ", ".join(f"{count:,} {what}{'s' * (count != 1)}" for what, count in kinds.items())
        return f"{steps} gave the same bits: {counts}"

    def _emit(self, event: Event) -> None:
        if event.step > self.last:
            raise _Enough
        self.show(event)
        if recorded := self.recorded.pop((type(event), event.step), None):
            again = decode(encode(event))  # without numbers that are not finite
            for name in _COMPARED[type(event)]:
                before, after = getattr(recorded, name), getattr(again, name)
                if before != after:
                    both = isinstance(before, float) and isinstance(after, float)
                    apart = f", {abs(after - before):.3g} apart" if both else ""
                    raise self._differs(f"step {event.step:,}: the {name} is {after}, and {before} is recorded{apart}")
            self.counts["logged step" if isinstance(event, Step) else "evaluation"] += 1
        elif isinstance(event, Saved) and (folder := self.run.checkpoints_dir / event.checkpoint).is_dir():
            for file in sorted(folder.rglob("*.safetensors")):
                self._compare_tensors(file, self.copy.checkpoints_dir / file.relative_to(self.run.checkpoints_dir))
            self.counts["checkpoint"] += 1

    def _compare_tensors(self, file: Path, again: Path) -> None:
        before, after = read_tensors(file), read_tensors(again)
        for name in sorted(before.keys() | after.keys()):
            one, other = before.get(name), after.get(name)
            if one is None or other is None or (one.shape, one.dtype) != (other.shape, other.dtype):
                raise self._differs(f"{file}: '{name}' is another tensor")
            if not torch.equal(one.reshape(-1).view(torch.uint8), other.reshape(-1).view(torch.uint8)):
                apart = (one.double() - other.double()).abs().max().item()
                raise self._differs(f"{file}: '{name}' differs by up to {apart:.3g}")

    def _differs(self, where: str) -> RunError:
        before, after = (_environment(run) for run in (self.run, self.copy))
        changes = [f"{name} {value} → {after.get(name)}" for name, value in before.items() if value != after.get(name)]
        hint = "the environment is the same: the record was changed, or the device does not repeat its results"
        if changes:
            hint = f"another environment may give other bits: {', '.join(changes)}"
        return RunError(f"training again differs at {where}", hint)


def _environment(run: Run) -> dict[str, Any]:
    """Versions, device, threads … of a run, by name."""
    record = read_json(run.environment_path, dict[str, Any]) or {}
    packages = record.get("packages")
    return {
        **{name: value for name, value in record.items() if not isinstance(value, dict | list)},
        **(packages if isinstance(packages, dict) else {}),
    }
