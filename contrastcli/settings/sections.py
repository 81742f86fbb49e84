"""The settings that every run has: model, data, dev, train, and the choice of an objective, which has others."""

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Annotated, Literal

from contrastcli.errors import UsageError, Use, nearest
from contrastcli.settings import catalogue
from contrastcli.settings.objective import Spec
from contrastcli.settings.other_names import our_name
from contrastcli.settings.setting import Section, Setting, about, about_data, about_execution, describe

Pooling = Literal["cls", "mean", "mean-no-cls", "first-last", "last-mean", "pooler", "last", "mask"]
Attention = Literal["causal", "bidirectional"]
Precision = Literal["fp32", "bf16", "int8"]
"""The precision of an encoder's matrix products; int8 is for encoding alone."""

Dtype = Literal["float32", "float16", "int8", "binary"]
"""The numbers that embeddings are written as."""

Format = Literal["sentence-transformers", "onnx", "onnx-int8", "openvino", "static"]

EXPORTS: Mapping[Format, str] = {
    "sentence-transformers": "weights as safetensors",
    "onnx": "a graph in fp32",
    "onnx-int8": "a graph of int8, a quarter of the size",
    "openvino": "a graph for Intel's CPUs",
    "static": "a vector for each token, without a network",
}
"""What a model is exported as, by the format."""

Kind = Literal["query", "document"]
"""What a text is in a search; a model may have a prompt for each."""

Blank = Literal["error", "drop"]
"""What becomes of rows without a text."""

Tracker = Literal["tensorboard", "trackio", "wandb", "mlflow"]
"""Programs that keep and draw the numbers of runs."""

Metric = Literal["auto", "spearman", "ndcg@10", "mrr@10", "map", "recall@1", "recall@10", "accuracy"]

POOLINGS: Mapping[Pooling, str] = {
    "cls": "the last layer's vector of the first token, CLS (SimCSE, SimACE)",
    "mean": "the mean of the last layer over all tokens, CLS and SEP included (SBERT, PairSupCon)",
    "mean-no-cls": "the mean of the last layer over all tokens but CLS (Liao)",
    "first-last": "the mean over all tokens of the embedding layer and the last layer (untrained baseline of SimACE)",
    "last-mean": "the mean over all tokens of the last two layers",
    "pooler": "CLS through the backbone's own pooler, Linear+Tanh (the released supervised SimCSE models)",
    "last": "the last layer's vector of the last token (decoders such as Qwen3-Embedding)",
    "mask": "the last layer's vector of the mask token in the words around a text (PromptBERT)",
}
"""How each pooling makes a vector of a text; padding is never included."""


_SIZE = r"[1-9]\d{0,5}(=(?!0*\.?0*(,|$))\d+(\.\d+)?)?"
_TEXT = r"\s*[^|;\s][^|;\n]*"
_PAIR = rf"{_TEXT}\|{_TEXT}"

MOST_PROBES = 5


class Model(Section, frozen=True, kw_only=True):
    """The encoder: a backbone with the contract of its folder, and what is changed of it."""

    backbone: Annotated[str, about_data("hub name, folder, run, or 'starter'", essential=True, names_model="one")] = (
        "bert-base-uncased"
    )
    pooling: Annotated[
        Literal["auto", Pooling],
        about(
            "how token vectors become a sentence vector; auto: the backbone's own way, else the mean, "
            "and the last token of a decoder",
            essential=True,
        ),
    ] = "auto"
    head: Annotated[
        Literal["none", "train-only", "keep"],
        about("Linear+Tanh on the pooled vector: none, dropped after training, or kept in the model"),
    ] = "none"
    max_length: Annotated[
        int,
        about(
            "longest text in tokens during training; the rest is cut off",
            ge=0,
            essential=True,
            zero="the backbone's own limit",
        ),
    ] = 0
    attention: Annotated[
        Literal["auto", Attention],
        about("what a token of a decoder sees: the tokens before it, or all; auto: the backbone's own way"),
    ] = "auto"
    prompts: Annotated[
        str,
        about(
            "before texts: auto (those of the backbone), none, one text, or by role: anchor=TEXT,positive=TEXT; "
            "TEXT may be the name of a prompt of the backbone"
        ),
    ] = "auto"
    suffix: Annotated[
        str, about("after every text, and never cut off; [MASK] is the backbone's mask token; empty: its own suffix")
    ] = ""
    denoise: Annotated[
        bool, about("with mask pooling: subtract in training the vector of prompt and suffix around no text")
    ] = True
    dims: Annotated[
        str,
        about(
            "sizes at which the first numbers of embeddings are trained too: Matryoshka",
            pattern=rf"^({_SIZE}(,\s*{_SIZE})*)?$",
            form="sizes with commas between, with weights above 0 other than 1: 64=0.5,128,256",
        ),
    ] = ""
    lora: Annotated[
        int,
        about(
            "rank of LoRA, which alone is trained then; it wants ten times the rate", "r", ge=0, le=4096, zero="no LoRA"
        ),
    ] = 0
    lora_alpha: Annotated[
        float, about("LoRA's scale: its product counts alpha / r times", "α", ge=0, le=1e5, zero="twice the rank")
    ] = 0.0
    lora_targets: Annotated[
        str, about("linear layers that get LoRA, by the ends of their names: query,value; auto: all of each layer")
    ] = "auto"
    lora_dropout: Annotated[float, about("dropout before LoRA's product", ge=0, lt=1)] = 0.0
    freeze: Annotated[
        str,
        about(
            "what is not trained: none, embeddings, or a number of layers, the lowest, and embeddings with them",
            pattern=r"^(none|embeddings|\d{1,4})$",
            form="none, embeddings or a number of layers",
        ),
    ] = "none"

    @property
    def sizes(self) -> dict[int, float]:
        """The weight of the loss at each size of `dims`."""
        sizes = [size.partition("=") for size in self.dims.split(",") if size]
        return {int(size): float(weight or 1) for size, _, weight in sizes}

    def weights(self, width: int) -> dict[int, float]:
        """The weight of the loss at the whole `width`, then at each size; empty without `dims`. Raises UsageError."""
        if max(self.sizes, default=0) > width:
            what = f"model.dims has {max(self.sizes)}, and the embeddings have {width} numbers"
            raise UsageError(what, Use("--dims", f"with sizes up to {width}", "use"), key="model.dims")
        return {width: 1.0} | self.sizes if self.sizes else {}


class Data(Section, frozen=True, kw_only=True):
    """Training rows."""

    train: Annotated[
        str,
        about_data(
            "file, folder, hf:owner/name, senteval:DIR or 'starter'; several with weights: a.csv=2,b.csv",
            flag="--data",
            essential=True,
            resumable=True,
        ),
    ] = ""
    columns: Annotated[str, about_data("roles of columns: anchor=a,positive=b")] = ""
    labels: Annotated[str, about_data("names of labels: 0=entailment,1=neutral,2=contradiction")] = ""
    blank: Annotated[Blank, about_data("rows with a blank text, label or score: an error, or left out")] = "error"
    mix: Annotated[
        Literal["mixed", "one"], about_data("batches of several sets: mixed, or each of rows from one set")
    ] = "mixed"
    mix_temperature: Annotated[
        float, about_data("evens out several sets: T draws of each in proportion to size^(1/T)", "T", ge=1, le=1000)
    ] = 1.0
    limit: Annotated[int, about_data("rows to read, of each set", ge=0, le=1_000_000_000, zero="all")] = 0
    mask_duplicates: Annotated[
        bool, about_data("no negatives of each other: equal texts of a batch, and pairs that share one")
    ] = True
    false_negatives: Annotated[
        str,
        about_data(
            "file of pairs that are no negatives of each other, with the columns anchor and negative", resumable=True
        ),
    ] = ""
    mine_every: Annotated[
        int,
        about_data(
            "steps after which hard negatives are mined again, by the encoder itself; "
            "contrast mine writes them to a file, once",
            ge=0,
            zero="never",
        ),
    ] = 0
    mine_ranks: Annotated[str, about_data("which of an anchor's nearest texts may be mined, the nearest being 1")] = (
        "1-1000"
    )
    mine_below: Annotated[
        float, about_data("largest cosine of a mined negative, as a share of the positive's", ge=0, le=2, zero="any")
    ] = 0.95
    leaks: Annotated[
        Literal["note", "drop", "error"],
        about_data("training rows with a text of the dev set: name them, leave them out, or refuse to train"),
    ] = "note"


class Dev(Section, frozen=True, kw_only=True):
    """The pairs that choose the best checkpoint."""

    data: Annotated[
        str,
        about_data(
            "pairs, scored or not: file, hub name, stsb, starter, split:5%, none or auto",
            flag="--dev",
            essential=True,
            resumable=True,
        ),
    ] = "auto"
    split_seed: Annotated[
        int,
        about_data("which rows split:5% holds out: the same ones for every train.seed", ge=0, le=2**32 - 1),
    ] = 42
    metric: Annotated[
        Metric, about_data("what is measured; auto: spearman of scored and labelled pairs, else ndcg@10", flag="")
    ] = "auto"
    corpus: Annotated[
        str,
        about_data(
            "more texts to rank: file or hub name; without, texts of the training data", flag="", resumable=True
        ),
    ] = ""
    general: Annotated[
        str,
        about_data(
            "a set that shows what is forgotten: file, hub name, stsb, starter or none; "
            "auto: starter, beside data of one's own",
            resumable=True,
        ),
    ] = "auto"
    keep_general: Annotated[
        float, about("most that the general score of the best checkpoint may fall, × 100", ge=0, le=100, zero="any")
    ] = 0.0
    every: Annotated[int, about("steps between evaluations", ge=1, unit="steps", flag="")] = 125
    patience: Annotated[
        int, about("evaluations without a new best before stopping", ge=0, flag="", zero="off", resumable=True)
    ] = 0
    probes: Annotated[
        str,
        about_execution(
            "pairs of your own, whose angles each evaluation measures",
            pattern=rf"^\s*({_PAIR}([;\n]{_PAIR}){{0,{MOST_PROBES - 1}}})?[;\s]*\Z",
            form=f"at most {MOST_PROBES} pairs of texts: A | B; C | D",
        ),
    ] = ""

    @property
    def probe_pairs(self) -> list[tuple[str, str]]:
        """The two texts of each of the `probes`."""
        pairs = [pair.partition("|") for pair in re.split("[;\n]", self.probes) if pair.strip()]
        return [(first.strip(), second.strip()) for first, _, second in pairs]


class Train(Section, frozen=True, kw_only=True):
    """The loop. Steps are optimiser updates."""

    batch_size: Annotated[int, about_data("rows contrasted with each other", ge=1, le=1_000_000, essential=True)] = 64
    lr: Annotated[
        float, about("peak learning rate of the encoder", gt=0, le=10, essential=True, usual=(1e-7, 0.01))
    ] = 3e-5
    head_lr: Annotated[float, about("learning rate of heads", ge=0, le=10, zero="the encoder's")] = 0.0
    epochs: Annotated[
        int,
        about_data("whole passes over the data; for less, max_steps", ge=1, le=100_000, essential=True, resumable=True),
    ] = 1
    max_steps: Annotated[
        int, about_data("most steps to train", ge=0, unit="steps", essential=True, resumable=True, zero="by epochs")
    ] = 0
    optimizer: Annotated[Literal["adamw", "adam"], about("optimiser")] = "adamw"
    schedule: Annotated[Literal["linear", "constant", "cosine"], about("learning rate after warm-up")] = "linear"
    warmup: Annotated[float, about("fraction of the steps in which the rate rises", ge=0, le=1)] = 0.0
    weight_decay: Annotated[float, about("weight decay", ge=0, le=10)] = 0.0
    clip: Annotated[float, about("largest gradient norm", ge=0, zero="no clipping")] = 1.0
    precision: Annotated[Literal["auto", "fp32", "bf16"], about("bf16 is by autocast; auto: where it is fast")] = "auto"
    token_budget: Annotated[int, about_execution("most tokens in the encoder at once", ge=0, zero="by device")] = 0
    log_every: Annotated[
        int, about_execution("steps between logged steps; slow ones are logged every 10 s", ge=1, unit="steps")
    ] = 10
    save_every: Annotated[int, about_execution("steps between checkpoints", ge=0, zero="at evaluations")] = 0
    keep: Annotated[int, about_execution("last checkpoints to keep, each with all that a resume needs", ge=1)] = 1
    seed: Annotated[
        int, about_execution("seed of weights, order and dropout", ge=0, le=2**32 - 1, essential=True, resumable=False)
    ] = 42
    device: Annotated[str, about_execution("auto, cpu, cuda, cuda:1 or mps")] = "auto"


_about_alert = partial(about_execution, flag="")


class Alerts(Section, frozen=True, kw_only=True):
    """When a run calls for attention."""

    webhook: Annotated[
        str,
        _about_alert(
            'URL that gets a JSON object {"text": …} at each alert and at the end',
            pattern=r"^(https?://[\w.\[][^\s…']*)?$",
            form="a URL that begins with https:// or http://",
            secret=True,
        ),
    ] = ""
    evaluations: Annotated[int, _about_alert("evaluations without a new best", ge=0, zero="off")] = 10
    collapse: Annotated[float, _about_alert("fall of the dev score from its best, × 100", ge=0, le=200, zero="off")] = (
        10.0
    )
    disk: Annotated[float, _about_alert("free space of the disk", ge=0, unit="GB", zero="off")] = 1.0
    gpu: Annotated[float, _about_alert("use of the GPU over a minute", ge=0, le=100, unit="%", zero="off")] = 20.0
    ring: Annotated[
        Literal["all", "alerts", "end", "none"],
        _about_alert("what rings the bell and notifies the desktop, in the app and by contrast watch"),
    ] = "all"


class Track(Section, frozen=True, kw_only=True):
    """Where the numbers of a run go besides its directory."""

    to: Annotated[
        Literal["none", Tracker],
        about_execution("tracker that follows the run in a process of its own: see contrast runs log", flag=""),
    ] = "none"


class _Name(Section, frozen=True, kw_only=True):
    name: Annotated[
        str, about("the loss to train with: see contrast help objectives", flag="--objective", essential=True)
    ] = "simcse"


OBJECTIVE = describe("objective", _Name)["name"]
"""The setting that chooses the objective."""

SEED = "train.seed"
"""The setting in which runs of one method differ."""

SECTIONS: Mapping[str, type[Section]] = {
    "model": Model,
    "data": Data,
    "dev": Dev,
    "train": Train,
    "alerts": Alerts,
    "track": Track,
}

_OPTIONS = (
    "after config detach dry-run grid help json name no-ui preset resume resume-or-start seeds set worker workers"
)
COMMAND_OPTIONS = frozenset(f"--{name}" for name in _OPTIONS.split())
"""Options of the commands that have one for each setting."""

RESETS = {OBJECTIVE.key: ("objective.",), "objective.similarity": ("objective.margin", "objective.sigma")}
"""Prefixes of the keys that a choice resets: an objective its settings; a similarity its margin and width."""


@cache
def settings_of(*specs: Spec) -> Mapping[str, Setting]:
    """Every setting of runs with these objectives, by key; the first, if several have the same key.

    That of an objective which is called as one of another section, or as an option of a command, has no option.
    """
    others = {s.key: s for section, struct in SECTIONS.items() for s in describe(section, struct).values()}
    taken = COMMAND_OPTIONS.union(s.flag for s in others.values())
    by_key = {OBJECTIVE.key: OBJECTIVE}
    for spec in specs:
        own = {s.key: replace(s, flag="") if s.flag in taken else s for s in spec.describe().values()}
        by_key |= {key: s for key, s in own.items() if key not in by_key}
    return by_key | others


def all_settings() -> Mapping[str, Setting]:
    """Every setting of every objective, by key."""
    return settings_of(*catalogue.all_objectives())


def hold_secret(values: Mapping[str, object]) -> bool:
    """Whether one of these values, by key, is not for others to see."""
    return any(value and key in all_settings() and all_settings()[key].secret for key, value in values.items())


def masked(word: str) -> str:
    """A word of a command line as others may see it: of KEY=VALUE, where that is a secret, the host."""
    key, _, value = word.partition("=")
    setting = all_settings().get(key)
    return f"{key}={setting.shown(value)}" if setting and setting.secret else word


def key_of(word: str) -> str:
    """The key of the setting whose option is called that, such as `tau` or `batch-size`; else the word."""
    flag = f"--{word.strip().replace('_', '-')}"
    return next((one.key for one in all_settings().values() if one.flag == flag), word.strip())


def find_setting(key: str, source: str = "") -> Setting:
    """The setting with that key, of any objective. Raises UsageError, with the source of the key."""
    known = all_settings()
    if key not in known:
        ours, comma, remark = our_name(key).partition(", ")
        hint = nearest(ours, known, "contrast help settings", comma + remark)
        raise UsageError(f"there is no setting '{key}'", hint, key=key, source=source)
    return known[key]
