"""What a GPU gets to do at once."""

import platform

import pytest
import torch

from contrastcli.errors import UsageError
from contrastcli.model.devices import choose_device, default_budget, device_name, is_out_of_memory
from contrastcli.settings.config import Layer, resolve
from contrastcli.settings.memory import SIZES, estimate


@pytest.mark.parametrize("backbone", ["bert-base-uncased", "bert-large-uncased"])
@pytest.mark.parametrize("gigabytes", [8, 24, 80])
def test_the_graphs_of_a_budget_take_half_of_a_gpu(
    backbone: str, gigabytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    total = gigabytes * 10**9
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (total - 10**9, total))
    *_, layers, width = SIZES[backbone]
    budget = default_budget(torch.device("cuda"), layers, width)
    config = resolve(
        [Layer.of({"model.backbone": backbone, "model.max_length": 32, "train.batch_size": 100_000}, "a test")]
    )
    memory = estimate(config, texts=2, budget=budget)
    assert memory is not None
    assert memory.activations <= gigabytes / 2
    assert budget == 65_536 or memory.activations > 0.99 * gigabytes / 2


def test_a_gpu_that_others_use_gets_less(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (3 * 10**9, 24 * 10**9))
    assert default_budget(torch.device("cuda")) * 56 * 12 * 768 <= 2 * 10**9


def test_a_gpu_of_a_number_is_the_one_that_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pinned memory and questions about the current GPU would otherwise open the first one too."""
    current: list[torch.device] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "set_device", current.append)
    monkeypatch.setattr(torch, "empty", lambda *_, device: torch.zeros(1))
    assert choose_device("cuda:1") == torch.device("cuda:1") and current == [torch.device("cuda:1")]
    choose_device("cuda")
    assert len(current) == 1


@pytest.mark.parametrize(("processor", "name"), [("x86_64", ""), ("Intel64 Family 6", "Intel64 Family 6"), ("", "")])
def test_an_architecture_is_not_the_name_of_a_processor(
    monkeypatch: pytest.MonkeyPatch, processor: str, name: str
) -> None:
    monkeypatch.setattr(platform, "processor", lambda: processor)
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    assert device_name(torch.device("cpu")) == name


def test_memory_runs_out_of_libraries_of_the_gpu_and_of_python_too() -> None:
    assert is_out_of_memory(MemoryError())
    assert is_out_of_memory(RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"))
    assert not is_out_of_memory(RuntimeError("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED"))
    assert not is_out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))


def test_a_full_gpu_is_said_to_be_full(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, device: torch.device) -> None:
        raise RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch, "empty", full)
    with pytest.raises(UsageError, match="CUDA error: out of memory") as error:
        choose_device("auto")
    hint = "end what fills it, which nvidia-smi lists, or use no GPU: CUDA_VISIBLE_DEVICES= before the command"
    assert error.value.hint == hint


def test_a_device_that_is_not_here_has_one_that_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", None)
    with pytest.raises(UsageError) as error:
        choose_device("cuda:99")
    assert error.value.hint == "use --device auto, or install torch with CUDA, as pytorch.org says"
