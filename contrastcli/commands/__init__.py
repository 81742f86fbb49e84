"""One file a verb, loaded when it is first used: `contrast --help` needs none of them, and some load torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from contrastcli.lazy import files_of

if TYPE_CHECKING:
    from contrastcli.commands import (
        bench,
        compare,
        doctor,
        encode,
        evaluate,
        export,
        help,
        mine,
        papers,
        query,
        sweep,
        train,
        verify,
    )

__all__ = [
    "bench",
    "compare",
    "doctor",
    "encode",
    "evaluate",
    "export",
    "help",
    "mine",
    "papers",
    "query",
    "sweep",
    "train",
    "verify",
]
__getattr__ = files_of(__name__, __all__)
