"""Settings that suit some data and a backbone, each with its reason: one table of rules. Nothing is read here."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil, log2, sqrt
from typing import NamedTuple

import msgspec

from contrastcli.settings.metrics import DOCUMENTS, QUERIES, metric_title
from contrastcli.settings.objective import Form
from contrastcli.settings.setting import Value

TRAINED = 3
"""To train on a text takes about as long as to encode so many."""
_SPREAD = 0.2
"""Standard deviation, over queries or pairs, of how a training changes their scores."""
_ENOUGH = ceil((1.96 * _SPREAD / 0.01) ** 2)
"""Queries or pairs whose 95 % interval reaches one point to both sides."""
_BATCHES, _FEWEST_ROWS = 25, 64
"""Batches that few rows make, and the rows of the smallest one: fewer are few negatives."""
_MOST_HELD_OUT = 10
"""Percent of the rows."""
_FEWEST_ANCHORS = 50
"""With fewer, no share of them tells anything."""
_STARTER = 780
"""Texts of the starter's dev pairs."""
_MOST_EVALUATIONS, _FEWEST_EVALUATIONS = 10, 3
_ADAM_BYTES = 16
"""Of a weight in training: itself, its gradient and two moments."""
_EPOCHS = ((1_000, 10), (10_000, 4), (100_000, 2))
"""Up to so many rows, so many passes; above, one."""
_VIEWS: Mapping[Form, int] = {"sentences": 2, "triplets": 3}
"""Texts of a row that are encoded; of other forms two."""
_ORDERED: tuple[Form, ...] = ("scored", "labelled")
"""Forms whose rows, held out, have an order by score."""
_LARGE, _SMALL = 200_000_000, 50_000_000
"""Weights of a large and of a small backbone."""


@dataclass(frozen=True)
class Facts:
    """What the rules go by. Lengths are in tokens: of most texts, of the longest, and the `limit` of the backbone.

    `counts` are the rows that can be trained on and `anchors` those that differ, in the form that the rows were read in
    and, of labelled pairs, as triplets and as pairs. `backbone` is what it is called, `is_chosen` whether the user
    named it, `is_embedder` whether it is more than a raw encoder. `memory` is that of the device in bytes. `has_stsb`
    is whether STS-B's dev set can be read, `max_steps` the user's own most steps, 0 for none. `has_logits` is whether a
    teacher's scores are no cosines. `own_dev` is the folder of the rows, if it has queries to choose a model by.
    """

    form: Form
    counts: Mapping[Form, int]
    anchors: Mapping[Form, int]
    p50: int
    p95: int
    p99: int
    longest: int
    limit: int
    cut: float
    backbone: str
    is_chosen: bool
    is_embedder: bool
    parameters: int
    on_gpu: bool
    memory: int
    has_stsb: bool
    max_steps: int
    has_logits: bool = False
    own_dev: str = ""


class Suggestion(msgspec.Struct, frozen=True):
    """A value for a setting, the reason in a sentence, and where the rule is from."""

    key: str
    value: Value
    reason: str
    source: str


Chosen = Mapping[str, Value]
"""Values that earlier rules gave."""


class Rule(NamedTuple):
    """A setting, where its rule is from, and the rule: a value and the reason, None to leave the setting alone."""

    key: str
    source: str
    decide: Callable[[Facts, Chosen], tuple[Value, str] | None]


def percent(share: float) -> str:
    """A share of 0 to 1, of which a sample does not tell how small it is."""
    return f"{100 * share:.1f} %" if share >= 0.001 else "under 0.1 %"


def suggest(facts: Facts) -> list[Suggestion]:
    """A value for the setting of each rule that applies."""
    chosen: dict[str, Value] = {}
    made = []
    for rule in RULES:
        if decided := rule.decide(facts, chosen):
            chosen[rule.key], reason = decided
            made.append(Suggestion(rule.key, chosen[rule.key], reason, rule.source))
    return made


def _objective(facts: Facts, chosen: Chosen) -> tuple[Value, str]:
    if facts.form == "labelled":
        return _objective_of_labels(facts.counts)
    choices: Mapping[Form, tuple[str, str]] = {
        "scored": ("cosent", "scores: of two pairs, the one that scores more must be more similar"),
        "scored-triplets": ("kl", "a teacher's scores: an anchor's candidates must be as likely as they say"),
        "sentences": ("simcse", "sentences alone: each and its copy under another dropout are a pair"),
        "pairs": ("simcse", "pairs: an anchor's positive against the other positives of the batch"),
        "triplets": ("simcse", "triplets: an anchor's positive against all other texts of the batch"),
    }
    return choices[facts.form]


def _teacher_tau(facts: Facts, chosen: Chosen) -> tuple[Value, str] | None:
    return (1.0, "scores beyond ±1 are a teacher's logits, not cosines") if facts.has_logits else None


def _objective_of_labels(counts: Mapping[Form, int]) -> tuple[Value, str]:
    triplets, pairs = counts["triplets"], counts["pairs"]
    of_all = f"{triplets:,} of {pairs:,} entailments have a contradiction of the same premise"
    if not counts["labelled"] - pairs:
        return "simcse", f"{pairs:,} entailments without a contradiction become pairs"
    if 2 * triplets >= pairs:
        return "simcse", f"{of_all}, and become triplets"
    return "pairsupcon", f"{of_all}, so that pairs keep their labels"


def _trained(facts: Facts, chosen: Chosen) -> Form:
    """The form of the rows that are trained on."""
    if facts.form != "labelled" or chosen["objective.name"] != "simcse":
        return facts.form
    return "triplets" if facts.counts["triplets"] else "pairs"


def _backbone(facts: Facts, chosen: Chosen) -> tuple[Value, str]:
    if not facts.is_chosen:
        return facts.backbone, "it is on this machine; --backbone names another"
    if facts.is_embedder:
        return facts.backbone, "an embedder: its pooling, prompts and layers are kept"
    return facts.backbone, "a raw encoder: a published embedder needs fewer rows"


def _lora(facts: Facts, chosen: Chosen) -> tuple[Value, str]:
    needed, there = _ADAM_BYTES * facts.parameters, facts.memory
    sizes = f"{needed / 1e9:.1f} of {there / 1e9:.0f} GB for weights, gradients and Adam"
    return (16, f"all weights would take {sizes}") if 2 * needed > there else (0, f"all weights are trained: {sizes}")


def _max_length(facts: Facts, chosen: Chosen) -> tuple[Value, str]:
    usual = f"half of the texts have at most {facts.p50:,} tokens, 95 % {facts.p95:,}"
    most = min(facts.longest, facts.limit)
    if 2 * facts.p99 <= most:
        return 8 * ceil(facts.p99 / 8), f"{usual}, 99 % {facts.p99:,}, the longest {facts.longest:,}: few are cut"
    if facts.cut:
        return 0, f"the model's own limit of {facts.limit:,}: {usual}; {percent(facts.cut)} have more"
    return 0, f"the model's own limit of {facts.limit:,}: {usual}, the longest {facts.longest:,}"


def _dev(facts: Facts, chosen: Chosen) -> tuple[Value, str]:
    if facts.own_dev:
        return facts.own_dev, "its own judgements to choose a model by"
    if facts.form == "sentences":
        name = "stsb" if facts.has_stsb else "starter"
        return name, "sentences do not say which of them are similar: pairs with scores do"
    anchors = facts.anchors[_trained(facts, chosen)]
    if anchors < _FEWEST_ANCHORS:
        return "starter", f"{anchors:,} anchors are too few to hold some out"
    share = min(_MOST_HELD_OUT, ceil(100 * _ENOUGH / anchors))
    held = _held_anchors(facts, share, chosen)
    width = 196 * _SPREAD / sqrt(held)
    reason = f"about {held:,} of {anchors:,} anchors are held out, enough to see {width:.1f} points"
    return f"split:{share}%", f"{reason}; a tenth is the most" if share == _MOST_HELD_OUT else reason


def _is_own(facts: Facts, chosen: Chosen) -> bool:
    """Whether the dev data are of the user's own kind, not general ones."""
    return str(chosen["dev.data"]).startswith("split:") or bool(facts.own_dev)


def _metric(facts: Facts, chosen: Chosen) -> str:
    """What auto measures."""
    return "ndcg@10" if _is_own(facts, chosen) and _trained(facts, chosen) not in _ORDERED else "spearman"


def _held_anchors(facts: Facts, share: int, chosen: Chosen) -> int:
    form = _trained(facts, chosen)
    held = ceil(facts.anchors[form] * share / 100)
    return held if form in _ORDERED else min(QUERIES, held)


def _dev_metric(facts: Facts, chosen: Chosen) -> tuple[Value, str]:
    metric = _metric(facts, chosen)
    what = "do the cosines order the pairs as their scores?"
    if metric == "ndcg@10":
        what = "how near to the front is the positive among all texts?"
    return "auto", f"{metric_title(metric)}: {what}"


def _dev_general(facts: Facts, chosen: Chosen) -> tuple[Value, str]:
    if _is_own(facts, chosen):
        return "auto", "the starter's pairs beside them show what is forgotten"
    return "auto", "none: the dev set is general itself"


def _left(facts: Facts, chosen: Chosen) -> int:
    """The rows left to train on."""
    form, words = _trained(facts, chosen), str(chosen["dev.data"])
    rows = facts.counts[form]
    if not words.startswith("split:"):
        return rows
    held = _held_anchors(facts, int(words.removeprefix("split:").removesuffix("%")), chosen)
    return rows - round(rows * held / facts.anchors[form])


def _batch_size(facts: Facts, chosen: Chosen) -> tuple[Value, str]:
    rows, most = _left(facts, chosen), 512 if facts.on_gpu else 128
    # A copy by dropout is told from others easily, however many.
    most = 64 if facts.form == "sentences" else most
    size = min(rows, max(_FEWEST_ROWS, min(most, 2 ** round(log2(max(1, rows / _BATCHES))))))
    about = "about " if rows < facts.counts[_trained(facts, chosen)] else ""
    made = f"{about}{rows:,} rows left to train on make {ceil(rows / size):,} batches"
    return size, f"{made}; the aim is {_BATCHES}, of {_FEWEST_ROWS} to {most} rows; memory does not depend on it"


def _steps(facts: Facts, chosen: Chosen) -> int:
    """Of all epochs, but at most the user's own number."""
    steps = int(chosen["train.epochs"]) * _steps_of_epoch(facts, chosen)
    return min(steps, facts.max_steps or steps)


def _steps_of_epoch(facts: Facts, chosen: Chosen) -> int:
    return ceil(_left(facts, chosen) / int(chosen["train.batch_size"]))


def _epochs(facts: Facts, chosen: Chosen) -> tuple[Value, str]:
    rows, each = _left(facts, chosen), _steps_of_epoch(facts, chosen)
    epochs = next((epochs for most, epochs in _EPOCHS if rows <= most), 1)
    steps = _steps(facts, {**chosen, "train.epochs": epochs})
    return epochs, f"{rows:,} rows are {each:,} steps, {steps:,} in all; the best checkpoint is kept"


def _every(facts: Facts, chosen: Chosen) -> tuple[Value, str]:
    form, steps, left = _trained(facts, chosen), _steps(facts, chosen), _left(facts, chosen)
    rows = facts.counts[form]
    texts, views = 2 * (rows - left), _VIEWS.get(form, 2)
    if _metric(facts, chosen) == "ndcg@10":
        texts = min(QUERIES, rows - left) + min(DOCUMENTS, (views - 1) * rows)
    texts += _STARTER
    # At most a quarter of the time, but for the fewest.
    affordable = TRAINED * views * steps * int(chosen["train.batch_size"]) // (4 * texts)
    count = max(_FEWEST_EVALUATIONS, min(_MOST_EVALUATIONS, affordable))
    return ceil(steps / count), f"about {count} evaluations in {steps:,} steps, to find the best"


def _lr(facts: Facts, chosen: Chosen) -> tuple[Value, str]:
    size = int(chosen["train.batch_size"])
    kind, rate = "a published embedder" if facts.is_embedder else "a raw encoder", 2e-5 if facts.is_embedder else 3e-5
    if facts.parameters > _LARGE:
        kind, rate = "a large model", 1e-5
    elif facts.parameters < _SMALL:
        kind, rate = "a small model", 5e-5
    if chosen["model.lora"]:
        kind, rate = f"LoRA on {kind}", 10 * rate
    factor = min(2.0, sqrt(size / 64))
    reason = f"{rate:g} for {kind} at 64 rows, times {factor:.2g} for {size:,}"
    return float(f"{rate * factor:.1e}"), reason if factor != 1 else f"{rate:g} for {kind}"


def _warmup(facts: Facts, chosen: Chosen) -> tuple[Value, str]:
    return 0.1, f"the rate rises for {ceil(_steps(facts, chosen) / 10):,} steps, before Adam knows the gradients' size"


def _mine_every(facts: Facts, chosen: Chosen) -> tuple[Value, str]:
    reasons: Mapping[Form, str] = {
        "pairs": "once the verdict is known, contrast mine finds hard negatives to look at",
        "triplets": "the rows have hard negatives",
    }
    return 0, reasons.get(_trained(facts, chosen), "hard negatives need pairs without labels or scores")


RULES = (
    Rule("objective.name", "Gao et al. 2021 (SimCSE), Zhang et al. 2021 (PairSupCon), Su 2022 (CoSENT)", _objective),
    Rule("objective.teacher_tau", "Hinton et al. 2015 (distillation)", _teacher_tau),
    Rule("model.backbone", "the model's own files", _backbone),
    Rule("model.lora", "Hu et al. 2021 (LoRA)", _lora),
    Rule("model.max_length", "the tokens of 2,000 texts", _max_length),
    Rule("dev.data", "half the width of a normal 95 % interval, at a deviation of 0.2", _dev),
    Rule("dev.metric", "Thakur et al. 2021 (BEIR); Cer et al. 2017 (STS-B)", _dev_metric),
    Rule("dev.general", "McCloskey and Cohen 1989 (forgetting)", _dev_general),
    Rule("train.batch_size", "Gao et al. 2021, appendix: 64 without, 512 with negatives", _batch_size),
    Rule("train.epochs", "Gao et al. 2021: 1 of 1M rows, 3 of 275k; Reimers and Gurevych 2019: 4 of 5.7k", _epochs),
    Rule("dev.every", "Gao et al. 2021 take the best of several evaluations", _every),
    Rule("train.lr", "sentence-transformers' examples; Malladi et al. 2022 (square root of the batch)", _lr),
    Rule("train.warmup", "sentence-transformers' examples", _warmup),
    Rule("data.mine_every", "Xiong et al. 2021 (ANCE)", _mine_every),
)
"""In the order in which they build on each other."""
