"""Train sentence embeddings with contrastive objectives and watch the angles between sentences.

In Python there is `load`; everything else is the command line. A run directory joins the parts: training writes events
and checkpoints into it, and whatever shows, compares or uses a model reads it.

cli.py        every command, in one file: words into calls
options.py    click's types, and the options of every command
api.py        what an objective of another package may import
boundary.py   the edge of the process: its streams, its version, an exception as two lines
files.py      writing a file whole or not at all, locks, caches on disk; the user's folders
errors.py     the one error type, its exit codes, and a hint's remedies
parsing/      the words of a command line to a command and its options, and what is meant by other words
tui/          the full-screen app: a client of the command line
commands/     what each command does
training/     the loop, a step's gradient, checkpoints, and the auxiliaries that train beside the encoder
show/         results as text, charts and pictures
evaluation/   the suites, their statistics, comparisons and the papers' tables
model/        texts to vectors: backbone, pooling, loading, saving, search and mining
data/         files, hub and stdin to rows, tokens and batches
objectives/   one file for each family of losses, on tensors alone
runs/         the run directory: events, status, processes, sweeps
settings/     what can be set, the catalogue of objectives, the presets, and what the papers report
help/         the topics of `contrast help`
starter/      a small encoder and texts, for the first minute offline

Imports point down, inside functions too:

    cli → tui, options → parsing → commands → api → training, show → evaluation → model → data, objectives, runs
        → settings → boundary, files → errors
"""

import os
from typing import TYPE_CHECKING

from contrastcli.boundary import __version__

if TYPE_CHECKING:
    from contrastcli.model.encoder import SentenceEncoder

__all__ = ["__version__", "load"]


def load(name: "str | os.PathLike[str]") -> "SentenceEncoder":
    """The model of a run (its best checkpoint, else its last) in CONTRAST_RUNS or ./runs, a folder or a hub name.

    Raises contrastcli.errors.DataError if there is none or it cannot be read.
    """
    # Here, so that torch is loaded only when a model is needed.
    from contrastcli.model.folder import load_model
    from contrastcli.model.locate import resolve
    from contrastcli.runs.directory import runs_dir

    return load_model(resolve(os.fspath(name), runs_dir(None)))
