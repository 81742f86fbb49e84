"""A world small enough to train in a second: a random BERT, its tokenizer, and rows of every form."""

import json
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import torch
from safetensors.torch import load_file, save_file

from contrastcli.runs import directory as runs
from contrastcli.runs.directory import Run
from contrastcli.runs.event import Event
from contrastcli.runs.events import Done
from contrastcli.runs.measured import Step
from contrastcli.settings.config import Config
from support.settings import config, dotted

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = [first + second for first in "bdfgklmnprst" for second in ("a", "en", "ir", "o", "um")]
ROWS = 160
SIZES = {
    "model_type": "bert",
    "vocab_size": len(SPECIAL) + len(WORDS),
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 32,
    "type_vocab_size": 2,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "layer_norm_eps": 1e-12,
    "pad_token_id": 0,
}


@dataclass(frozen=True)
class Tiny:
    """The paths. `data` maps a form of rows to its file; `dev` holds scored pairs."""

    backbone: Path
    data: dict[str, Path]
    dev: Path

    def settings(
        self, objective: str = "pairsupcon", form: str = "labelled", /, **changes: object
    ) -> dict[str, object]:
        """A run of 20 steps an epoch, in fp32 and logging every step; `changes` as train__lr=1e-3."""
        values: dict[str, object] = {
            "objective.name": objective,
            "model.backbone": str(self.backbone),
            "data.train": str(self.data[form]),
            "dev.data": str(self.dev),
            "dev.general": "none",
            "train.batch_size": 8,
            "train.lr": 1e-3,
            "train.log_every": 1,
            "train.precision": "fp32",
            "train.device": "cpu",
        }
        if objective in ("rankcse", "embed"):
            values["objective.teachers"] = f"{self.backbone}:cls=2,{self.backbone}"
        return dotted(values, **changes)

    def config(self, objective: str = "pairsupcon", form: str = "labelled", /, **changes: object) -> Config:
        return config(self.settings(objective, form, **changes))

    def run(self, folder: Path, objective: str = "pairsupcon", form: str = "labelled", /, **changes: object) -> Run:
        """A new run, not yet trained."""
        return runs.create(self.config(objective, form, **changes), folder.parent, folder.name)

    def trained(self, folder: Path, objective: str = "pairsupcon", form: str = "labelled", /, **changes: object) -> Run:
        """A new run, trained to its end."""
        run = self.run(folder, objective, form, **changes)
        train(run)
        return run


def edit_json(path: Path, **values: object) -> None:
    """Set keys of the object in a JSON file."""
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def write_tiny(folder: Path) -> Tiny:
    """Write the backbone and the data."""
    draw = random.Random(5)
    texts = _texts(draw)
    labelled = [
        {"premise": premise, "hypothesis": next(texts), "label": label}
        for _ in range(ROWS // 2)
        for premise in [next(texts)]
        for label in ("entailment", "contradiction")
    ]
    grouped = [
        {
            "premise": premise,
            "hypothesis": next(texts),
            "label": draw.choice(("entailment", "neutral", "contradiction")),
        }
        for size in [1, 3, 2, 5] * 15
        for premise in [next(texts)]
        for _ in range(size)
    ]
    triplets = [{name: next(texts) for name in ("anchor", "positive", "negative")} for _ in range(ROWS)]
    pairs = [{name: row[name] for name in ("anchor", "positive")} for row in triplets]
    sentences = [{"sentence": row["anchor"]} for row in triplets]
    scored = [{"sentence1": next(texts), "sentence2": next(texts), "score": draw.random()} for _ in range(30)]
    negatives = [{**row, "negative": [next(texts) for _ in range(n % 4)]} for n, row in enumerate(pairs)]
    files: dict[str, Sequence[Mapping[str, object]]] = {
        "labelled": labelled,
        "grouped": grouped,
        "negatives": negatives,
        "scored": [{**row, "score": draw.choice((0.0, 2.5, 5.0))} for row in pairs],
        "triplets": triplets,
        "pairs": pairs,
        "sentences": sentences,
    }
    # Drawn last, so that no other row changes.
    files["scored-triplets"] = [
        {**row, "negative_1": next(texts), "negative_2": next(texts)}
        | {name: draw.random() for name in ("score", "negative_score_1", "negative_score_2")}
        for row in pairs
    ]
    data = {form: _write_rows(folder / f"{form}.jsonl", rows) for form, rows in files.items()}
    return Tiny(write_backbone(folder / "backbone"), data, _write_rows(folder / "dev.jsonl", scored))


def _texts(draw: random.Random) -> Iterator[str]:
    """Distinct sentences of three to twelve words."""
    seen: set[str] = set()
    while True:
        text = " ".join(draw.choices(WORDS, k=draw.randint(3, 12)))
        if text not in seen:
            seen.add(text)
            yield text


def _write_rows(path: Path, rows: Sequence[Mapping[str, object]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def write_backbone(folder: Path, **sizes: object) -> Path:
    """A model folder with random weights, a masked-language-model head and a tokenizer of whole words.

    `sizes` is what else its config.json says; `initializer_range` is the deviation of the weights.
    """
    from contrastcli.model.backbone import BertBackbone
    from contrastcli.model.bert.families import FAMILIES, Shape
    from contrastcli.model.bert.network import Bert, MaskedLMHead

    folder.mkdir()
    config = SIZES | sizes
    deviation = float(str(config.get("initializer_range", 0.2)))
    bert = Bert(Shape.of(config), FAMILIES["bert"])
    head = MaskedLMHead(bert)
    generator = torch.Generator().manual_seed(11)
    for name, parameter in [*bert.named_parameters(), *head.named_parameters()]:
        scale = "norm" in name and name.endswith("weight")
        parameter.data.normal_(mean=1.0 if scale else 0.0, std=deviation, generator=generator)
    BertBackbone(config, bert).save(folder)
    weights = folder / "model.safetensors"
    save_file(load_file(weights) | head.published_state(), weights, metadata={"format": "pt"})
    write_tokenizer(folder)
    return folder


def write_tokenizer(folder: Path) -> None:
    """tokenizer.json and tokenizer_config.json: a word is a token, lower case."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    vocabulary = {word: number for number, word in enumerate([*SPECIAL, *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens(SPECIAL)
    ends = [(word, vocabulary[word]) for word in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    tokenizer.save(str(folder / "tokenizer.json"))
    roles = {f"{role}_token": f"[{role.upper()}]" for role in ("pad", "unk", "cls", "sep", "mask")}
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 32, **roles}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


E = TypeVar("E", bound=Event)


def told(run: Run, kind: type[E]) -> list[E]:
    return [event for event in run.events() if isinstance(event, kind)]


def known(values: Iterable[float | None]) -> list[float]:
    """Values of which none is missing."""
    values = list(values)
    assert None not in values
    return [value for value in values if value is not None]


def train(run: Run, watch: Callable[[Event], object] = lambda event: None) -> Done:
    """Train or resume a run in this process; `watch` gets each event once it is written."""
    from contrastcli.training import process
    from contrastcli.training.distributed import world
    from contrastcli.training.plan import make_plan

    return process.supervise(run, make_plan(run.config()), watch, world())


def on_step(number: int, act: Callable[[], object]) -> Callable[[Event], object]:
    """A watcher that acts as soon as that step is logged."""
    return lambda event: act() if isinstance(event, Step) and event.step == number else None
