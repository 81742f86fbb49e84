"""A model in the formats of other software, each checked against what is written."""

import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from contrastcli.errors import RunError, UsageError
from contrastcli.files import json_bytes
from contrastcli.model.encoder import SentenceEncoder
from contrastcli.model.folder import load_encoder, save_encoder, usual_texts
from contrastcli.model.metrics import cosine
from contrastcli.model.pooling import pool

_ODD_TEXTS = (
    "Das Wetter in Zürich ist heute schön.",
    "東京は日本の首都です。",
    "def mean(xs): return sum(xs) / len(xs)  # https://example.org/a?b=c&d=1",
)
"""Texts on which an export is checked, besides the usual ones."""

_MIN_COSINE = 0.9999  # of a vector before and after
# Between numbers of torch and of onnxruntime.
_MAX_DIFFERENCE = 1e-4
_OPSET = 17
"""The first with layer normalisation, so that old runtimes support it."""


def write_folder(encoder: SentenceEncoder, folder: Path) -> None:
    """A folder as sentence-transformers writes it, read again. Raises RunError where it is not the same model."""
    save_encoder(encoder, folder)
    texts = [*_ODD_TEXTS, *usual_texts()]
    lowest = cosine(encoder.encode(texts), load_encoder(folder).eval().encode(texts)).min()
    if not lowest > _MIN_COSINE:
        raise _differs(folder, f"a cosine is {lowest:.6f}")


def _differs(folder: Path, how: str) -> RunError:
    return RunError(f"what was written to {folder} is not the same model: {how}", "report this as a bug")


class _Graph(nn.Module):
    """The whole model: (B, T) token ids and (B, T) mask of 0 and 1 → (B, d)."""

    def __init__(self, encoder: SentenceEncoder) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        mask = attention_mask.bool()
        hidden, pooled = self.encoder.backbone(input_ids, mask), self.encoder.pooled_tokens(input_ids, mask)
        return self.encoder.finish(pool(hidden, pooled, self.encoder.contract.pooling))


def write_onnx(encoder: SentenceEncoder, folder: Path) -> None:
    """model.onnx (input_ids, attention_mask → sentence_embedding), config and tokenizer, checked with onnxruntime."""
    try:
        import onnx  # noqa: F401  torch exports with it
        import onnxruntime
    except ImportError:
        raise UsageError("the ONNX export needs packages that are missing", 'pip install "contrastcli[onnx]"') from None
    folder.mkdir(exist_ok=True)
    encoder.tokenizer.save(folder, encoder.max_length)
    (folder / "config.json").write_bytes(json_bytes(encoder.backbone.config))
    # torch's newer exporter (dynamo) fails: the BERT family checks whether a batch is padded at all. A trace of a few
    # texts, of which some are padded, is valid for all.
    with warnings.catch_warnings(action="ignore"):
        torch.onnx.export(
            _Graph(encoder).eval(),
            _padded(encoder, _ODD_TEXTS),
            folder / "model.onnx",
            input_names=["input_ids", "attention_mask"],
            output_names=["sentence_embedding"],
            dynamic_axes={name: {0: "batch", 1: "length"} for name in ("input_ids", "attention_mask")}
            | {"sentence_embedding": {0: "batch"}},
            opset_version=_OPSET,
            dynamo=False,
        )
    session = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
    # Other sizes than in the trace, with padding and without.
    for texts in ([*_ODD_TEXTS, *usual_texts()], _ODD_TEXTS[:1]):
        ids, mask = _padded(encoder, texts)
        (vectors,) = session.run(None, {"input_ids": ids.numpy(), "attention_mask": mask.numpy()})
        difference = float(np.abs(encoder.encode(texts) - vectors).max())
        if not difference < _MAX_DIFFERENCE:
            raise _differs(folder, f"numbers differ by {difference:.1e}")


def _padded(encoder: SentenceEncoder, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
    """Token ids and a mask of 0 and 1, both (B, T) int64."""
    ids, mask = encoder.pad(encoder.tokenise(texts), np.arange(len(texts)))
    return ids, mask.long()
