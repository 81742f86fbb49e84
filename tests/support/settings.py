"""Settings in tests: by key, or by keyword with two underscores for the point, as train__lr=1e-3."""

from __future__ import annotations

from collections.abc import Mapping

from contrastcli.settings import config as configs
from contrastcli.settings.config import Config, Layer


def layer(values: Mapping[str, object] | None = None, /, **changes: object) -> Layer:
    """Settings from a source called "test"."""
    keys = dict(values or {}) | {name.replace("__", "."): value for name, value in changes.items()}
    return Layer(keys, dict.fromkeys(keys, "test"))


def config(values: Mapping[str, object] | None = None, /, *, preset: str = "", **changes: object) -> Config:
    """The settings of a run: the defaults or a preset's, with changes."""
    below = [configs.file_layer(configs.preset_path(preset))] if preset else []
    return configs.resolve([*below, layer(values, **changes)])
