"""`contrast bench`: what is measured, and how it is shown."""

from __future__ import annotations

import json
import logging
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from contrastcli.commands import bench
from contrastcli.data.examples import Examples
from contrastcli.model.locate import ModelRef
from contrastcli.runs.results import Benchmark
from contrastcli.show import results
from support.command import Contrast
from support.tiny import Tiny


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three steps, and no peer."""
    monkeypatch.setattr(bench, "STEPS", 3)
    monkeypatch.setattr(bench, "BATCH", 4)
    monkeypatch.setattr(bench, "find_spec", lambda name: None)


def test_encoding_and_training_are_measured_in_each_round(tiny: Tiny) -> None:
    progress: list[tuple[str, int, int]] = []
    measured = bench.measure_speed(ModelRef(str(tiny.backbone)), 2, lambda *words: progress.append(words))
    assert {one.what.split()[0].strip(",") for one in measured} == {"encode", "train"}
    assert all(len(one.ours) == 2 and min(one.ours) > 0 for one in measured)
    assert progress == [(one.what, n, 2) for one in measured for n in (1, 2)]


def test_a_ratio_is_that_of_the_medians() -> None:
    assert Benchmark.of("encode", (10.0, 30.0, 1000.0), (5.0, 20.0, 15.0)).ratio == 2.0
    assert Benchmark.of("encode", (10.0,), ()).ratio is None


def test_the_table_has_both_sides_and_their_ratio() -> None:
    lines = results.benchmarks(
        [Benchmark.of("encode fp32", (3000.0,), (1500.0,)), Benchmark.of("train", (90.0,), ())], False
    )
    assert [line.split() for line in lines.splitlines()[1:]] == [
        ["encode", "fp32", "3,000", "1,500", "2.00"],
        ["train", "90", "–", "–"],
    ]


def test_the_command_prints_what_was_measured_as_json(contrast: Contrast) -> None:
    answer = contrast("bench", "--model", "tiny/backbone", "--rounds", "1", "--json")
    assert answer.code == 0, answer.err
    assert {"what", "ours", "theirs", "ratio"} == json.loads(answer.out)[0].keys()


def test_a_model_that_is_not_there_is_named(contrast: Contrast) -> None:
    answer = contrast("bench", "--model", "no/such-model")
    assert answer.code == 3 and "no/such-model" in answer.err and answer.out == ""


def test_the_peer_of_a_benchmark_prints_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    class Talkative:
        def __init__(self, *_: object, **__: object) -> None:
            self.encode([])

        def encode(self, texts: list[str], **_: object) -> np.ndarray:
            print("loading")
            print("50 %", file=sys.stderr)
            logging.getLogger("transformers").warning("report")
            warnings.warn("be careful", stacklevel=1)
            return np.zeros((len(texts), 2))

    monkeypatch.setitem(sys.modules, "sentence_transformers", SimpleNamespace(SentenceTransformer=Talkative))
    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(Dataset=SimpleNamespace(from_dict=dict)))
    bench.Peer(tmp_path, ["a"], Examples("pairs", {"anchor": ["a"], "positive": ["b"]}, None, "here")).encode()
    assert tuple(capsys.readouterr()) == ("", "")
