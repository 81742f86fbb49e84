"""The device of the tests of a GPU: CUDA where there is one, else the CPU with toy shapes."""

import json
import random
from dataclasses import dataclass
from pathlib import Path

import torch

from contrastcli.model.devices import choose_device
from contrastcli.runs.directory import Run, create
from contrastcli.runs.measured import Step
from support.settings import config
from support.tiny import WORDS, told, write_backbone

CUDA = torch.cuda.is_available()
DEVICE = choose_device("cuda" if CUDA else "cpu")

BERT_BASE = {
    "vocab_size": 30522,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "max_position_embeddings": 512,
    "initializer_range": 0.02,
}
TOY = BERT_BASE | {"vocab_size": 100, "hidden_size": 96, "num_hidden_layers": 2, "intermediate_size": 192}
ROWS = 20_000 if CUDA else 200


@dataclass(frozen=True)
class Base:
    """An encoder's folder, and pairs of sentences of 4 to 30 words."""

    backbone: Path
    rows: Path

    def run(self, folder: Path, **changes: object) -> Run:
        """A new run of SimCSE on the pairs in bf16, without a dev set; `changes` as train__batch_size=64."""
        values: dict[str, object] = {
            "objective.name": "simcse",
            "model.backbone": str(self.backbone),
            "data.train": str(self.rows),
            "dev.data": "none",
            "train.epochs": 999,
            "train.precision": "bf16",
            "train.device": DEVICE.type,
        }
        return create(config(values, **changes), folder.parent, folder.name)

    def pairs(self) -> dict[str, list[str]]:
        """The two columns."""
        rows = [json.loads(line) for line in self.rows.read_text().splitlines()]
        return {name: [row[name] for row in rows] for name in ("anchor", "positive")}


def write_base(folder: Path) -> Base:
    draw = random.Random(3)
    rows = [
        {name: " ".join(draw.choices(WORDS, k=draw.randint(4, 30))) for name in ("anchor", "positive")}
        for _ in range(ROWS)
    ]
    path = folder / "pairs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return Base(write_backbone(folder / "backbone", **(BERT_BASE if CUDA else TOY)), path)


def rate_of(run: Run) -> float:
    """Sentences a second, without the first steps, which warm up."""
    rates = [step.sentences_per_s for step in told(run, Step) if step.sentences_per_s is not None]
    counted = rates[len(rates) // 2 :]
    return len(counted) / sum(1 / rate for rate in counted)


def settle() -> None:
    """Wait for the device, and forget the peak of its memory."""
    if CUDA:
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
