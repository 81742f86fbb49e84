"""Compiled layers are few programs, whatever the batches, and encoding runs none of them."""

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from contrastcli.model import encoder as encoders
from contrastcli.model.backbone import BertBackbone
from contrastcli.model.bert.cpu import Packing
from contrastcli.model.bert.network import EncoderLayer
from contrastcli.model.folder import load_encoder
from contrastcli.settings.sections import Precision
from support.tiny import Tiny
from support.trainers import trainer_of

pytestmark = pytest.mark.filterwarnings("ignore")  # of torch about torch


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[object]]:
    """Every program that torch compiles; it runs as written."""
    made: list[object] = []
    compiled = nn.Module.compile

    def backend(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> Callable[..., Any]:
        made.append(graph)
        return graph.forward

    monkeypatch.setattr(EncoderLayer, "compile", lambda self, **words: compiled(self, backend=backend, **words))
    torch.compiler.reset()
    yield made
    torch.compiler.reset()


CASES: dict[str, tuple[str, dict[str, object]]] = {
    "masked tokens": ("simcse", {"objective__mlm_weight": 0.5, "train__precision": "bf16"}),
    "two encoders": ("pcl", {"train__batch_size": 32}),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "case", "most"),
    [
        ("gpu", "masked tokens", 2),
        ("gpu", "two encoders", 2),
        ("cpu", "masked tokens", 6),
    ],
)
def test_layers_of_all_batches_are_few_programs(
    tiny: Tiny,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    programs: list[object],
    place: str,
    case: str,
    most: int,
) -> None:
    """The last layer may have a program of its own; torch gives up at eight. A GPU gets padded batches."""
    if place == "gpu":
        padded = classmethod(lambda cls, mask, size: cls(size, mask[:, None, None, :]))
        monkeypatch.setattr(Packing, "of", padded)
    objective, changes = CASES[case]
    settings = {"model__pooling": "cls", "train__compile": True} | changes
    trainer = trainer_of(tiny, tmp_path, objective, "sentences", **settings)
    for keep_graphs in (True, False):
        for step, _, rows in islice(trainer.plan.batches(0), 3):
            trainer.stepper.backward(trainer.make_batch(step, rows), keep_graphs=keep_graphs)
        trainer.encoder.encode_table(trainer.inputs.table)
    assert 0 < len(programs) <= most


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_compiled_encoder_encodes_as_it_is_written(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch, programs: list[object], precision: Precision
) -> None:
    """As on a GPU, where encoding in bf16 takes a copy of the compiled backbone."""
    monkeypatch.setattr(encoders, "has_products", lambda precision: False)
    plain, compiled = load_encoder(tiny.backbone), load_encoder(tiny.backbone)
    assert isinstance(compiled.backbone, BertBackbone)
    compiled.backbone.compile_layers()
    plain.precision = compiled.precision = precision
    texts = ["ba den fir", "go", "ken lir mo num"]
    assert (plain.encode(texts) == compiled.encode(texts)).all()
    assert not programs
