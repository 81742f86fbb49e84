"""Settings in tests: by key, or by keyword with two underscores for the point, as train__lr=1e-3."""

from collections.abc import Mapping

from contrastcli.settings import config as configs
from contrastcli.settings import presets
from contrastcli.settings.config import Config, Layer


def dotted(values: Mapping[str, object], /, **changes: object) -> dict[str, object]:
    """Settings by key, with changes."""
    return {**values, **{name.replace("__", "."): value for name, value in changes.items()}}


def layer(values: Mapping[str, object] | None = None, /, **changes: object) -> Layer:
    """Settings from a source called "test"."""
    return Layer.of(dotted(values or {}, **changes), "test")


def config(values: Mapping[str, object] | None = None, /, **changes: object) -> Config:
    """The defaults with changes."""
    return configs.resolve([layer(values, **changes)])


def preset(name: str, /, **changes: object) -> Config:
    """A preset with changes."""
    return configs.resolve([*presets.find(name).layers, layer(**changes)])
