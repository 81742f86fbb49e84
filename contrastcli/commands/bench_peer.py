"""Other programs, as `contrast bench` measures them: the same weights, texts and threads, their output silenced."""

from __future__ import annotations

import io
import logging
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from contrastcli.commands.export import Graph, padded, write_onnx
from contrastcli.data.sources import load_examples
from contrastcli.model.devices import choose_device, choose_precision
from contrastcli.model.encoder import SentenceEncoder
from contrastcli.model.folder import load_encoder
from contrastcli.settings.sections import Data, Precision

Encode = Callable[[Sequence[str]], object]

BATCH = 32  # texts, sentence-transformers' default


@contextmanager
def silenced() -> Iterator[None]:
    """Suppress log records, warnings and printed text in the body."""
    before, stream = logging.root.manager.disable, io.StringIO()
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), redirect_stdout(stream), redirect_stderr(stream):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


class Encoder(NamedTuple):
    """A peer that encodes: its name, the precision of its matrix products, and what makes it from a model folder."""

    name: str
    precision: Precision
    make: Callable[[Path], Encode]


def _sentence_transformers(folder: Path, device: str, dtype: str = "float32", batch: int = BATCH) -> Encode:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(folder), device=device, model_kwargs={"dtype": dtype})
    return lambda texts: model.encode(list(texts), batch_size=batch, show_progress_bar=False)


def _batches(encoder: SentenceEncoder, texts: Sequence[str], size: int) -> Iterator[dict[str, NDArray[np.int64]]]:
    """What a runtime of fixed graphs gets: padded token ids, longest texts first."""
    for rows in np.array_split(np.array(sorted(texts, key=len, reverse=True)), -(-len(texts) // size)):
        ids, mask = padded(encoder, rows.tolist())
        yield {"input_ids": ids.numpy(), "attention_mask": mask.numpy()}


def _onnxruntime(folder: Path, quantised: bool = False) -> Encode:
    import onnxruntime

    encoder, path = load_encoder(folder).eval(), folder / "onnx" / "model.onnx"
    if not path.exists():
        write_onnx(encoder, path.parent)
    if quantised:
        from onnxruntime.quantization import QuantType, quantize_dynamic

        path, exported = folder / "onnx" / "int8.onnx", path
        quantize_dynamic(exported, path, weight_type=QuantType.QInt8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda texts: [session.run(None, batch) for batch in _batches(encoder, texts, BATCH)]


def _openvino(folder: Path) -> Encode:
    import nncf
    import openvino

    encoder = load_encoder(folder).eval()
    texts = load_examples(Data(train="starter"), ("triplets",), ()).views["anchor"][:64]
    model = openvino.convert_model(Graph(encoder), example_input=padded(encoder, texts[:3]))
    samples = nncf.Dataset(list(_batches(encoder, texts, 1)))
    model = nncf.quantize(model, samples, model_type=nncf.ModelType.TRANSFORMER)
    threads = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": torch.get_num_threads()}
    compiled = openvino.Core().compile_model(model, "CPU", threads)
    return lambda texts: [compiled(batch) for batch in _batches(encoder, texts, BATCH)]


def encoders(device: str, half: bool) -> list[Encoder]:
    """The peers for a device; the first is that of the ratios."""
    usual = partial(_sentence_transformers, device=device)
    peers = [Encoder("sentence-transformers", "fp32", usual)]
    if half:
        for batch in (BATCH, 128):
            make = partial(usual, dtype="bfloat16", batch=batch)
            peers.append(Encoder(f"sentence-transformers bf16, batch {batch}", "bf16", make))
    if device == "cpu":
        peers.append(Encoder("ONNX Runtime fp32", "fp32", _onnxruntime))
        peers.append(Encoder("ONNX Runtime int8", "int8", partial(_onnxruntime, quantised=True)))
        peers.append(Encoder("OpenVINO int8", "int8", _openvino))
    return peers


_QUERY = (
    "import sys; from sentence_transformers import SentenceTransformer as Model; "
    "model = Model(sys.argv[1]); print(model.similarity(model.encode('a'), model.encode('b')))"
)


class Peers:
    """`folder` holds the model in `model`; `rows` are the texts of each view, for training."""

    def __init__(self, folder: Path, rows: Mapping[str, Sequence[str]]) -> None:
        self._folder = folder
        self._rows = rows
        self._device = str(choose_device("auto"))
        self.encoders = encoders(self._device, choose_precision("auto", choose_device("auto")) == "bf16")

    @cache  # noqa: B019  there is one of them
    def _encoder(self, peer: Encoder) -> Encode:
        return peer.make(self._folder / "model")

    @silenced()
    def encode(self, peer: Encoder, texts: Sequence[str]) -> float:
        """Sentences per second of a peer. Raises ImportError without its packages."""
        encode = self._encoder(peer)
        start = time.perf_counter()
        encode(texts)
        return len(texts) / (time.perf_counter() - start)

    @silenced()
    def encode_one(self, text: str) -> object:
        """The vector of one text, by the first peer."""
        return self._encoder(self.encoders[0])([text])

    def query(self) -> list[str | Path]:
        """The arguments of python for a query of two texts. Raises ImportError without its packages."""
        if find_spec("sentence_transformers") is None:
            raise ModuleNotFoundError(name="sentence_transformers")
        return ["-c", _QUERY, self._folder / "model"]

    @silenced()
    def train(self, batch_size: int, steps: int, **settings: Any) -> float:
        """Sentences per second of its trainer with MultipleNegativesRankingLoss, the same objective."""
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
            output_dir=str(self._folder / "peer"),
            per_device_train_batch_size=batch_size,
            max_steps=steps,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            use_cpu=self._device == "cpu",
            **settings,
        )
        model = SentenceTransformer(str(self._folder / "model"), device=self._device)
        model.max_seq_length = 32
        SentenceTransformerTrainer(
            model=model,
            args=arguments,
            train_dataset=Dataset.from_dict(dict(self._rows)),
            loss=MultipleNegativesRankingLoss(model),
            callbacks=[Clock()],
        ).train()
        return (len(times) - warm) * batch_size * len(self._rows) / (times[-1] - times[warm - 1])
