"""Few-shot transfer: 16 labelled rows a class, five training sets (PairSupCon's Table 6)."""

import numpy as np

from contrastcli.evaluation import senteval
from contrastcli.evaluation.procedure import Procedure, SuiteContext, TaskScores, in_folder, in_words
from contrastcli.evaluation.senteval import Labelled, Splits
from contrastcli.evaluation.transfer import counted, features, fit

SHOTS = 16
SETS = 5

_C = 1.0
_PROTOCOL = (
    f"{SHOTS} labelled rows a class, {SETS} training sets (seeds 0-{SETS - 1}), tested on the test split or, where "
    "there is none, on all other rows; frozen embeddings, pooling: {pooling}; scikit-learn's logistic regression, "
    "C = 1; MRPC features [|u−v|, u∗v]; mean and standard deviation (n−1) of accuracy × 100"
)


def _score(context: SuiteContext, task: str, data: Splits) -> TaskScores:
    accuracies = []
    for seed in range(SETS):
        train, test = _split(data, seed)
        model = fit(features(train, context.vectors), train.labels, _C)
        accuracies.append(100 * float(model.score(features(test, context.vectors), test.labels)))
    mean, sd = float(np.mean(accuracies)), float(np.std(accuracies, ddof=1))
    return {"mean": mean, "sd": sd, "accuracies": accuracies, **counted(context, task, data)}


def _split(data: Splits, seed: int) -> tuple[Labelled, Labelled]:
    """Draw 16 rows of each class to train on, without replacement; return them and the rows to test on."""
    generator, labels = np.random.default_rng(seed), np.array(data.train.labels)
    drawn = np.concatenate(
        [generator.choice(np.flatnonzero(labels == c), SHOTS, replace=False) for c in np.unique(labels)]
    )
    rest = np.setdiff1d(np.arange(len(labels)), drawn)
    return data.train.take(drawn), data.train.take(rest) if data.test is None else data.test


PROCEDURE = Procedure(in_folder(senteval.root, senteval.read_transfer), _score, in_words(_PROTOCOL))
"""Only sentences that are drawn or tested on are encoded."""
