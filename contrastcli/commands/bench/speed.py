"""`contrast bench`: the speed of this machine, next to sentence-transformers and to the machine's own matrix products.

All programs of a measurement take turns in every round (A B C A B C), so that ratios are right even if the speed of
the machine changes.
"""

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

from contrastcli.commands.bench.peer import DEFAULT_BATCH, Peer, rate_of
from contrastcli.commands.train import train_briefly
from contrastcli.data.sources import load_examples
from contrastcli.errors import error_text
from contrastcli.model.backbone import BertBackbone
from contrastcli.model.bert.families import Shape
from contrastcli.model.bert.packed import ROWS, product
from contrastcli.model.devices import choose_device, choose_precision, has_products
from contrastcli.model.encoder import ENCODE_BUDGET, SentenceEncoder
from contrastcli.model.folder import load_model, save_encoder
from contrastcli.model.locate import ModelRef, resolve
from contrastcli.runs.event import Event
from contrastcli.runs.measured import Step
from contrastcli.runs.results import Benchmark
from contrastcli.settings import config as configs
from contrastcli.settings.config import Layer
from contrastcli.settings.sections import Data, Precision
from contrastcli.show import console
from contrastcli.training.plan import make_plan

BATCH = 64
STEPS = 48
"""Optimiser steps of one measurement; the first third warms up and does not count."""
LONGEST = 32
"""Tokens of a text in training."""
MOST_TEXTS = 3_000
"""Texts of one measurement of encoding."""
_REPEATS = 12


@dataclass
class Program:
    """One of those that are compared, with its rates and its shares of the machine's limit in the rounds so far.

    `measure` does some work once and returns its rate a second: of sentences, of queries. `precision` is that of its
    matrix products, None where no limit is known.
    """

    name: str
    measure: Callable[[], float]
    precision: Precision | None = None
    rates: list[float] = field(default_factory=list)
    shares: list[float] = field(default_factory=list)
    error: str = ""


@dataclass
class Comparison:
    """Programs that do the same work.

    `flops` are those of the matrix products of one sentence, and `limits` measure how many a second the machine can do
    in each precision.
    """

    what: str
    programs: Sequence[Program]
    flops: float = 0.0
    limits: Mapping[Precision, Callable[[], float]] = field(default_factory=dict)

    def add_round(self) -> None:
        """Run every program once."""
        limits = {precision: measure() for precision, measure in self.limits.items()}
        # Only complete rounds count, whenever Ctrl-C comes.
        rates = [self._run(program) for program in self.programs]
        for program, rate in zip(self.programs, rates, strict=True):
            if rate is not None:
                program.rates.append(rate)
                if program.precision in limits:
                    program.shares.append(rate * self.flops / limits[program.precision])

    def _run(self, program: Program) -> float | None:
        """The rate of a program; None after an error of a peer, which has to be none of ours."""
        if not program.error:
            try:
                return program.measure()
            except ModuleNotFoundError as error:
                program.error = f"{error.name} is not installed"
            except Exception as error:
                if program is self.programs[0]:
                    raise
                program.error = f"{type(error).__name__}: {error_text(error)}"
        return None

    def results(self) -> list[Benchmark]:
        """One for each program; the ratio is to the fastest peer in its precision, or of all where none has that."""
        rates = [(p.precision, median(p.rates)) for p in self.programs if not p.name.startswith("contrast") and p.rates]
        peers = {precision: max(rate for of, rate in rates if of == precision) for precision, _ in rates}
        fastest = max(peers.values(), default=None)
        return [
            Benchmark(
                what=self.what,
                program=one.name,
                rates=tuple(one.rates),
                ratio=median(one.rates) / peer if (peer := peers.get(one.precision, fastest)) and one.rates else None,
                limit_share=median(one.shares) if one.shares else None,
                error=one.error or ("" if one.rates else "no time left"),
            )
            for one in self.programs
        ]


def bench(directory: Path, model: str, rounds: int, minutes: float) -> Iterator[Benchmark]:
    """Encode and train with a model, on the starter's sentences, as long as time is left; results as they come.

    On Ctrl-C the results of the complete rounds come, then KeyboardInterrupt. Raises DataError if the model cannot be
    loaded.
    """
    deadline = time.monotonic() + 60 * minutes
    with console.progress() as advance, tempfile.TemporaryDirectory() as folder:
        for comparison in Bench(resolve(model, directory), Path(folder)).comparisons():
            try:
                for number in range(rounds):
                    if time.monotonic() >= deadline:
                        break
                    comparison.add_round()
                    advance(comparison.what, number + 1, rounds)
            finally:
                yield from comparison.results()


class Bench:
    """What contrast and sentence-transformers are compared in, with the same weights, texts, batch size and device."""

    def __init__(self, model: ModelRef, folder: Path) -> None:
        self._encoder = load_model(model)
        self._folder = folder
        save_encoder(self._encoder, folder / "model")
        self._rows = load_examples(Data(train="starter"), ("triplets",), ()).views
        self._texts = list(dict.fromkeys(text for view in self._rows.values() for text in view))
        self._peer = Peer(folder / "model", self._rows)
        fast = choose_precision("auto", choose_device("auto")) == "bf16"
        self._precisions: list[Precision] = ["fp32", "bf16"] if fast else ["fp32"]
        backbone = self._encoder.backbone
        self._int8 = backbone.takes_int8 and self._encoder.device.type == "cpu" and has_products("int8")
        self._shape = backbone.bert.shape if isinstance(backbone, BertBackbone) else None

    def comparisons(self) -> Iterator[Comparison]:
        """What users do most, first."""
        draw = random.Random(0)
        mixed = [" ".join(draw.choices(self._texts, k=draw.choice((1, 1, 2, 3, 5, 8)))) for _ in self._texts]
        # This warms up, and a slow machine gets fewer texts.
        rate = _encode(self._encoder, self._texts[:BATCH], "fp32")
        count = min(MOST_TEXTS, max(BATCH, round(3 * rate)))
        yield self._encoding("encode short texts", self._texts[:count])
        yield self._training()
        yield self._encoding("encode mixed lengths", mixed[: max(BATCH, count // 4)])
        yield self._one_text_at_a_time(self._texts[:BATCH])
        yield self._cold_query()

    def _encoding(self, what: str, texts: Sequence[str]) -> Comparison:
        precisions = [*self._precisions, "int8"] if self._int8 else self._precisions
        programs = [Program(f"contrast {p}", partial(_encode, self._encoder, texts, p), p) for p in precisions]
        peer = partial(self._peer.encode, texts)
        programs.append(Program("sentence-transformers", peer, "fp32"))
        for batch in (DEFAULT_BATCH, 128) if "bf16" in self._precisions else ():
            programs.append(Program(f"sentence-transformers bf16, batch {batch}", partial(peer, "bf16", batch), "bf16"))
        return Comparison(what, programs, self._flops(texts), self._limits(precisions))

    def _training(self) -> Comparison:
        fastest = self._precisions[-1]
        programs = [Program(f"contrast {fastest}", partial(_train, self._folder), fastest)]
        peer = partial(self._peer.train, BATCH, STEPS)
        programs.append(Program("sentence-transformers, defaults", peer, "fp32"))
        if fastest == "bf16":
            best = partial(peer, bf16=True, train_sampling_strategy="group_by_length")
            programs.append(Program("sentence-transformers bf16, by length", best, "bf16"))
        texts = [text for view in self._rows.values() for text in view]
        limits = self._limits(self._precisions)
        return Comparison("train SimCSE on triplets", programs, 3 * self._flops(texts, LONGEST), limits)

    def _one_text_at_a_time(self, texts: Sequence[str]) -> Comparison:
        self._encoder.precision = "fp32"
        ours = partial(rate_of, len(texts), lambda: [self._encoder.encode([text]) for text in texts])
        theirs = partial(rate_of, len(texts), lambda: [self._peer.encode([text]) for text in texts])
        return Comparison("one text at a time", [Program("contrast", ours), Program("sentence-transformers", theirs)])

    def _cold_query(self) -> Comparison:
        ours: list[str | Path] = ["-m", "contrastcli", "query", "a", "b", "--model", self._folder / "model"]
        programs = [Program("contrast", lambda: _cold(ours))]
        programs.append(Program("sentence-transformers", lambda: _cold(self._peer.query())))
        return Comparison("query in a new process", programs)

    def _limits(self, precisions: Sequence[Precision]) -> dict[Precision, Callable[[], float]]:
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
        tokens = layers * n
        if self._encoder.contract.pooling == "cls":
            tokens -= n - 1
        inner = (6 if shape.reaches else 4) * d * shape.inner
        return float((6 * d**2 * layers * n + (2 * d**2 + inner + 4 * d * n) * tokens).mean())


@torch.inference_mode()
def matrix_rate(shape: Shape, precision: Precision, device: torch.device) -> float:
    """FLOPs a second of the products of a layer's matrices alone, which no encoder of this shape can exceed."""
    d, inner = shape.width, shape.inner
    rows = ROWS if device.type == "cpu" else ENCODE_BUDGET
    products = [
        product(torch.nn.Linear(m, n, device=device), precision, rows)
        for m, n in ((d, 3 * d), (d, d), (d, inner), (inner, d))
    ]

    def work(times: int) -> None:
        for _ in range(times):
            for multiply, x in products:
                result = multiply(x)
        # This waits for the device.
        float(result[0, 0])

    work(2)
    return rate_of(_REPEATS * 2 * rows * (4 * d * d + 2 * d * inner), partial(work, _REPEATS))


def _encode(encoder: SentenceEncoder, texts: Sequence[str], precision: Precision) -> float:
    encoder.precision = precision
    # This prepares the weights, as those of a peer are when it is loaded.
    encoder.encode(texts[:1])
    return rate_of(len(texts), lambda: encoder.encode(texts))


def _cold(arguments: Sequence[str | Path]) -> float:
    return rate_of(1, lambda: subprocess.run([sys.executable, *arguments], check=True, capture_output=True))


def _train(folder: Path) -> float:
    """Train supervised SimCSE as `contrast train` does, without a dev set."""
    settings = {
        "objective.name": "simcse",
        "model.backbone": str(folder / "model"),
        "model.max_length": LONGEST,
        "data.train": "starter",
        "dev.data": "none",
        "train.batch_size": BATCH,
        "train.max_steps": STEPS,
        "train.epochs": 99,
        "train.log_every": STEPS // 3,
    }
    config = configs.resolve([Layer.of(settings, "bench")])
    rates: list[float] = []

    def watch(event: Event) -> None:
        if isinstance(event, Step) and event.sentences_per_s is not None:
            rates.append(event.sentences_per_s)

    train_briefly(make_plan(config), watch)
    # The first step and the first third warm up.
    counted = rates[2:]
    return len(counted) / sum(1 / rate for rate in counted)
