"""What a GPU gets to do at once."""

from types import SimpleNamespace

import pytest
import torch

from contrastcli.model.devices import default_budget, is_out_of_memory
from contrastcli.settings.config import Layer, resolve
from contrastcli.settings.memory import SIZES, estimate


@pytest.mark.parametrize("backbone", ["bert-base-uncased", "bert-large-uncased"])
@pytest.mark.parametrize("gigabytes", [8, 24, 80])
def test_the_graphs_of_a_budget_take_half_of_a_gpu(
    backbone: str, gigabytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda device: SimpleNamespace(total_memory=gigabytes * 10**9)
    )
    *_, layers, width = SIZES[backbone]
    budget = default_budget(torch.device("cuda"), layers, width)
    config = resolve([Layer.of({"model.backbone": backbone, "train.batch_size": 100_000}, "a test")])
    memory = estimate(config, texts=2, budget=budget)
    assert memory is not None
    assert memory.activations <= gigabytes / 2
    assert budget == 65_536 or memory.activations > 0.99 * gigabytes / 2


def test_a_library_of_the_gpu_runs_out_of_memory_too() -> None:
    assert is_out_of_memory(RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"))
    assert not is_out_of_memory(RuntimeError("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED"))
