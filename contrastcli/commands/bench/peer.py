"""sentence-transformers, as `contrast bench` measures it: the same weights, texts and threads, its output silenced."""

import io
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from contrastcli.evaluation.mteb import logging_disabled
from contrastcli.model.devices import choose_device
from contrastcli.settings.sections import Precision

DEFAULT_BATCH = 32
"""Texts that it encodes at once unless told otherwise."""

_DTYPES: Mapping[Precision, str] = {"fp32": "float32", "bf16": "bfloat16"}

_QUERY = (
    "import sys; from sentence_transformers import SentenceTransformer as Model; "
    "model = Model(sys.argv[1]); print(model.similarity(model.encode('a'), model.encode('b')))"
)


def rate_of(count: int, work: Callable[[], object]) -> float:
    """How many a second are done by work that does `count`."""
    start = time.perf_counter()
    work()
    return count / (time.perf_counter() - start)


@contextmanager
def silenced() -> Iterator[None]:
    """Suppress log records, warnings and printed text in the body."""
    stream = io.StringIO()
    with logging_disabled(), warnings.catch_warnings(action="ignore"), redirect_stdout(stream), redirect_stderr(stream):
        yield


class Peer:
    """The model in a folder, and the texts of each view for training. All raise ImportError without its packages."""

    def __init__(self, model: Path, rows: Mapping[str, Sequence[str]]) -> None:
        self._path = model
        self._rows = rows
        self._device = str(choose_device("auto"))

    @cache  # noqa: B019
    def _model(self, precision: Precision) -> Any:
        from sentence_transformers import SentenceTransformer

        return SentenceTransformer(str(self._path), device=self._device, model_kwargs={"dtype": _DTYPES[precision]})

    @silenced()
    def encode(self, texts: Sequence[str], precision: Precision = "fp32", batch_size: int = DEFAULT_BATCH) -> float:
        """Sentences a second."""
        model = self._model(precision)
        encode = partial(model.encode, list(texts), batch_size=batch_size, show_progress_bar=False)
        return rate_of(len(texts), encode)

    def query(self) -> list[str | Path]:
        """The arguments of python for a query of two texts."""
        if find_spec("sentence_transformers") is None:
            raise ModuleNotFoundError(name="sentence_transformers")
        return ["-c", _QUERY, self._path]

    @silenced()
    def train(self, batch_size: int, steps: int, **settings: Any) -> float:
        """Sentences a second of its trainer with MultipleNegativesRankingLoss, the same objective."""
        from datasets import Dataset
        from sentence_transformers import (
            SentenceTransformer,
            SentenceTransformerTrainer,
            SentenceTransformerTrainingArguments,
        )
        from sentence_transformers.losses import MultipleNegativesRankingLoss
        from transformers import TrainerCallback

        times, warm = list[float](), steps // 3

        class Clock(TrainerCallback):
            def on_step_end(self, *_: object, **__: object) -> None:
                if torch.cuda.is_available() and len(times) + 1 in (warm, steps):
                    torch.cuda.synchronize()
                times.append(time.perf_counter())

        arguments = SentenceTransformerTrainingArguments(
            output_dir=str(self._path.parent / "peer"),
            per_device_train_batch_size=batch_size,
            max_steps=steps,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            use_cpu=self._device == "cpu",
            **settings,
        )
        model = SentenceTransformer(str(self._path), device=self._device)
        model.max_seq_length = 32
        SentenceTransformerTrainer(
            model=model,
            args=arguments,
            train_dataset=Dataset.from_dict(dict(self._rows)),
            loss=MultipleNegativesRankingLoss(model),
            callbacks=[Clock()],
        ).train()
        return (len(times) - warm) * batch_size * len(self._rows) / (times[-1] - times[warm - 1])
