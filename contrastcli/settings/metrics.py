"""The metrics of dev sets and of retrieval, by name: the one table of them."""

from collections.abc import Mapping
from typing import NamedTuple


class MetricInfo(NamedTuple):
    """A metric as people write it, in a table's head too, and what it has a value for each of."""

    title: str
    counted: str = "queries"
    short: str = ""

    @property
    def column(self) -> str:
        return self.short or self.title


METRICS: Mapping[str, MetricInfo] = {
    "spearman": MetricInfo("Spearman", "pairs"),
    "ndcg@10": MetricInfo("nDCG@10"),
    "mrr@10": MetricInfo("MRR@10"),
    "recall@1": MetricInfo("recall@1", short="R@1"),
    "recall@10": MetricInfo("recall@10", short="R@10"),
    "recall@100": MetricInfo("recall@100", short="R@100"),
    "map": MetricInfo("MAP"),
    "accuracy": MetricInfo("accuracy", "triplets", short="acc."),
}

QUERIES = 2_000
"""Anchors that a dev set measures at most."""
DOCUMENTS = 10_000
"""Texts that a dev set ranks at most, unless more are relevant."""

RANKINGS = {name: metric for name, metric in METRICS.items() if metric.counted == "queries"}
"""Those that measure how near to the front the relevant documents of a query are."""


def metric_title(name: str, data: str = "") -> str:
    """A metric as people write it, and what it is measured on: `Spearman · stsb`; of a path only the file's name."""
    title = METRICS[name].title if name in METRICS else name
    return " · ".join(filter(None, [title, _short(data)]))


def dev_name(settings: Mapping[str, object]) -> str:
    """What the dev data of a run are called: what it held out of its training data is `5% of qa.jsonl`."""
    dev, train = (str(settings.get(key, "")) for key in ("dev.data", "data.train"))
    share = dev.removeprefix("split:")
    return dev if share == dev else f"{share} of {_short(train)}"


def _short(data: str) -> str:
    return data.partition("?")[0].rstrip("/").rpartition("/")[2]
