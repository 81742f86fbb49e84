"""The device and precision of a run, and its memory."""

import os
import platform
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor

from contrastcli.errors import Remedy, UsageError, Use, error_text
from contrastcli.settings.memory import CUDA_BUDGET, GRAPH_BYTES
from contrastcli.settings.sections import Precision

T = TypeVar("T")

_CACHES = ("LRU_CACHE_CAPACITY", "ONEDNN_PRIMITIVE_CACHE_CAPACITY")
"""The caches of torch's binding of oneDNN and of oneDNN itself."""

_WITHOUT_VNNI = ("SSE41", "AVX", "AVX2", "AVX512_CORE")
"""Instruction sets that oneDNN may be limited to and in which its products of int8 saturate."""


def choose_device(wanted: str) -> torch.device:
    """The device of that name; `auto` is CUDA, else MPS, else the CPU. Raises UsageError if there is none."""
    if wanted == "auto":
        wanted = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    if re.fullmatch(r"(cpu|cuda|mps)(:\d+)?", wanted) is None:
        raise UsageError(
            f"train.device is '{wanted}', which is no device",
            [Use("--device", "auto", "use"), "cpu, cuda, cuda:1, mps"],
        )
    try:
        device = torch.device(wanted)
        if device.type == "cuda" and device.index is not None and torch.cuda.is_available():
            # Else pinned memory and questions about "the" GPU would open the first one too.
            torch.cuda.set_device(device)
        # This fails on a device that does not work.
        torch.empty(1, device=device).cpu()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        remedies: list[Remedy] = [Use("--device", "auto", "use"), "use the CPU"]
        if wanted.startswith("cuda") and torch.version.cuda is None:
            remedies[1] = "install torch with CUDA, as pytorch.org says"
        if is_out_of_memory(error):
            remedies = [
                "end what fills it, which nvidia-smi lists",
                "use no GPU: CUDA_VISIBLE_DEVICES= before the command",
            ]
        raise UsageError(f"train.device is '{wanted}': {error_text(error)}", remedies) from None
    # It plans for each shape that it meets, which takes long.
    torch.backends.cuda.enable_cudnn_sdp(False)
    return device


def choose_precision(wanted: str, device: torch.device) -> Precision:
    """The precision that is set; for `auto` bf16 on a device that is fast at it, else fp32."""
    if wanted != "auto":
        return "bf16" if wanted == "bf16" else "fp32"
    if device.type == "cuda":
        fast = torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        fast = device.type == "cpu" and (torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())
    return "bf16" if fast else "fp32"


def limit_prepared_products(shapes: int) -> None:
    """Before the first product: for how many shapes of matrices oneDNN keeps up to half a megabyte each; else 1,024."""
    os.environ.update({name: str(shapes) for name in _CACHES if name not in os.environ})


def has_products(precision: Precision) -> bool:
    """Whether this torch and CPU multiply matrices in that precision by oneDNN; int8 needs VNNI or AMX.

    Without them sums of two products saturate in 16 bits: a random BERT's embeddings have a cosine of 0.987 to fp32's.
    """
    backend: Any = torch.backends.mkldnn
    ops: Any = torch.ops
    if not (backend.is_available() and hasattr(ops.mkldnn, "_linear_pointwise")):
        return False
    if precision == "int8":
        is_limited = os.environ.get("ONEDNN_MAX_CPU_ISA", "").upper() in _WITHOUT_VNNI
        return hasattr(ops.onednn, "qlinear_pointwise") and torch.cpu._is_vnni_supported() and not is_limited
    return precision == "fp32" or bool(ops.mkldnn._is_mkldnn_bf16_supported())


def is_int8_slower_than_bf16() -> bool:
    """Whether this CPU has AMX, where int8 is 0.86 × bf16; with AVX512-BF16 alone it is 1.4 to 1.6 × bf16."""
    return torch.cpu._is_amx_tile_supported()


def default_budget(device: torch.device, layers: int = 12, width: int = 768) -> int:
    """Tokens whose graph is kept at once, by an encoder of such a size.

    On a CPU they take 2 GB in bf16, 4 in fp32, and on a GPU by an estimate at most a half of its memory and two thirds
    of what others leave of it.
    """
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        most = min(total // 2, free * 2 // 3)
        return min(CUDA_BUDGET, max(1024, most // (GRAPH_BYTES * layers * width)))
    return max(1024, 4_096 * 12 * 768 // (layers * width))


def device_name(device: torch.device) -> str:
    """What a GPU or else the processor is called; empty if it does not say."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    # Some systems give the architecture in its place.
    name = platform.processor()
    return "" if name == platform.machine() else name


def memory_mb(device: torch.device) -> float:
    """Peak memory of the device, or the current memory of the process on a CPU, in MB."""
    if device.type == "cuda":
        return float(torch.cuda.max_memory_allocated(device)) / 1e6
    import psutil

    return float(psutil.Process().memory_info().rss) / 1e6


def on_cpu_if_full(function: Callable[[Mapping[str, Tensor]], T], views: Mapping[str, Tensor]) -> T:
    """What a function makes of views; by the CPU where a GPU has no memory left for it."""
    try:
        return function(views)
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
    return function({name: view.cpu() for name, view in views.items()})


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means that memory ran out, on any device."""
    words = ("not enough memory", "can't allocate memory", "out of memory", "cublas_status_alloc_failed")
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or any(word in str(error).lower() for word in words)
