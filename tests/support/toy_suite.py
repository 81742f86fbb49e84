"""A suite of another package: this file, and one line that adds `SUITE` to the suites that there are."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from contrastcli.evaluation.procedure import Options, Procedure, SuiteContext, TaskScores, in_words
from contrastcli.evaluation.suites import Average, Suite

SUITE = Suite(
    name="toy",
    about="length of vectors",
    description="How long the vectors of texts are.",
    procedure="support.toy_suite:PROCEDURE",
    columns={"Length": "norm.mean", "Longest": "norm.max", "Texts": "texts"},
    tasks={"cats": (2,), "dogs": (3,)},
    headline="norm.mean",
    averages=(Average("average", "Avg."),),
)

_TEXTS = {"cats": ("a cat", "the cat"), "dogs": ("a dog", "the dog", "dogs")}


@dataclass(frozen=True)
class Texts:
    """The texts of a task."""

    texts: tuple[str, ...]

    @property
    def fingerprint(self) -> str:
        return repr(self.texts)


def _find(tasks: Sequence[str], options: Options) -> Mapping[str, Callable[[], Texts]]:
    return {task: partial(Texts, _TEXTS[task]) for task in tasks}


def _score(context: SuiteContext, task: str, data: Texts) -> TaskScores:
    norms = np.linalg.norm(context.vectors(data.texts), axis=1)
    return {"norm": {"mean": float(norms.mean()), "max": float(norms.max())}, "texts": len(data.texts)}


PROCEDURE = Procedure(_find, _score, in_words("lengths of vectors, pooling: {pooling}"))
