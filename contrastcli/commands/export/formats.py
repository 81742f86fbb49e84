"""The formats of an export: how each is written, and how its own software reads it and encodes texts."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from contrastcli.commands.bench.peer import silenced
from contrastcli.errors import UsageError, Use
from contrastcli.files import json_bytes
from contrastcli.model.encoder import SentenceEncoder, padded
from contrastcli.model.folder import load_encoder, save_encoder
from contrastcli.settings.sections import Format, Kind

Encode = Callable[..., NDArray[np.float32]]
"""Vectors (N, d) of N texts, of a `kind` if one is given."""

_TRACED = ("東京は日本の首都です。", "def mean(xs): return sum(xs) / len(xs)  # https://example.org/a?b=c")
"""Texts of two lengths, from which a graph is traced."""
_OPSET = 17
"""The first with layer normalisation, so that old runtimes support it."""
_BATCH = 32
IF_A_LIBRARY_FAILS = "make room on the disk, if it is full", "report this as a bug"


@dataclass(frozen=True)
class Target:
    """A format. In its `software`, a package, the cosine of each text to the model must be `min_cosine` at least.

    `graph` is the file that holds the whole model, "" where the folder is one of sentence-transformers. An `extra` is
    named after a package that it has besides the software. `read` gets the model, of which a graph needs the prompts.
    `remark` is for those who use it.
    """

    write: Callable[[SentenceEncoder, Path], None]
    read: Callable[[Path, SentenceEncoder], Encode]
    software: str
    min_cosine: float = 0.9999
    graph: str = ""
    extra: str = ""
    remark: str = ""


def check_packages(kind: Format) -> None:
    """Raises UsageError where a package is missing that a format needs."""
    if (extra := FORMATS[kind].extra) and not (find_spec(extra) and find_spec(FORMATS[kind].software)):
        raise UsageError(f"the format {kind} needs packages that are missing", f'pip install "contrastcli[{extra}]"')


def _read_folder(folder: Path, encoder: SentenceEncoder) -> Encode:
    """By sentence-transformers where it is installed, else as `contrast` does."""
    if find_spec("sentence_transformers") is None:
        return load_encoder(folder).eval().encode
    with silenced():
        from sentence_transformers import SentenceTransformer

        model = SentenceTransformer(str(folder), device="cpu", local_files_only=True)

    def encode(texts: Sequence[str], kind: Kind | None = None) -> Any:
        # Versions before 5 know no kinds.
        if kind and hasattr(model, f"encode_{kind}"):
            return getattr(model, f"encode_{kind}")(list(texts), show_progress_bar=False)
        return model.encode(list(texts), prompt=encoder.contract.prompt(kind), show_progress_bar=False)

    return encode


class _Graph(nn.Module):
    """The whole model: (B, T) token ids and (B, T) mask of 0 and 1 → (B, d)."""

    def __init__(self, encoder: SentenceEncoder) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        vectors: Tensor = self.encoder.after(self.encoder(input_ids, attention_mask.bool()))
        # Its width is a number in the graph then, which servers read.
        return vectors.reshape(-1, self.encoder.width)


def _prepare(encoder: SentenceEncoder, folder: Path) -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    """Write tokenizer and config; the graph, and token ids and a mask of 0 and 1, both (B, T) int64, to trace it."""
    if not encoder.contract.include_prompt:
        use = Use("--format", "sentence-transformers", "use")
        raise UsageError("the model leaves prompts out of the pooling, and a graph cannot", use)
    encoder.tokenizer.save(folder, encoder.max_length)
    (folder / "config.json").write_bytes(json_bytes(encoder.backbone.config))
    ids, mask = padded(encoder, encoder.tokenise(_TRACED), np.arange(len(_TRACED)))
    return _Graph(encoder).eval(), (ids, mask.long())


@contextlib.contextmanager
def _broadcasting() -> Iterator[None]:
    """Have transformers make masks by broadcasting: no trace follows its vmap, by which EmbeddingGemma has them."""
    from transformers import masking_utils as masks

    def expand(make: Callable[..., Tensor]) -> Callable[..., Tensor]:
        return lambda *ranges: make(*masks._non_vmap_expansion_sdpa(*ranges))

    ours = {"_vmap_expansion_sdpa": expand, "TransformGetItemToIndex": contextlib.nullcontext}
    theirs = {name: vars(masks).get(name) for name in ours}
    vars(masks).update(ours)
    try:
        yield
    finally:
        vars(masks).update(theirs)


@silenced()
@_broadcasting()
def _write_onnx(encoder: SentenceEncoder, folder: Path) -> None:
    graph, example = _prepare(encoder, folder)
    # torch's newer exporter (dynamo) fails: the BERT family checks whether a batch is padded at all. A trace of a few
    # texts, of which some are padded, is valid for all.
    torch.onnx.export(
        graph,
        example,
        folder / "model.onnx",
        input_names=["input_ids", "attention_mask"],
        output_names=["sentence_embedding"],
        dynamic_axes={name: {0: "batch", 1: "length"} for name in ("input_ids", "attention_mask")}
        | {"sentence_embedding": {0: "batch"}},
        opset_version=_OPSET,
        dynamo=False,
    )


@silenced()
def _write_int8(encoder: SentenceEncoder, folder: Path) -> None:
    """Weights in 7 bits, so that no CPU's sums saturate, with a scale for each column; activations as they come."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    _write_onnx(encoder, folder)
    whole = (folder / "model.onnx").rename(folder / "whole.onnx")
    how: dict[str, Any] = {"per_channel": True, "reduce_range": True, "weight_type": QuantType.QInt8}
    quantize_dynamic(whole, folder / "model.onnx", **how)
    whole.unlink()


@silenced()
def _write_openvino(encoder: SentenceEncoder, folder: Path) -> None:
    import openvino

    graph, example = _prepare(encoder, folder)
    model = openvino.convert_model(graph, example_input=example)
    model.output(0).tensor.set_names({"sentence_embedding"})
    openvino.save_model(model, folder / "openvino_model.xml", compress_to_fp16=False)


def _read_onnx(folder: Path, encoder: SentenceEncoder, batch: int = _BATCH) -> Encode:
    import onnxruntime

    session = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
    return partial(_encode, folder, encoder, lambda inputs: session.run(None, inputs), batch=batch)


def _read_openvino(folder: Path, encoder: SentenceEncoder) -> Encode:
    import openvino

    # By default it computes in bfloat16 where the CPU has AMX.
    exact = {"INFERENCE_PRECISION_HINT": "f32"}
    model = openvino.Core().compile_model(folder / "openvino_model.xml", "CPU", exact)
    return partial(_encode, folder, encoder, model)


def _encode(
    folder: Path,
    encoder: SentenceEncoder,
    run: Callable[..., Any],
    texts: Sequence[str],
    kind: Kind | None = None,
    batch: int = _BATCH,
) -> NDArray[np.float32]:
    """Vectors by a graph of texts that the folder's tokenizer.json cuts and pads."""
    from tokenizers import Tokenizer

    tokenizer, prompt = Tokenizer.from_file(str(folder / "tokenizer.json")), encoder.contract.prompt(kind)
    vectors = np.empty((len(texts), encoder.width), dtype=np.float32)
    order = np.argsort([len(text) for text in texts])
    for rows in np.split(order, range(batch, len(texts), batch)):
        encodings = tokenizer.encode_batch([prompt + texts[row] for row in rows])
        ids, mask = (np.array([getattr(text, name) for text in encodings]) for name in ("ids", "attention_mask"))
        vectors[rows] = run({"input_ids": ids, "attention_mask": mask})[0]
    return vectors


_FOLDER = Target(save_encoder, _read_folder, "sentence_transformers")
_ONNX = partial(Target, read=_read_onnx, software="onnxruntime", graph="model.onnx", extra="onnx")
_ALONE = "texts were encoded one at a time: activations are scaled by batch, and a vector depends on those beside it"

FORMATS: dict[Format, Target] = {
    "sentence-transformers": _FOLDER,
    "onnx": _ONNX(_write_onnx),
    "onnx-int8": _ONNX(_write_int8, read=partial(_read_onnx, batch=1), min_cosine=0.95, remark=_ALONE),
    "openvino": Target(_write_openvino, _read_openvino, "openvino", graph="openvino_model.xml", extra="openvino"),
    "static": _FOLDER,
}
"""All formats. A static model is another one, which is distilled before it is written."""
