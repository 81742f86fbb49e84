"""A loss that depends on a weight that nothing would train is an error, not a weight that silently stays as it was."""

import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from unittest.mock import Mock

import pytest
import torch
from torch import Tensor, nn

from contrastcli.api import SIMILARITIES, ObjectiveSettings, Rows, Spec, mean_over, paired
from contrastcli.errors import UsageError
from contrastcli.objectives import functional
from contrastcli.objectives.matryoshka import Loss
from contrastcli.training.setup import make_loss
from support.command import Contrast, failed, train
from support.packages import bring_objective

Function = Callable[[Mapping[str, Tensor], Rows, nn.ModuleDict], Tensor]

SPEC = Spec(
    "outside", ObjectiveSettings, ("pairs",), "outside_losses:loss", "Someone 2030", heads="outside_losses:heads"
)
WEIGHT = nn.Linear(32, 32)
COSINE = SIMILARITIES["cosine"]
INDICES = torch.arange(8)


def heads(width: int) -> nn.ModuleDict:
    return nn.ModuleDict({"mine": nn.Linear(width, width)})


def in_heads(views: Mapping[str, Tensor], rows: Rows, heads: nn.ModuleDict) -> Tensor:
    """As it should be: the weight is in the heads."""
    return -paired(heads["mine"](views["anchor"]), views["positive"], COSINE).mean()


def over_a_weight(views: Mapping[str, Tensor], rows: Rows, heads: nn.ModuleDict) -> Tensor:
    def term(i: Tensor, a: Tensor, b: Tensor) -> Tensor:
        return -paired(WEIGHT(a[i]), b[i], COSINE)

    return mean_over(INDICES, term, views["anchor"], views["positive"])


def over_its_heads_in_a_term(views: Mapping[str, Tensor], rows: Rows, heads: nn.ModuleDict) -> Tensor:
    def term(i: Tensor, a: Tensor, b: Tensor) -> Tensor:
        return -paired(heads["mine"](a[i]), b[i], COSINE)

    return mean_over(INDICES, term, views["anchor"], views["positive"])


def over_an_embedding_in_a_term(views: Mapping[str, Tensor], rows: Rows, heads: nn.ModuleDict) -> Tensor:
    def term(i: Tensor, a: Tensor) -> Tensor:
        return -paired(a[i], views["positive"][i], COSINE)

    return mean_over(INDICES, term, views["anchor"])


TRAINED = [in_heads, over_its_heads_in_a_term, over_an_embedding_in_a_term]


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch) -> Callable[[Function], None]:
    """Makes a function the loss of another package's objective."""
    module = ModuleType("outside_losses")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    bring_objective(monkeypatch, SPEC.name, lambda: SPEC)

    def install(function: Function) -> None:
        def loss(views: Mapping[str, Tensor], rows: Rows, heads: nn.ModuleDict) -> tuple[Tensor, dict[str, Tensor]]:
            value = function(views, rows, heads)
            return value, {"contrast": value, "rows": torch.tensor(8)}

        module.__dict__.update(loss=loss, heads=heads)

    return install


def take(loss: Loss) -> None:
    """Call it as a step does: on embeddings that have a graph, which its parts no longer have."""
    leaf = torch.randn(16, 32, requires_grad=True)
    first, second = nn.Linear(32, 32)(leaf).chunk(2)
    rows = Rows({"anchor": INDICES, "positive": INDICES + 8})
    _, parts = loss({"anchor": first, "positive": second}, rows, heads(32))
    assert not parts["contrast"].requires_grad


@pytest.mark.parametrize("function", TRAINED)
def test_what_is_in_its_heads_is_none(outside: Callable[[Function], None], function: Function) -> None:
    outside(function)
    loss = make_loss(SPEC, ObjectiveSettings())
    take(loss)
    take(loss)


@pytest.mark.parametrize("function", [over_its_heads_in_a_term, over_an_embedding_in_a_term])
def test_what_a_term_takes_from_elsewhere_gets_its_gradient_of_each_block(
    monkeypatch: pytest.MonkeyPatch, function: Function
) -> None:
    def gradients(block: int) -> list[Tensor]:
        monkeypatch.setattr(functional, "BLOCK", block)
        value = function(views, Rows({"anchor": INDICES, "positive": INDICES + 8}), layers)
        return list(torch.autograd.grad(value, [*views.values(), *layers.parameters()], allow_unused=True))

    views = {name: torch.randn(8, 32, requires_grad=True) for name in ("anchor", "positive")}
    layers = heads(32)
    for of_blocks, of_all in zip(gradients(3), gradients(8), strict=True):
        torch.testing.assert_close(of_blocks, of_all)


def test_a_loss_is_computed_in_float32_whatever_the_embeddings_and_what_surrounds_it(
    outside: Callable[[Function], None],
) -> None:
    seen = []

    def product(views: Mapping[str, Tensor], rows: Rows, heads: nn.ModuleDict) -> Tensor:
        cosines = views["anchor"] @ views["positive"].T
        seen.extend([views["anchor"].dtype, cosines.dtype])
        return cosines.mean()

    outside(product)
    first, second = torch.randn(2, 8, 32, dtype=torch.bfloat16, requires_grad=True).unbind()
    loss = make_loss(SPEC, ObjectiveSettings())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss({"anchor": first, "positive": second}, Rows({"anchor": INDICES}), heads(32))
    assert seen == [torch.float32, torch.float32]


def test_a_run_ends_before_its_first_step_with_two_lines(
    contrast: Contrast, outside: Callable[[Function], None]
) -> None:
    words = train("--objective", "outside", "--data", "tiny/pairs.jsonl", "--dev", "none", "--no-ui")
    outside(over_a_weight)
    what = "the loss of 'outside' depends on a tensor of shape (32, 32)"
    failed(contrast(*words), 2, what, "in the objective's heads")
    outside(in_heads)
    assert contrast(*words).code == 0


def test_a_loss_that_takes_any_keyword_gets_all_its_settings(outside: Callable[[Function], None]) -> None:
    class Warm(ObjectiveSettings, frozen=True, kw_only=True):
        similarity: str = "angle"
        tau: float = 0.5

    def keep(views: Mapping[str, Tensor], rows: Rows, heads: nn.ModuleDict, *, tau: float, **others: object) -> object:
        seen.update(others, tau=tau)
        return views["anchor"].sum(), {"contrast": views["anchor"].sum()}

    seen: dict[str, object] = {}
    outside(in_heads)
    sys.modules["outside_losses"].__dict__["loss"] = keep
    take(make_loss(SPEC, Warm()))
    assert seen == {"similarity": SIMILARITIES["angle"], "tau": 0.5}


BROKEN: dict[str, tuple[Callable[[Tensor], object], str]] = {
    "an error without a text": (lambda a: vars(SPEC)["x"], "there is no 'x'"),
    "a reason in the next line": (
        lambda a: nn.Linear(2, 2).load_state_dict({}),
        r"Error\(s\) in loading state_dict for Linear: Missing key",
    ),
    "an exit": (Mock(side_effect=SystemExit("a reason")), "a reason"),
    "a loss alone": (lambda a: a.sum(), "it returns no parts"),
    "a number": (lambda a: (5.0, {}), "its loss is not a tensor of one number"),
    "a loss for each row": (lambda a: (a.sum(1), {}), "its loss is not a tensor of one number"),
    "no gradient": (lambda a: (a.sum().detach(), {}), "its loss does not depend on the embeddings"),
    "parts that are text": (lambda a: (a.sum(), {"a": "x"}), "its a is not a tensor of one number"),
}


@pytest.mark.parametrize("late", [False, True], ids=["at once", "later"])
@pytest.mark.parametrize(("function", "what"), BROKEN.values(), ids=BROKEN)
def test_a_loss_that_fails_is_the_fault_of_its_objective(
    outside: Callable[[Function], None], function: Callable[[Tensor], object], what: str, *, late: bool
) -> None:
    outside(in_heads)
    answers = iter([lambda a: (a.sum(), {"contrast": a.sum()}), function] if late else [function])
    sys.modules["outside_losses"].__dict__["loss"] = lambda views, rows, heads: next(answers)(views["anchor"])
    loss = make_loss(SPEC, ObjectiveSettings())
    if late:
        take(loss)
    with pytest.raises(UsageError, match=f"^the objective 'outside' failed: {what}"):
        take(loss)
