"""`contrast bench`: speed of encoding and training, compared with sentence-transformers if that is installed.

Rounds alternate (A B A B), so that the ratio is right even if the speed of the machine changes.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from contrastcli.data.examples import Examples
from contrastcli.data.sources import load_examples
from contrastcli.evaluation.silence import silenced
from contrastcli.model.devices import choose_device, choose_precision
from contrastcli.model.encoder import Precision, SentenceEncoder
from contrastcli.model.folder import load_model, save_encoder
from contrastcli.model.locate import ModelRef
from contrastcli.runs import directory as runs
from contrastcli.runs.events import Event, Step
from contrastcli.runs.results import Benchmark
from contrastcli.settings import config as configs
from contrastcli.settings.config import Layer
from contrastcli.settings.sections import Data
from contrastcli.training import process
from contrastcli.training.distributed import world
from contrastcli.training.plan import make_plan

BATCH = 64
STEPS = 24
"""Optimiser steps of one measurement; the first third warms up and does not count."""

Job = Callable[[], float]
"""Does some work and returns its sentences per second."""


def measure_speed(model: ModelRef, rounds: int, on_progress: Callable[[str, int, int], None]) -> list[Benchmark]:
    """Encode and train with a model, on the starter's sentences. Raises DataError if it cannot be loaded."""
    measured = []
    for what, our_job, their_job in _jobs(model):
        ours: list[float] = []
        theirs: list[float] = []
        for number in range(rounds):
            ours.append(our_job())
            theirs += [their_job()] if their_job else []
            on_progress(what, number + 1, rounds)
        measured.append(Benchmark.of(what, ours, theirs))
    return measured


def _jobs(model: ModelRef) -> Iterator[tuple[str, Job, Job | None]]:
    """What is measured, by us and by sentence-transformers, with the same weights, texts, batch size and device."""
    encoder = load_model(model)
    rows = load_examples(Data(train="starter"), ("triplets",), ())
    texts = list(dict.fromkeys(text for view in rows.views.values() for text in view))
    fast = choose_precision("auto", choose_device("auto"))
    with tempfile.TemporaryDirectory() as folder:
        save_encoder(encoder, Path(folder) / "model")
        peer = Peer(Path(folder), texts, rows) if find_spec("sentence_transformers") else None
        theirs = partial(peer.encode) if peer else None
        yield "encode fp32", partial(_encode, encoder, texts, "fp32"), theirs
        if fast == "bf16":
            yield "encode bf16, theirs at its default", partial(_encode, encoder, texts, "bf16"), theirs
        train = partial(_train, Path(folder))
        yield "train, theirs at its defaults", train, partial(peer.train, {}) if peer else None
        if peer and fast == "bf16":
            yield "train, theirs at its best", train, partial(peer.train, _BEST)


def _encode(encoder: SentenceEncoder, texts: Sequence[str], precision: Precision) -> float:
    start = time.perf_counter()
    encoder.encode(texts, precision=precision)
    return len(texts) / (time.perf_counter() - start)


def _train(folder: Path) -> float:
    """Train supervised SimCSE as `contrast train` does, without a dev set."""
    settings = {
        "objective.name": "simcse",
        "model.backbone": str(folder / "model"),
        "data.train": "starter",
        "dev.data": "none",
        "train.batch_size": BATCH,
        "train.max_steps": STEPS,
        "train.epochs": 99,
        "train.log_every": STEPS // 3,
    }
    config = configs.resolve([Layer.of(settings, "bench")])
    rates: list[float] = []

    def watch(event: Event, line: bytes) -> None:
        if isinstance(event, Step) and event.sentences_per_s is not None:
            rates.append(event.sentences_per_s)

    with tempfile.TemporaryDirectory(dir=folder) as place:
        process.train(runs.create(config, Path(place), "one"), make_plan(config), watch, world())
    return len(rates[1:]) / sum(1 / rate for rate in rates[1:])


_BEST = {"bf16": True, "train_sampling_strategy": "group_by_length"}
"""The fastest settings of the peer's trainer on a device that is fast at bf16."""


class Peer:
    """sentence-transformers with the same weights, its output silenced."""

    @silenced()
    def __init__(self, folder: Path, texts: Sequence[str], rows: Examples) -> None:
        from datasets import Dataset
        from sentence_transformers import SentenceTransformer

        self._model = SentenceTransformer(str(folder / "model"), device=str(choose_device("auto")))
        self._out = str(folder / "peer")
        self._texts = list(texts)
        self._rows = Dataset.from_dict(rows.views)

    @silenced()
    def encode(self) -> float:
        start = time.perf_counter()
        self._model.encode(self._texts, show_progress_bar=False)
        return len(self._texts) / (time.perf_counter() - start)

    @silenced()
    def train(self, extra: dict[str, Any]) -> float:
        """Their trainer with MultipleNegativesRankingLoss, the same objective."""
        from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
        from sentence_transformers.losses import MultipleNegativesRankingLoss
        from transformers import TrainerCallback

        times: list[float] = []

        class Clock(TrainerCallback):
            def on_step_end(self, *_: object, **__: object) -> None:
                times.append(time.perf_counter())

        arguments = SentenceTransformerTrainingArguments(
            output_dir=self._out,
            per_device_train_batch_size=BATCH,
            max_steps=STEPS,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            use_cpu=choose_device("auto").type == "cpu",
            **extra,
        )
        self._model.max_seq_length = 32
        SentenceTransformerTrainer(
            model=self._model,
            args=arguments,
            train_dataset=self._rows,
            loss=MultipleNegativesRankingLoss(self._model),
            callbacks=[Clock()],
        ).train()
        warm = STEPS // 3
        return (len(times) - warm) * BATCH * len(self._rows.column_names) / (times[-1] - times[warm - 1])
