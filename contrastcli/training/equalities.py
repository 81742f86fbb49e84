"""What must be equal, and what not, of an adapter that was trained: measured on a few texts at the end of its run."""

import importlib
import tempfile
from pathlib import Path

import numpy as np

from contrastcli.errors import error_text
from contrastcli.evaluation.mteb import logging_disabled
from contrastcli.model.encoder import SentenceEncoder
from contrastcli.model.folder import load_encoder, save_encoder
from contrastcli.model.metrics import Floats
from contrastcli.training.loop import Trainer

_TEXTS = 16
_MOST = 1e-4
"""The largest difference of equal vectors, as a share of the longest one: the kernels of two libraries part by 2e-5."""


def check_adapter(trainer: Trainer) -> str:
    """A note on the model that was trained, as long as it has an adapter; else empty.

    The adapter is not its base; merged into that it is the same model, as is one text the same as in a batch, and the
    exported model in sentence-transformers, if that is installed, else in this program.
    """
    encoder = trainer.encoder
    if not encoder.backbone.adapter:
        return ""
    encoder.eval()
    texts = [trainer.plan.corpus.texts[row] for row in range(min(_TEXTS, len(trainer.plan.corpus.texts)))]
    vectors = encoder.encode(texts)
    with encoder.backbone.adapter.model.disable_adapter():
        change = _difference(encoder.encode(texts), vectors)
    alone = np.concatenate([encoder.encode([text]) for text in texts])
    differences, unmeasured = {"one text as in a batch": _difference(alone, vectors)}, ""
    try:
        merged = load_encoder(trainer.run.checkpoint("last")).to(encoder.device).eval()
        differences["merged"] = _difference(merged.encode(texts), vectors)
        with tempfile.TemporaryDirectory() as place:
            name, exported = _encode_exported(merged, Path(place) / "model", texts)
        differences[f"exported, in {name}"] = _difference(exported, vectors)
    # Also of the other library: the run has finished, whatever it says.
    except Exception as error:
        unmeasured = f"; the rest was not measured: {error_text(error)}"
    words = [f"{what} {value:.0e}" for what, value in differences.items()]
    wrong = [what for what, value in differences.items() if not value <= _MOST]
    # A training of few steps has changed little.
    wrong += ["it is no other model than its base"] * (change == 0)
    bug = f"; that is a bug, please report it: {', '.join(wrong)}" if wrong else ""
    return f"the adapter changes embeddings by {change:.0e}; differences: {', '.join(words)}{unmeasured}{bug}"


def _encode_exported(encoder: SentenceEncoder, folder: Path, texts: list[str]) -> tuple[str, Floats]:
    save_encoder(encoder, folder)
    try:
        library = importlib.import_module("sentence_transformers")
    except ImportError:
        return "this program", load_encoder(folder).eval().encode(texts)
    with logging_disabled():
        model = library.SentenceTransformer(str(folder), device=str(encoder.device))
    return "sentence-transformers", model.encode(texts, show_progress_bar=False)


def _difference(one: Floats, other: Floats) -> float:
    return float(np.abs(one - other).max() / np.linalg.norm(other, axis=1).max())
