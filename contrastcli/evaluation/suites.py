"""What `contrast eval` can measure: each suite as data, from which tables, help and the app are made.

To add a suite, write a file in `evaluation/` with its `procedure.Procedure`, and add it to `SUITES`. Another package
adds its own under the entry point group `contrast.suites`, each naming a `Suite`. Nothing here imports numpy or torch.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from contrastcli.errors import UsageError, nearest
from contrastcli.runs.results import ScoreName
from contrastcli.settings.metrics import RANKINGS, metric_title
from contrastcli.settings.other_names import our_name
from contrastcli.settings.outside import load_outside


@dataclass(frozen=True)
class Average:
    """A mean of the headline over tasks, None unless all of them are complete; `key` is its name in JSON."""

    key: str
    title: str
    tasks: tuple[str, ...] = ()
    """Empty: all tasks of the suite."""


@dataclass(frozen=True)
class Suite:
    """A group of tasks that are measured in the same way."""

    name: str
    about: str
    """What it measures, in a few words."""
    description: str
    """The same in a sentence."""
    columns: Mapping[str, str]
    """Columns of a table: the title, and the path of the value in a task's scores, keys joined by dots."""
    tasks: Mapping[str, tuple[int, ...]]
    """The published number of rows of each task: of each split, or rows and classes. Empty: any task."""
    procedure: str = ""
    """A `procedure.Procedure`, as "module:object"; by default PROCEDURE in the file of its name here."""
    headline: str = ""
    """The path of the score that papers report: the one to average, and to show in sweeps and comparisons."""
    averages: tuple[Average, ...] = (Average("average", "Avg."),)
    optional: tuple[str, ...] = ()
    """Tasks that are measured only on request."""
    kind: str = ""
    """The path of a task's kind, in a suite that is also averaged by kind."""
    metric: str = ""
    """The path of the metric of the headline, in a suite where it is chosen."""

    def averages_over(self, tasks: Mapping[str, Mapping[str, Any]]) -> tuple[Average, ...]:
        """Its averages and those by kind, given the scores of tasks."""
        kinds: dict[str, list[str]] = {}
        for name, entry in tasks.items() if self.kind else ():
            kinds.setdefault(str(value_at(entry, self.kind)), []).append(name)
        by_kind = (Average(kind, f"{kind}, {len(names)}", tuple(names)) for kind, names in sorted(kinds.items()))
        return (*self.averages, *by_kind)

    def columns_over(self, tasks: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
        """Its columns, given the scores of tasks; where the metric is chosen, those with a value."""
        paths = self.columns.values()
        filled = {path for path in paths for entry in tasks.values() if value_at(entry, path) is not None}
        return {t: path for t, path in self.columns.items() if not (self.metric and tasks) or path in filled}

    def select(self, names: Sequence[str]) -> list[str]:
        """Its tasks with these names, in its own order; without any name, all but the optional ones."""
        known = (*self.tasks, *self.optional) if self.tasks else names
        return [task for task in known if task in names] if names else list(self.tasks)


def tasks_in(entries: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The scores of each task, in the JSON of a suite."""
    return {name: entry for name, entry in entries.items() if isinstance(entry, dict) and name != "missing"}


def value_at(entry: object, path: str) -> Any:
    """The value at keys joined by dots; None where one is missing."""
    for key in path.split("."):
        entry = entry.get(key) if isinstance(entry, Mapping) else None
    return entry


STS = Suite(
    name="sts",
    about="7 sets of scored pairs",
    description="Semantic textual similarity: correlation of the cosine with human scores.",
    columns={
        "Spearman": "all.spearman",
        "Pearson": "all.pearson",
        "Mean": "mean.spearman",
        "Weighted": "wmean.spearman",
        "Pairs": "pairs",
    },
    # in the order of the papers' tables; PairSupCon's ends SICK-R, STS-B
    tasks={
        "STS12": (3108,),
        "STS13": (1500,),
        "STS14": (3750,),
        "STS15": (3000,),
        "STS16": (1186,),
        "STS-B": (1379,),
        "SICK-R": (4927,),
    },
    headline="all.spearman",
)

_TRANSFER = {
    "MR": (10662,),
    "CR": (3771,),
    "SUBJ": (10000,),
    "MPQA": (10603,),
    "SST2": (67349, 872, 1821),
    "SST5": (8544, 1101, 2210),
    "TREC": (5452, 500),
    "MRPC": (4076, 1725),
}
"""Rows of all, or of train and test with dev between them."""

_SEVEN = {task: rows for task, rows in _TRANSFER.items() if task != "SST5"}
"""What SimCSE, SimACE and PairSupCon average over."""

TRANSFER = Suite(
    name="transfer",
    about="8 classification tasks",
    description="SentEval's classification tasks by logistic regression on frozen embeddings (Conneau and Kiela 2018).",
    columns={"Accuracy": "accuracy", "F1": "f1", "Rows": "rows"},
    tasks=_TRANSFER,
    headline="accuracy",
    averages=(Average("average", "Avg.", tuple(_SEVEN)), Average("average8", "Avg. of 8")),
)

FEWSHOT = Suite(
    name="fewshot",
    procedure="contrastcli.evaluation.transfer:FEWSHOT",
    about="16 examples a class",
    description="The same with 16 labelled rows a class, over five training sets (PairSupCon, Table 6).",
    columns={"Accuracy": "mean", "SD": "sd", "Rows": "rows"},
    tasks=_SEVEN,
    headline="mean",
)

CLUSTERING = Suite(
    name="clustering",
    about="8 sets of short texts",
    description="KMeans against the classes of short texts (PairSupCon, Table 1).",
    columns={"Accuracy": "accuracy", "SD": "sd", "NMI": "nmi", "AMI": "ami", "ARI": "ari", "Rows": "rows"},
    # rows and classes, in the order of PairSupCon's Table 1 (whose Table 2 says 5K of Tweet)
    tasks={
        "AgNews": (8000, 4),
        "SearchSnippets": (12340, 8),
        "StackOverflow": (20000, 20),
        "Biomedical": (20000, 20),
        "Tweet": (2472, 89),
        "GoogleNews-TS": (11109, 152),
        "GoogleNews-S": (11109, 152),
        "GoogleNews-T": (11109, 152),
    },
    headline="accuracy",
)

GEOMETRY = Suite(
    name="geometry",
    about="alignment, angles",
    description="Alignment (SimACE's Eq. 11 without its log), uniformity (Eq. 10) and the angles of pairs.",
    columns={
        "Alignment": "alignment",
        "Uniformity": "uniformity",
        "Positive°": "positive",
        "Negative°": "negative",
        "Positives": "pairs",
        "Sentences": "sentences",
    },
    tasks={"STS-B": (1500,)},
    averages=(),
    optional=("starter", *CLUSTERING.tasks),
)

MTEB = Suite(
    name="mteb",
    about="needs the extra mteb",
    description="Any task or benchmark of the package mteb, with its data and metrics.",
    columns={"Score": "score", "Metric": "metric", "Type": "type"},
    tasks={},
    headline="score",
    kind="type",
)

RETRIEVAL = Suite(
    name="retrieval",
    about="NanoBEIR, or your own",
    description="Search: how near to the front a query's relevant documents are (Thakur et al. 2021, BEIR).",
    columns={metric.column: name for name, metric in RANKINGS.items()}
    | {"Queries": "queries", "Documents": "documents"},
    tasks={},
    headline="ndcg@10",
)

OWN = Suite(
    name="own",
    about="data of your own",
    description=(
        "The files of --data: the correlation of scored pairs with the cosine, the ranking of pairs and triplets, and "
        "how often the positive of a triplet is nearer than its negative."
    ),
    columns={"Spearman": "spearman", "Pearson": "pearson", "Pairs": "pairs", "Accuracy": "accuracy"}
    | {"Triplets": "triplets", **RETRIEVAL.columns},
    tasks={},
    headline="score",
    averages=(),
    metric="metric",
)

SUITES = {suite.name: suite for suite in (STS, TRANSFER, FEWSHOT, CLUSTERING, RETRIEVAL, OWN, GEOMETRY, MTEB)}
"""The suites that come with contrast, by name."""

ENTRY_POINTS = "contrast.suites"


@cache
def outside_suites() -> tuple[tuple[Suite, ...], dict[str, UsageError]]:
    """The suites of other packages, and the errors of those that cannot be loaded."""
    return load_outside(ENTRY_POINTS, _checked)


def _checked(suite: object) -> Suite:
    """The Suite of an entry point. Raises TypeError or ValueError if it is none, or cannot be used."""
    if not isinstance(suite, Suite):
        raise TypeError("it is not a Suite")
    if suite.name in SUITES or not re.fullmatch(r"[a-z][\w-]*", suite.name):
        raise ValueError(f"a suite cannot be called '{suite.name}'")
    if not re.fullmatch(r"[\w.]+:\w+", suite.procedure):
        raise ValueError(f"its procedure is '{suite.procedure}', which is not module:object")
    if suite.averages and suite.headline not in suite.columns.values():
        raise ValueError(f"its headline '{suite.headline}' is no column")
    return suite


def all_suites() -> dict[str, Suite]:
    """All suites by name, those of other packages last."""
    return SUITES | {suite.name: suite for suite in outside_suites()[0]}


def suites_with(names: Iterable[str]) -> list[Suite]:
    """The suites with these names, in their own order; those of other packages are loaded for other names alone."""
    names = set(names)
    known = SUITES if names <= SUITES.keys() else all_suites()
    return [suite for name, suite in known.items() if name in names]


def check_suites(words: str) -> tuple[Suite, ...]:
    """The suites of a comma-separated list. Raises UsageError for an unknown one, or one that cannot be loaded."""
    names = _names(words)
    known = {suite.name: suite for suite in suites_with(names)}
    for name in names:
        if name not in known:
            broken, ours = outside_suites()[1].get(name), our_name(name, "--suite")
            is_ours = ours.partition(" ")[0] in all_suites()
            hint = f"did you mean --suite {ours}?" if is_ours else nearest(name, all_suites())
            raise broken or UsageError(f"there is no suite '{name}'", hint)
    return tuple(known[name] for name in names)


def check_tasks(words: str, suites: Sequence[Suite]) -> tuple[str, ...]:
    """The tasks of a comma-separated list. Raises UsageError for one that none of these suites has."""
    names = _names(words)
    known = [task for suite in suites for task in (*suite.tasks, *suite.optional)]
    for name in names:
        if name not in known and all(suite.tasks or suite is OWN for suite in suites):
            what = f"there is no task '{name}' in {', '.join(suite.name for suite in suites)}"
            near = nearest(our_name(name, "--task"), known)
            raise UsageError(what, near if known else "leave out --task: --data names what is measured")
    return names


def _names(words: str) -> tuple[str, ...]:
    """The words between commas; those of `MTEB(eng, v1)` are part of its name."""
    return tuple(dict.fromkeys(word.strip() for word in re.split(r",(?![^()]*\))", words)))


def headlines(scores: Mapping[str, Any], beside: Iterable[Mapping[str, Any]] = ()) -> dict[ScoreName, float]:
    """The headline of each task and each average of a scores.json, × 100.

    Also the metric that is a task's headline in scores that stand `beside` them, where it was measured. Where data of
    the same name were others there, the fingerprint tells them apart, of a suite without it how many they are.
    """
    numbers = {}
    measured = scores.get("suites", {})
    for suite in suites_with(measured):
        averages = [average.key for average in suite.averages]
        others = [one.get("suites", {}).get(suite.name, {}) for one in beside]
        for key, entry in measured[suite.name].items():
            values = {"": entry} if key in averages else _headline(suite, entry)
            same = [one[key] for one in others if key in one and key not in averages]
            for other in same:
                values |= {name: value_at(entry, name) for name in _headline(suite, other) if name not in values}
            for name, value in values.items():
                if isinstance(value, int | float):
                    having = [one for one in same if value_at(one, name or suite.headline) is not None]
                    data = _told_apart(suite, entry, having)
                    title = " ".join(filter(None, [key, data, name and metric_title(name)]))
                    numbers[ScoreName(suite.name, title)] = float(value)
    return numbers


def _told_apart(suite: Suite, entry: object, beside: Iterable[object]) -> str:
    """What a task's data are known by where others beside it have others, else ""."""
    own, *others = (_known_by(suite, one) for one in (entry, *beside))
    return f"({own})" if own and set(others) - {own, ""} else ""


def _known_by(suite: Suite, entry: object) -> str:
    """The beginning of the fingerprint of a task's data, else how many they are."""
    counts = {title: value_at(entry, path) for title, path in suite.columns.items()}
    numbers = [f"{count:,} {title.lower()}" for title, count in counts.items() if isinstance(count, int)]
    return (value_at(entry, "fingerprint") or "")[:8] or ", ".join(numbers)


def _headline(suite: Suite, entry: object) -> dict[str, Any]:
    """The number of a task, by its metric where the suite has several."""
    return {value_at(entry, suite.metric) or "" if suite.metric else "": value_at(entry, suite.headline)}


def summary(names: Iterable[ScoreName]) -> list[ScoreName]:
    """Of each suite the averages, else its tasks; the names of other scores are kept."""
    names = list(names)
    suites = suites_with({name.suite for name in names} - {"dev"})
    averages = {ScoreName(suite.name, average.key) for suite in suites for average in suite.averages} & set(names)
    averaged = {name.suite for name in averages}
    return [name for name in names if name in averages or name.suite not in averaged]
