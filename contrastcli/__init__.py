"""Train sentence embeddings with contrastive objectives and watch the angles between sentences.

In Python, no more than this:

    model = contrastcli.load("runs/…" or a folder or a hub name)
    model.encode(["a dog runs", "a puppy sprints"])  # ndarray (2, d)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from contrastcli.boundary import __version__

if TYPE_CHECKING:
    from contrastcli.model.encoder import SentenceEncoder

__all__ = ["__version__", "load"]


def load(name: str) -> SentenceEncoder:
    """The model of a run (its best checkpoint, else its last) in CONTRAST_RUNS or ./runs, a folder or a hub name.

    Raises contrastcli.errors.DataError if there is none or it cannot be read.
    """
    from contrastcli.model.folder import load_model  # torch is loaded only when a model is needed
    from contrastcli.model.locate import resolve
    from contrastcli.runs.directory import runs_dir

    return load_model(resolve(name, runs_dir(None)))
