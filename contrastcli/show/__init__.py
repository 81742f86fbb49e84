"""Results as text and pictures; a file is loaded when it is first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from contrastcli.lazy import files_of

if TYPE_CHECKING:
    from contrastcli.show import answers, console, format, papers, plots, runs, scores, settings

__all__ = ["answers", "console", "format", "papers", "plots", "runs", "scores", "settings"]
__getattr__ = files_of(__name__, __all__)
