"""The contrastive batch and the memory of a step are independent."""

import subprocess
import sys
from pathlib import Path

import pytest

SMALL, LARGE = 64, 1024
STEPS = 2


def rows_of_32_tokens(folder: Path) -> Path:
    """2048 labelled pairs whose sentences all reach the limit of 32 tokens."""
    labels, text = ("entailment", "contradiction"), "a man plays the guitar " * 8
    rows = [f"{n} {text}\t{text} {n}\t{labels[n % 2]}" for n in range(2 * LARGE)]
    path = folder / "rows.tsv"
    path.write_text("\n".join(["premise\thypothesis\tlabel", *rows, ""]))
    return path


def skip_without_products(precision: str) -> None:
    """A CPU that multiplies no matrices in bf16 takes half an hour for it, and never trains so by itself."""
    from contrastcli.model.devices import has_products

    if precision == "bf16" and not has_products("bf16"):
        pytest.skip("this CPU multiplies no matrices in bf16")


def memory_kb(name: str) -> int:
    return next(int(line.split()[1]) for line in Path("/proc/self/status").open() if line.startswith(name))


def measure(data: str, batch_size: str, precision: str, folder: str) -> int:
    """The peak of a few logged steps above the loaded model, in kB."""
    import torch

    from contrastcli.runs.directory import Run
    from contrastcli.runs.event import Event
    from contrastcli.runs.measured import Step
    from contrastcli.settings import config
    from contrastcli.training.plan import make_plan
    from contrastcli.training.session import Session
    from contrastcli.training.setup import make_trainer

    values = {
        "objective.name": "pairsupcon",
        "model.backbone": "starter",
        "model.max_length": 32,
        "data.train": data,
        "dev.data": "none",
        "train.batch_size": int(batch_size),
        "train.max_steps": STEPS,
        "train.log_every": 1,
        "train.precision": precision,
        "train.device": "cpu",
    }
    peaks = []

    def note_peak(event: Event) -> None:
        if isinstance(event, Step):
            peaks.append(memory_kb("VmHWM"))

    plan = make_plan(config.resolve([config.Layer.of(values, "test")]))
    Path(folder).mkdir()
    trainer = make_trainer(Run(Path(folder)), plan, torch.device("cpu"), Session(note_peak))
    assert trainer.inputs.table.lengths.min() == 32
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak of loading
    before = memory_kb("VmRSS")
    trainer.run_steps()
    return peaks[STEPS - 1] - before  # without what saving takes


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peaks are reset through /proc")
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_batch_of_1024_takes_little_more_memory_than_one_of_64(tmp_path: Path, precision: str) -> None:
    skip_without_products(precision)
    data = rows_of_32_tokens(tmp_path)

    def above_the_model(batch_size: int) -> int:
        command = [sys.executable, __file__, str(data), str(batch_size), precision, str(tmp_path / str(batch_size))]
        return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    small, large = above_the_model(SMALL), above_the_model(LARGE)
    assert small > 50_000  # kB: the graphs of 4,096 tokens are there
    assert large <= 1.3 * small


if __name__ == "__main__":
    print(measure(*sys.argv[1:]))


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_the_memory_of_a_long_run_is_flat(tmp_path: Path, precision: str) -> None:
    """Batches have many shapes; after a hundred steps nothing more is kept for new ones."""
    from contrastcli.runs.directory import Run
    from contrastcli.runs.measured import Step

    skip_without_products(precision)
    where = ["--runs-dir", str(tmp_path), "train", "--preset", "starter", "--name", "long", "--no-ui", "--dev", "none"]
    how = ["--batch-size", "8", "--max-steps", "200", "--log-every", "25", "--precision", precision, "--device", "cpu"]
    subprocess.run([sys.executable, "-m", "contrastcli", *where, *how], check=True, timeout=600)
    steps = [event for event in Run(tmp_path / "long").events() if isinstance(event, Step)]
    memory = [event.memory_mb for event in steps if event.step % 25 == 0]  # slow steps are logged more often
    early, *late = [mb for mb in memory[3:] if mb is not None]  # from step 100 on
    assert len(late) == 4 and max(late) < 1.04 * early, memory
