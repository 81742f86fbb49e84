"""`contrast bench`: the speed of this machine, next to sentence-transformers and to the machine's own matrix products.

All programs of a measurement take turns in every round (A B C A B C), so that ratios are right even if the speed of
the machine changes.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
import torch

from contrastcli.commands.bench_peer import Peers
from contrastcli.data.sources import load_examples
from contrastcli.errors import error_text
from contrastcli.model.backbone import BertBackbone
from contrastcli.model.bert.families import Shape
from contrastcli.model.bert.packed import ROWS, product
from contrastcli.model.devices import choose_device, choose_precision, has_products
from contrastcli.model.encoder import ENCODE_BUDGET, SentenceEncoder
from contrastcli.model.folder import load_model, save_encoder
from contrastcli.model.locate import ModelRef
from contrastcli.runs import directory as runs
from contrastcli.runs.events import Event, Step
from contrastcli.runs.results import Benchmark
from contrastcli.settings import config as configs
from contrastcli.settings.config import Layer
from contrastcli.settings.sections import Data, Pooling, Precision
from contrastcli.training import process
from contrastcli.training.distributed import world
from contrastcli.training.plan import make_plan

BATCH = 64
STEPS = 48
"""Optimiser steps of one measurement; the first third warms up and does not count."""
MOST = 3_000
"""Texts of one measurement of encoding, except of the long one."""
LONG = 20_000
_REPEATS = 12

Job = Callable[[], float]
"""Does some work and returns how many times a second it did it: sentences encoded, texts answered, matrices' FLOPs."""


@dataclass(frozen=True)
class Program:
    """One of those that are compared. `precision` is that of its matrix products, None where no limit is known."""

    name: str
    job: Job
    precision: Precision | None = None


@dataclass
class Work:
    """One thing that is measured.

    `flops` are those of the matrix products of one sentence, and `seconds` what a round is expected to take.
    """

    what: str
    programs: Sequence[Program]
    flops: float = 0.0
    limits: Mapping[Precision, Job] = field(default_factory=dict)
    seconds: float = 0.0


def measure_speed(
    model: ModelRef, rounds: int, minutes: float, on_progress: Callable[[str, int, int], None]
) -> Iterator[Benchmark]:
    """Encode and train with a model, on the starter's sentences, as long as time is left; results as they come.

    On Ctrl-C the results of the complete rounds come, then KeyboardInterrupt. Raises DataError if the model cannot be
    loaded.
    """
    deadline = time.monotonic() + 60 * minutes
    with tempfile.TemporaryDirectory() as folder:
        for work in Works(model, Path(folder)):
            measurement = Measurement(work)
            try:
                for number in range(rounds):
                    if not measurement.add_round(deadline):
                        break
                    on_progress(work.what, number + 1, rounds)
            except KeyboardInterrupt:
                yield from measurement.results()
                raise
            yield from measurement.results()


class Measurement:
    """The rounds of one work so far."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._rates: dict[str, list[float]] = {program.name: [] for program in work.programs}
        self._shares: dict[str, list[float]] = {program.name: [] for program in work.programs}
        self._errors: dict[str, str] = {}
        self._seconds = work.seconds

    def add_round(self, deadline: float) -> bool:
        """Run every program once, unless the last round took longer than the time that is left."""
        start = time.monotonic()
        if start + self._seconds > deadline:
            return False
        limits = {precision: job() for precision, job in self._work.limits.items()}
        rates: dict[str, float] = {}
        for number, program in enumerate(self._work.programs):
            if program.name not in self._errors:
                try:
                    rates[program.name] = program.job()
                except ModuleNotFoundError as error:
                    self._errors[program.name] = f"{error.name} is not installed"
                except Exception as error:  # a peer's, of any kind: a package of its own that is missing, for instance
                    if number == 0:
                        raise
                    self._errors[program.name] = f"{type(error).__name__}: {error_text(error)}"
        for program in self._work.programs:
            if program.name in rates:
                self._rates[program.name].append(rates[program.name])
                if program.precision in limits and self._work.flops:
                    share = rates[program.name] * self._work.flops / limits[program.precision]
                    self._shares[program.name].append(share)
        self._seconds = time.monotonic() - start
        return True

    def results(self) -> list[Benchmark]:
        """One for each program; the ratio is to the first peer."""
        names = [program.name for program in self._work.programs]
        peer = next((self._rates[name] for name in names if not name.startswith("contrast") and self._rates[name]), [])
        return [
            Benchmark(
                what=self._work.what,
                program=name,
                rates=tuple(self._rates[name]),
                ratio=median(self._rates[name]) / median(peer) if peer and self._rates[name] else None,
                limit_share=median(self._shares[name]) if self._shares[name] else None,
                error=self._errors.get(name, "" if self._rates[name] else "no time left"),
            )
            for name in names
        ]


class Works:
    """What is measured, by contrast and by sentence-transformers: the same weights, texts, batch size and device."""

    def __init__(self, model: ModelRef, folder: Path) -> None:
        self._encoder = load_model(model)
        save_encoder(self._encoder, folder / "model")
        self._folder = folder
        self._rows = load_examples(Data(train="starter"), ("triplets",), ()).views
        self._peers = Peers(folder, self._rows)
        fast = choose_precision("auto", choose_device("auto")) == "bf16"
        self._precisions: list[Precision] = ["fp32", "bf16"] if fast else ["fp32"]
        backbone = self._encoder.backbone
        self._int8 = isinstance(backbone, BertBackbone) and self._encoder.device.type == "cpu" and has_products("int8")
        self._shape = backbone.bert.shape if isinstance(backbone, BertBackbone) else None

    def __iter__(self) -> Iterator[Work]:
        short = list(dict.fromkeys(text for view in self._rows.values() for text in view))
        draw = random.Random(0)
        mixed = [" ".join(draw.choices(short, k=draw.choice((1, 1, 2, 3, 5, 8)))) for _ in short]
        rate = _encode(self._encoder, short[:BATCH], "fp32")  # warms up; a slow machine gets fewer texts
        count = min(MOST, max(BATCH, round(3 * rate)))
        yield self._encoding("encode short texts", short[:count])
        yield self._training()
        yield self._encoding("encode mixed lengths", mixed[: max(BATCH, count // 4)])
        yield self._one_text_at_a_time(short[:BATCH])
        yield self._cold_query()
        yield self._encoding(f"encode {LONG:,} texts", (short * (LONG // len(short) + 1))[:LONG], LONG / rate)

    def _encoding(self, what: str, texts: Sequence[str], seconds: float = 0.0) -> Work:
        precisions = [*self._precisions, "int8"] if self._int8 else self._precisions
        programs = [Program(f"contrast {p}", partial(_encode, self._encoder, texts, p), p) for p in precisions]
        for peer in self._peers.encoders:
            programs.append(Program(peer.name, partial(self._peers.encode, peer, texts), peer.precision))
        return Work(what, programs, self._flops(texts), self._limits(precisions), len(programs) * seconds)

    def _training(self) -> Work:
        fastest = self._precisions[-1]
        train = partial(_train, self._folder, self._encoder.pooling)
        programs = [Program(f"contrast {fastest}", train, fastest)]
        if self._encoder.device.type == "cuda" and self._shape:
            programs.append(Program(f"contrast {fastest}, compiled", partial(train, compile=True), fastest))
        peer = partial(self._peers.train, BATCH, STEPS)
        programs.append(Program("sentence-transformers, defaults", peer, "fp32"))
        if fastest == "bf16":
            best = partial(peer, bf16=True, train_sampling_strategy="group_by_length")
            programs.append(Program("sentence-transformers, bf16, by length", best, "bf16"))
        texts = [text for view in self._rows.values() for text in view]
        return Work("train SimCSE on triplets", programs, 3 * self._flops(texts, 32), self._limits(self._precisions))

    def _one_text_at_a_time(self, texts: Sequence[str]) -> Work:
        self._encoder.precision = "fp32"
        ours = partial(_one_by_one, lambda text: self._encoder.encode([text]), texts)
        theirs = partial(_one_by_one, self._peers.encode_one, texts)
        return Work("one text at a time", [Program("contrast", ours), Program("sentence-transformers", theirs)])

    def _cold_query(self) -> Work:
        ours: list[str | Path] = ["-m", "contrastcli", "query", "a", "b", "--model", self._folder / "model"]
        programs = [Program("contrast", lambda: _cold(ours))]
        programs.append(Program("sentence-transformers", lambda: _cold(self._peers.query())))
        return Work("query in a new process", programs)

    def _limits(self, precisions: Sequence[Precision]) -> dict[Precision, Job]:
        shape, device = self._shape, self._encoder.device
        return {p: partial(matrix_rate, shape, p, device) for p in precisions} if shape else {}

    def _flops(self, texts: Sequence[str], max_length: int | None = None) -> float:
        """FLOPs of the matrix products for one text of these, padding left out; 0 for an unknown architecture."""
        shape, longest = self._shape, self._encoder.max_length
        if shape is None:
            return 0.0
        encoded = self._encoder.tokenizer.encode(texts, min(max_length or longest, longest))
        n = np.array([len(ids) for ids in encoded], dtype=np.float64)
        d, layers = shape.width, shape.layers
        tokens = layers * n  # that a layer has to compute
        if self._encoder.pooling == "cls":
            tokens -= n - 1
        return float((6 * d**2 * layers * n + (2 * d**2 + 4 * d * shape.inner + 4 * d * n) * tokens).mean())


@torch.inference_mode()
def matrix_rate(shape: Shape, precision: Precision, device: torch.device) -> float:
    """FLOPs a second of the products of a layer's matrices alone, which no encoder of this shape can exceed."""
    d, inner = shape.width, shape.inner
    rows = ROWS if device.type == "cpu" else ENCODE_BUDGET  # tokens of a usual chunk
    products = [
        product(torch.nn.Linear(m, n, device=device), precision, rows)
        for m, n in ((d, 3 * d), (d, d), (d, inner), (inner, d))
    ]
    for warm in (True, False):
        start = time.perf_counter()
        for _ in range(2 if warm else _REPEATS):
            for multiply, x in products:
                result = multiply(x)
        float(result[0, 0])  # waits for the device
    flops = _REPEATS * 2 * rows * (4 * d * d + 2 * d * inner)
    return flops / (time.perf_counter() - start)


def _encode(encoder: SentenceEncoder, texts: Sequence[str], precision: Precision) -> float:
    encoder.precision = precision
    encoder.encode(texts[:1])  # prepares the weights, as a peer's are when it is loaded
    start = time.perf_counter()
    encoder.encode(texts)
    return len(texts) / (time.perf_counter() - start)


def _one_by_one(answer: Callable[[str], object], texts: Sequence[str]) -> float:
    start = time.perf_counter()
    for text in texts:
        answer(text)
    return len(texts) / (time.perf_counter() - start)


def _cold(arguments: Sequence[str | Path]) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
    return 1 / (time.perf_counter() - start)


def _train(folder: Path, pooling: Pooling, compile: bool = False) -> float:
    """Train supervised SimCSE as `contrast train` does, without a dev set."""
    settings = {
        "objective.name": "simcse",
        "model.backbone": str(folder / "model"),
        "model.pooling": pooling,
        "data.train": "starter",
        "dev.data": "none",
        "train.batch_size": BATCH,
        "train.max_steps": STEPS,
        "train.epochs": 99,
        "train.log_every": STEPS // 3,
        "train.compile": compile,
    }
    config = configs.resolve([Layer.of(settings, "bench")])
    rates: list[float] = []

    def watch(event: Event, line: bytes) -> None:
        if isinstance(event, Step) and event.sentences_per_s is not None:
            rates.append(event.sentences_per_s)

    with tempfile.TemporaryDirectory(dir=folder) as place:
        done = process.train(runs.create(config, Path(place), "one"), make_plan(config), watch, world())
    if done.status == "stopped":  # by Ctrl-C, which training takes for a request to save and stop
        raise KeyboardInterrupt
    counted = rates[2:]  # not those of the first step, and up to a third
    return len(counted) / sum(1 / rate for rate in counted)
