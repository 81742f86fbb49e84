"""Runs that were interrupted, compared with runs that were not."""

import shutil

from contrastcli.runs.directory import Run
from contrastcli.runs.measured import Evaluated, Step
from support.tiny import on_step, train


def state(run: Run) -> dict[str, bytes]:
    """Every byte of the checkpoints: weights, heads, optimiser, and the position with the best score."""
    folders = run.checkpoints()
    files = {which: name.encode() for which, name in folders.items()}
    for which, name in folders.items():
        for path in sorted((run.checkpoints_dir / name).rglob("*")):
            if path.is_file():
                files[f"{which}/{path.relative_to(run.checkpoints_dir / name)}"] = path.read_bytes()
    return files


def assert_same(run: Run, undisturbed: Run) -> None:
    """Assert that two runs have the same checkpoints, bit for bit, and the same events of training."""
    actual, expected = state(run), state(undisturbed)
    assert actual.keys() == expected.keys()
    assert [name for name in expected if actual[name] != expected[name]] == []
    assert {"last/training/heads.safetensors", "last/training/optimizer.safetensors"} < set(expected)
    assert story(run) == story(undisturbed)


def story(run: Run) -> list[tuple[object, ...]]:
    """What the events record of training, without times and speed; each step once."""
    by_step = {(type(e).__name__, e.step): e for e in run.events() if isinstance(e, Step | Evaluated)}
    return [
        (e.step, e.loss, e.lr, e.grad_norm, e.epoch) if isinstance(e, Step) else (e.step, e.score, e.best)
        for e in by_step.values()
    ]


def train_with_a_kill(undisturbed: Run, step: int) -> Run:
    """Train a run to its end, and what a kill in the step after this one would have left of it to the same end.

    Returns the latter.
    """
    killed = Run(undisturbed.path.with_name("killed"))
    kill = on_step(step + 1, lambda: shutil.copytree(undisturbed.path, killed.path))
    assert train(undisturbed, kill).status == train(killed).status == "finished"
    assert_same(killed, undisturbed)
    return killed


class Killed(BaseException):
    """A kill within this process, which saves the time of another one: nothing runs after it but `finally`."""
