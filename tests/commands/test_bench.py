"""`contrast bench`: what is measured, and how it is shown."""

import logging
import signal
import sys
import warnings
from collections import deque
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from contrastcli.commands import train
from contrastcli.commands.bench import speed as bench
from contrastcli.runs.directory import Run
from contrastcli.runs.event import Event
from contrastcli.runs.events import Done
from contrastcli.runs.measured import Step
from contrastcli.runs.results import Benchmark
from contrastcli.settings.sections import Precision
from contrastcli.show import answers
from contrastcli.training.distributed import World
from contrastcli.training.plan import Plan
from contrastcli.training.process import Watch, supervise
from support.tiny import Tiny


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few steps and texts, no new process, and a peer that is not installed."""
    monkeypatch.setattr(bench, "STEPS", 3)
    monkeypatch.setattr(bench, "BATCH", 4)
    monkeypatch.setattr(bench, "MOST_TEXTS", 16)
    monkeypatch.setattr(bench, "subprocess", SimpleNamespace(run=lambda *arguments, **options: None))
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)


class Talkative:
    """A peer that encodes, and prints while it does; it cannot train."""

    def __init__(self, *_: object, **__: object) -> None:
        self.encode([])

    def encode(self, texts: list[str], **_: object) -> np.ndarray:
        print("loading")
        print("50 %", file=sys.stderr)
        logging.getLogger("transformers").warning("report")
        warnings.warn("be careful", stacklevel=1)
        return np.zeros((len(texts), 2))


def measure(tiny: Tiny, minutes: float = 5.0) -> list[Benchmark]:
    return list(bench.bench(Path(), str(tiny.backbone), 2, minutes))


def test_everything_is_measured_in_each_round(tiny: Tiny) -> None:
    measured = measure(tiny)
    encoding = [one for one in measured if not one.what.startswith("train")]
    assert [one.what for one in encoding if one.program in ("contrast", "contrast fp32")] == [
        "encode short texts",
        "encode mixed lengths",
        "one text at a time",
        "query in a new process",
    ]
    assert any(one.what.startswith("train") for one in measured)
    missing = [one for one in measured if not one.program.startswith("contrast")]
    assert {one.error for one in missing} == {"sentence_transformers is not installed"}
    measured = [one for one in measured if one.program.startswith("contrast")]
    assert all(len(one.rates) == 2 and min(one.rates) > 0 and not one.error for one in measured)
    shares = [one.limit_share for one in measured if one.what.startswith(("encode", "train"))]
    assert all(share is not None and 0 < share < 1.5 for share in shares)
    assert all(one.ratio is None for one in measured)
    assert max(len(one.program) for one in missing) <= 37, "the column of the table"


def test_a_peer_that_fails_does_not_end_the_measurement(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", SimpleNamespace(SentenceTransformer=Talkative))
    measured = {(one.what, one.program): one for one in measure(tiny)}
    printed = capsys.readouterr()
    assert printed.out == ""
    assert not any(text in printed.err for text in ("loading", "50 %", "report", "careful"))
    failed = measured["train SimCSE on triplets", "sentence-transformers, defaults"]
    assert failed.error.startswith("ImportError: cannot import name") and failed.rates == ()
    for what in ("encode short texts", "encode mixed lengths"):
        ours, theirs = measured[what, "contrast fp32"], measured[what, "sentence-transformers"]
        assert len(ours.rates) == len(theirs.rates) == 2
        assert ours.ratio == pytest.approx(sum(ours.rates) / sum(theirs.rates))


def test_without_time_nothing_is_measured_and_it_says_so(tiny: Tiny) -> None:
    measured = measure(tiny, minutes=0.0)
    assert measured and all(one.error == "no time left" and one.rates == () for one in measured)


def test_an_interrupt_leaves_what_was_measured(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(run: Run, plan: Plan, deliver: Watch, world: World) -> Done:
        def interrupt(event: Event) -> None:
            if isinstance(event, Step):
                signal.raise_signal(signal.SIGINT)

        return supervise(run, plan, interrupt, world)

    monkeypatch.setattr(train, "supervise", interrupted)
    measured = bench.bench(Path(), str(tiny.backbone), 1, 5.0)
    first = next(measured)
    assert first.what == "encode short texts" and len(first.rates) == 1
    with pytest.raises(KeyboardInterrupt):
        deque(measured, maxlen=0)


def test_a_ratio_of_medians_is_to_the_fastest_peer_in_that_precision() -> None:
    rates: list[tuple[str, Precision, list[float]]] = [
        ("contrast", "fp32", [1.0, 10.0, 900.0]), ("contrast", "bf16", [30.0]), ("contrast", "int8", [40.0]),
        ("peer", "fp32", [700.0, 5.0, 2.0]), ("peer", "bf16", [10.0]), ("peer", "bf16", [20.0]),
    ]  # fmt: skip
    programs = [bench.Program(name, float, precision, some) for name, precision, some in rates]
    ratios = [one.ratio for one in bench.Comparison("encode", programs).results()]
    assert ratios == [2.0, 1.5, 2.0, 1.0, 0.5, 1.0]


def test_the_table_has_rates_ratios_and_shares() -> None:
    ours = Benchmark(what="encode", program="contrast", rates=(3000.0,), ratio=2.0, limit_share=0.85, error="")
    theirs = Benchmark(what="encode", program="peer", rates=(), ratio=None, limit_share=None, error="ImportError: x")
    lines = list(answers.benchmarks([ours, theirs], False))
    assert lines[-1].startswith("a second: sentences, or queries; × peer: its fastest in that precision, else of all;")
    assert [line.split() for line in lines[1:-1]] == [
        ["encode", "contrast", "3,000", "2.00", "85"],
        ["encode", "peer", "–", "–", "–", "ImportError:", "x"],
    ]
