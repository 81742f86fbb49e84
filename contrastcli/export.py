"""A run or a model → a folder that others load, with a model card; or ONNX. What was written is checked."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

import contrastcli
from contrastcli.errors import RunError, UsageError
from contrastcli.files import writing_to
from contrastcli.model.encoder import SentenceEncoder
from contrastcli.model.folder import load_encoder, save_encoder
from contrastcli.model.locate import locate
from contrastcli.model.pooling import pool
from contrastcli.runs import Run
from contrastcli.settings import Value

Format = Literal["sentence-transformers", "onnx"]

SENTENCES = (
    "A dog runs across the field.",
    "A puppy sprints over the grass.",
    "The central bank raised interest rates by a quarter of a point.",
    "Why does my bread not rise?",
    "She has been learning the cello since she was nine, and last week she played in the town hall.",
    "Rain.",
)
"""What an export is checked on."""


def export_model(name: str, dest: Path, kind: Format = "sentence-transformers", *, overwrite: bool = False) -> Path:
    """Write the model of a run directory, a folder or a hub name to a new folder, which appears when it is whole.

    Raises UsageError where `dest` has something in it already, RunError where the written model is not the same.
    """
    _check_dest(dest, overwrite)
    run = Run(Path(name)) if (Path(name) / "config.toml").is_file() else None
    encoder = load_encoder(run.checkpoint() if run else locate(name)).eval()
    temporary = dest.resolve().with_name(f".{dest.resolve().name}.tmp")
    with writing_to(dest):
        shutil.rmtree(temporary, ignore_errors=True)
        dest.parent.mkdir(parents=True, exist_ok=True)
        try:
            _write(encoder, temporary, kind)
            (temporary / "README.md").write_text(card(encoder, run, name, kind), encoding="utf-8")
            if dest.exists():
                shutil.rmtree(dest)
            temporary.rename(dest)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    return dest


def _check_dest(dest: Path, overwrite: bool) -> None:
    """Raises UsageError unless `dest` is free, or an earlier export that may be replaced."""
    if not dest.exists() or (dest.is_dir() and not any(dest.iterdir())):
        return
    if not overwrite:
        raise UsageError(f"{dest} exists", "choose another folder, or --overwrite")
    if not (dest / "config.json").is_file():  # a slip must not cost a home folder
        raise UsageError(f"{dest} holds no model that could be replaced", "choose another folder")


def _write(encoder: SentenceEncoder, folder: Path, kind: Format) -> None:
    if kind == "onnx":
        _write_onnx(encoder, folder)
        return
    save_encoder(encoder, folder)
    _check(encoder.encode(SENTENCES), load_encoder(folder).eval().encode(SENTENCES), folder)


def _check(before: np.ndarray[Any, Any], after: np.ndarray[Any, Any], folder: Path) -> None:
    cosine = (before * after).sum(axis=1) / np.linalg.norm(before, axis=1) / np.linalg.norm(after, axis=1)
    if not cosine.min() > 0.9999:
        raise RunError(f"what {folder} holds is not the same model (cosine {cosine.min():.4f})", "report this as a bug")


class _Graph(nn.Module):
    """The whole model, from token ids to the sentence embedding."""

    def __init__(self, encoder: SentenceEncoder) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """(B, T) ids, (B, T) mask of 0 and 1 → (B, d)."""
        mask = attention_mask.bool()
        return self.encoder.finish(pool(self.encoder.backbone(input_ids, mask), mask, self.encoder.pooling))


def _write_onnx(encoder: SentenceEncoder, folder: Path) -> None:
    """model.onnx (input_ids, attention_mask → sentence_embedding) and the tokenizer, checked with onnxruntime."""
    try:
        import onnxruntime
        import onnxscript  # noqa: F401  what torch exports with
    except ImportError:
        raise UsageError("the ONNX export needs packages that are missing", 'pip install "contrastcli[onnx]"') from None
    folder.mkdir(parents=True)
    encoder.tokenizer.save(folder)
    (folder / "config.json").write_text(json.dumps(encoder.backbone.config, indent=2) + "\n", encoding="utf-8")
    ids, mask = _padded(encoder, SENTENCES)
    batch, length = torch.export.Dim("batch"), torch.export.Dim("length", max=encoder.max_length)
    torch.onnx.export(
        _Graph(encoder).eval(),
        (ids, mask),
        folder / "model.onnx",
        input_names=["input_ids", "attention_mask"],
        output_names=["sentence_embedding"],
        dynamic_shapes=({0: batch, 1: length}, {0: batch, 1: length}),
        dynamo=True,
        external_data=False,
        verbose=False,
    )
    session = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
    for texts in (SENTENCES, SENTENCES[:2]):
        ids, mask = _padded(encoder, texts)
        (found,) = session.run(None, {"input_ids": ids.numpy(), "attention_mask": mask.numpy()})
        _check(encoder.encode(texts), found, folder)


def _padded(encoder: SentenceEncoder, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
    rows = [torch.tensor(ids) for ids in encoder.tokenizer.encode(texts, encoder.max_length)]
    ids = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=encoder.tokenizer.pad_id)
    mask = nn.utils.rnn.pad_sequence([torch.ones_like(row) for row in rows], batch_first=True)
    return ids, mask


def card(encoder: SentenceEncoder, run: Run | None, name: str, kind: Format) -> str:
    """The model card: what the model is, how it was trained and measured, how to use it."""
    head = [f"Linear({encoder.backbone.width}) + Tanh"] if encoder.dense is not None else []
    chain = " → ".join([f"{encoder.pooling} pooling", *head, *(["unit length"] if encoder.normalize else [])])
    parts = [_FRONT, f"# {run.name if run else name}\n", f"A sentence encoder: {encoder.width} dimensions, {chain}.\n"]
    parts.append(_ONNX if kind == "onnx" else _USE)
    if run is not None:
        parts.append(_training(run))
    parts.append(f"Written by contrast {contrastcli.__version__}.\n")
    return "\n".join(parts)


_FRONT = """---
library_name: sentence-transformers
pipeline_tag: sentence-similarity
tags: [sentence-similarity, feature-extraction, contrast]
---
"""
_USE = """## Use

```python
from sentence_transformers import SentenceTransformer

model = SentenceTransformer("this folder")
model.similarity(*model.encode(["a dog runs", "a puppy sprints"]))
```

    contrast query "a dog runs" "a puppy sprints" --model "this folder"
"""
_ONNX = """## Use

`model.onnx` takes `input_ids` and `attention_mask`, (batch, length) int64 both, and gives `sentence_embedding`.
"""


def _training(run: Run) -> str:
    config, status, scores = run.config(), run.status(), run.scores().get("suites", {})
    lines = ["## Training\n", f"Objective: {config.spec.name} ({config.spec.paper}).\n"]
    if status.best is not None:
        lines.append(
            f"Dev Spearman × 100 on `{config.dev.data}`: {100 * status.best:.2f} at step {status.best_step}.\n"
        )
    lines += ["| setting | value |", "|---|---|", *(_row(key, value) for key, value in config.flat().items()), ""]
    if scores:
        lines += ["## Scores\n", "```json", json.dumps(scores, indent=2, ensure_ascii=False), "```\n"]
    return "\n".join(lines)


def _row(key: str, value: Value) -> str:
    return f"| `{key}` | {str(value).replace('|', chr(92) + '|')} |"
