"""The machine while it trains: its GPU by NVML, the process and the disk by psutil."""

import time
from collections.abc import Callable
from pathlib import Path

import psutil
import torch

from contrastcli.runs.measured import System

SAMPLE_SECONDS = 5.0


class Sampler:
    """Samples the machine, at most once in a few seconds."""

    def __init__(self, device: torch.device, folder: Path) -> None:
        self._device, self._folder = device, folder
        self._process = psutil.Process()
        # The next call measures from here.
        self._process.cpu_percent()
        self._last = time.monotonic()

    def __call__(self, step: int) -> System | None:
        """A sample, unless the last one is too recent."""
        if time.monotonic() - self._last < SAMPLE_SECONDS:
            return None
        self._last = time.monotonic()
        gpu = self._device.type == "cuda"
        return System(
            step=step,
            gpu=self._ask(torch.cuda.utilization) if gpu else None,
            gpu_memory=self._ask(torch.cuda.device_memory_used, 1e9) if gpu else None,
            gpu_temperature=self._ask(torch.cuda.temperature) if gpu else None,
            gpu_power=self._ask(torch.cuda.power_draw, 1e3) if gpu else None,
            gpu_clock=self._ask(torch.cuda.clock_rate) if gpu else None,
            cpu=self._process.cpu_percent(),
            memory=self._process.memory_info().rss / 1e9,
            disk_free=psutil.disk_usage(str(self._folder)).free / 1e9,
        )

    def _ask(self, what: Callable[[torch.device], float], unit: float = 1.0) -> float | None:
        """What the driver says; None where it does not say, as some virtual GPUs and containers do not."""
        try:
            return what(self._device) / unit
        except Exception:  # pynvml's depend on the driver
            return None
