"""What was written against the model, in the software that will run it: the cosines of texts, and dev scores."""

import os
from collections.abc import Sequence
from importlib.metadata import packages_distributions, version
from importlib.util import find_spec
from itertools import cycle, islice
from pathlib import Path

import numpy as np
from msgspec import structs

from contrastcli.boundary import narrate
from contrastcli.commands.compare import dev_data
from contrastcli.commands.export.formats import IF_A_LIBRARY_FAILS, Target
from contrastcli.data.dev_data import DevData, load_general, read_dev
from contrastcli.data.examples import ScoredPairs
from contrastcli.errors import ContrastError, RunError, Use, failing_as
from contrastcli.evaluation.geometry import training_sentences
from contrastcli.evaluation.procedure import Vectors
from contrastcli.evaluation.significance import bootstrap, judge
from contrastcli.model.encoder import SentenceEncoder
from contrastcli.model.metrics import Floats, cosine
from contrastcli.model.prompts import PROMPT_NAMES
from contrastcli.runs.directory import Run
from contrastcli.settings.sections import Data

_TEXTS, _LONG = 498, 512
_ODD_TEXTS = (
    "Das Wetter in Zürich ist heute schön.",
    "東京は日本の首都です。",
    "def mean(xs): return sum(xs) / len(xs)  # https://example.org/a?b=c&d=1",
)
"""Texts on which every export is checked, besides the usual ones."""


def usual_texts(data: Data | None = None) -> list[str]:
    """Texts of training data, or of the starter, to check an export on. Raises DataError."""
    usual = training_sentences(data or Data(train="starter"))
    return [*_ODD_TEXTS, *usual[: _TEXTS - len(_ODD_TEXTS)]]


def sample(run: Run | None) -> tuple[list[str], list[DevData]]:
    """What to check an export on: texts that a run trained on and its dev sets.

    Without them, the starter's texts, and STS-B where CONTRAST_SENTEVAL names it, else the starter's pairs.
    """
    config = run.config() if run else None
    try:
        if run and config and config.dev.data != "none":
            general = load_general(config.dev, config.data)
            return usual_texts(config.data), [dev_data([run]), *([general] if general else [])]
        own = read_dev("stsb" if os.environ.get("CONTRAST_SENTEVAL") else "starter")
        return usual_texts(config.data if config else None), [own]
    except ContrastError as error:
        narrate(f"note: checked on the starter's texts, without dev data: {error.what}")
        return usual_texts(), []


def check(
    model: SentenceEncoder,
    written: SentenceEncoder,
    target: Target,
    texts: Sequence[str],
    data: Sequence[DevData],
    min_cosine: float | None,
    folder: Path,
) -> list[str]:
    """Compare a folder with what was `written` there; scores also with the `model` from which that was made.

    They are one unless the format is that of another model. Returns what was measured, in lines. Raises RunError where
    the format's software fails on the folder, or a text's cosine is too low.
    """
    software = target.software if find_spec(target.software) else "contrastcli"
    # Such as onnxruntime-gpu.
    package = packages_distributions().get(software, [software])[0]
    label = f"{package} {version(package)}"
    with failing_as(RunError, f"{label} fails on what was written", IF_A_LIBRARY_FAILS):
        before, after = (Vectors(encode, PROMPT_NAMES) for encode in (model.encode, target.read(folder, written)))
        prompt = written.contract.prompt
        kinds = [None, *(kind for kind in PROMPT_NAMES if prompt(kind) != prompt())]
        usual, *long = _with_long(texts, written.max_length)
        shared = [(usual[n :: len(kinds)], kind) for n, kind in enumerate(kinds)]
        parts = [part for part in shared if part[0]] + [(some, kind) for some in long for kind in kinds]
        ours, theirs = (np.concatenate([encode(*part) for part in parts]) for encode in (written.encode, after))
        lines = [_compare(ours, theirs, label, target.min_cosine if min_cosine is None else min_cosine)]
        for one in data:
            gold = np.asarray(one.scores) if isinstance(one, ScoredPairs) else None
            test = bootstrap(judge(before, one), judge(after, one), gold)
            lines.append(f"{structs.replace(test, metric=one.metric).change} on {one.source}")
    return [*lines, *filter(None, [target.remark])]


def _with_long(texts: Sequence[str], limit: int) -> list[Sequence[str]]:
    """The texts, and apart two over a limit of tokens, where software differs most, unless these would take long."""
    long = [" ".join(islice(cycle(some), limit)) for some in (texts, texts[::-1]) if limit <= _LONG]
    return [texts, long] if long else [texts]


def _compare(ours: Floats, theirs: Floats, label: str, min_cosine: float) -> str:
    """How far vectors (N, d) are from what they should be. Raises RunError where they are too far."""
    cosines, lengths = cosine(ours, theirs), [np.linalg.norm(vectors, axis=1) for vectors in (ours, theirs)]
    # A static model knows no token of some texts.
    cosines[(lengths[0] == 0) & (lengths[1] == 0)] = 1
    lowest, mean = float(cosines.min()), float(cosines.mean())
    if not round(lowest, 6) >= min_cosine:  # as it is shown
        what = f"the cosine of a text before and after is {lowest:.6f} in {label}, and {min_cosine:g} is asked for"
        raise RunError(what, [Use("--min-cosine", f"{lowest - 1e-4:.4f}", "accept it:"), "report this as a bug"])
    if np.allclose(lengths[0], 1, atol=1e-3) and not np.allclose(lengths[1], 1, atol=1e-2):
        raise RunError(f"the vectors of {label} are not of unit length, as the model's are", "report this as a bug")
    apart = f"1 − cosine to what was written: {1 - lowest:.1e} at most, {1 - mean:.1e} on average"
    return f"{len(ours)} texts in {label}, vectors of {ours.shape[1]} numbers: {apart}"
