"""sentence-transformers, as `contrast bench` measures it: the same weights and texts, its output silenced."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from contrastcli.evaluation.silence import silenced
from contrastcli.model.devices import choose_device
from contrastcli.settings.sections import Precision


class Peer:
    """`folder` holds the model in `model`; `rows` are the texts of each view, for training."""

    QUERY = (
        "import sys; from sentence_transformers import SentenceTransformer as Model; "
        "model = Model(sys.argv[1]); print(model.similarity(model.encode('a'), model.encode('b')))"
    )
    """The program of a cold query of two texts."""

    def __init__(self, folder: Path, rows: Mapping[str, Sequence[str]]) -> None:
        self._folder = folder
        self._rows = rows
        self._device = str(choose_device("auto"))

    @cache  # noqa: B019  there is one peer
    def model(self, precision: Precision) -> Any:
        """Its encoder; bf16 is that of its weights."""
        from sentence_transformers import SentenceTransformer

        keywords = {"dtype": "bfloat16"} if precision == "bf16" else {}
        return SentenceTransformer(str(self._folder / "model"), device=self._device, model_kwargs=keywords)

    @silenced()
    def encode(self, texts: Sequence[str], precision: Precision) -> float:
        """Sentences per second at its default batch size."""
        model = self.model(precision)
        start = time.perf_counter()
        model.encode(list(texts), show_progress_bar=False)
        return len(texts) / (time.perf_counter() - start)

    @silenced()
    def encode_one(self, text: str) -> object:
        """The vector of one text."""
        return self.model("fp32").encode(text, show_progress_bar=False)

    @silenced()
    def train(self, batch_size: int, steps: int, **settings: Any) -> float:
        """Sentences per second of its trainer with MultipleNegativesRankingLoss, the same objective."""
        from datasets import Dataset
        from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
        from sentence_transformers.losses import MultipleNegativesRankingLoss
        from transformers import TrainerCallback

        times: list[float] = []

        class Clock(TrainerCallback):
            def on_step_end(self, *_: object, **__: object) -> None:
                times.append(time.perf_counter())

        arguments = SentenceTransformerTrainingArguments(
            output_dir=str(self._folder / "peer"),
            per_device_train_batch_size=batch_size,
            max_steps=steps,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            use_cpu=self._device == "cpu",
            **settings,
        )
        model = type(self).model.__wrapped__(self, "fp32")  # a copy: training changes its weights
        model.max_seq_length = 32
        SentenceTransformerTrainer(
            model=model,
            args=arguments,
            train_dataset=Dataset.from_dict(dict(self._rows)),
            loss=MultipleNegativesRankingLoss(model),
            callbacks=[Clock()],
        ).train()
        warm = steps // 3
        return (len(times) - warm) * batch_size * len(self._rows) / (times[-1] - times[warm - 1])
