"""Commands in forks of this process, which has imported what they load: processes that start in milliseconds."""

import io
import os
import resource
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import psutil

TIMEOUT = 180
"""Seconds after which a command hangs: a sweep of two cells takes 60 beside other work."""
ADDRESSES = 12 << 30
"""Bytes of memory after which there is none, so that no command takes the machine's."""

_LATER = """
filelock platformdirs psutil rich.progress tokenizers tomli_w torch.distributed.nn contrastcli.cli
contrastcli.show.console contrastcli.commands.encode contrastcli.commands.query contrastcli.commands.sweep
contrastcli.commands.train contrastcli.model.search contrastcli.training.process contrastcli.training.setup
contrastcli.training.plan contrastcli.training.auxiliaries.teachers contrastcli.training.auxiliaries.views
contrastcli.training.auxiliaries.mlm
"""
_OF_SOME = """
datasets matplotlib.backends.backend_agg matplotlib.backends.backend_svg matplotlib.figure pyarrow.parquet scipy.stats
sentence_transformers sklearn.cluster sklearn.linear_model sklearn.manifold transformers contrastcli.commands.compare
contrastcli.commands.evaluate contrastcli.commands.export.export contrastcli.evaluation.evaluate
contrastcli.evaluation.geometry contrastcli.evaluation.sts contrastcli.evaluation.transfer
"""


class Outcome(NamedTuple):
    """How a command ended: its exit code or the negative number of a signal, its output, and its memory.

    That is what it took besides the memory of this process, with which it began.
    """

    code: int
    out: str
    err: str
    memory_mb: float


def _import_for(command: Sequence[str]) -> None:
    """Import what commands load when they need it. Nothing is trained: a fork cannot use autograd after that."""
    needs_more = not {*command[:1]}.isdisjoint(("eval", "compare", "export", "papers"))
    with warnings.catch_warnings(action="ignore"):  # of other libraries
        for name in (_LATER + _OF_SOME * needs_more).split():
            import_module(name)


def start(
    command: Sequence[str],
    *,
    stdin: Path = Path(os.devnull),
    environment: Mapping[str, str] | None = None,
    before: Callable[[], object] = lambda: None,
) -> int:
    """Start a command line in the working folder, with caches in cache/ and runs in runs/; returns its pid.

    `before` is called in its process.
    """
    _import_for(command)
    pid = os.fork()
    if pid:
        return pid
    code = 255
    try:
        warnings.resetwarnings()  # tests make errors of them
        before()
        _open_streams(stdin)
        sys.argv = ["contrast", *command]
        os.environ |= {"CONTRAST_CACHE": str(Path("cache").resolve()), "CONTRAST_RUNS": "runs"} | dict(
            environment or {}
        )
        from contrastcli.__main__ import main

        code = main()
        sys.stdout.flush()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _open_streams(stdin: Path) -> None:
    """stdin from a file, stdout to out.txt and stderr to err.txt."""
    new = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    for stream, path, flags in ((0, stdin, os.O_RDONLY), (1, Path("out.txt"), new), (2, Path("err.txt"), new)):
        os.dup2(os.open(path, flags), stream)
    sys.stdin, sys.stdout, sys.stderr = (
        io.TextIOWrapper(open(stream, mode, closefd=False), "utf-8")  # noqa: SIM115 - until this process ends
        for stream, mode in ((0, "rb"), (1, "wb"), (2, "wb"))
    )


def wait(pid: int) -> Outcome:
    """Wait for the end of a command."""
    _, status, usage = os.wait4(pid, 0)
    out, err = (
        Path(name).read_text("utf-8", "replace") if Path(name).exists() else "" for name in ("out.txt", "err.txt")
    )
    own = psutil.Process().memory_info().rss / 2**20
    return Outcome(os.waitstatus_to_exitcode(status), out, err, usage.ru_maxrss / 1024 - own)


def run(
    command: Sequence[str], stdin: Path = Path(os.devnull), environment: Mapping[str, str] | None = None
) -> Outcome:
    """Run a command line to its end; after TIMEOUT seconds SIGALRM ends it, and it has no more than ADDRESSES bytes."""

    def limit() -> None:
        signal.alarm(TIMEOUT)
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))

    return wait(start(command, stdin=stdin, environment=environment, before=limit))
