"""Measures the app; not a test, since a busy machine changes every figure.

Run it from the repository's root: PYTHONPATH=tests python .ci/measure_app.py

1. How late timers of the app's loop are while a run logs 100 events a second, beside those of an empty loop.
2. A run with a million step events: when its latest window is painted, when all of it is there, timers meanwhile.
3. The share of a core that the app takes while nothing happens.
4. A fresh process: from its start to its first frame, and what it has imported by then.
"""

import asyncio
import contextlib
import os
import pty
import select
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec
import psutil
from textual.app import App

from contrastcli.runs.directory import Run
from contrastcli.runs.events import encode
from contrastcli.runs.status import Writer
from contrastcli.tui.app import ContrastApp
from contrastcli.tui.history.feed import Feed
from contrastcli.tui.live.screen import LiveScreen
from support.recorded import Kind, angles, append, recorded, started, stepped
from support.screens import NARROW, WIDE, screen_text

PERIOD = 0.01  # seconds between the ticks of the timer
MILLION = 1_000_000
RATE = 100  # events a second
HEAVY = ("torch", "transformers", "datasets", "scipy", "sklearn", "numpy")

WRITER = """
import sys, time, itertools
from support.recorded import Kind, angles, stepped
from contrastcli.runs.events import encode
import msgspec
with open(sys.argv[1], "ab", buffering=0) as file:
    begin = time.monotonic()
    for n in itertools.count():
        event = stepped(600) if n % 2 else angles(600)
        file.write(encode(msgspec.structs.replace(event, step=601 + n // 2)))
        time.sleep(max(0.0, begin + (n + 1) / {rate} - time.monotonic()))
"""


class Ticks:
    """A timer of 10 ms, and how late it was each time."""

    def __init__(self) -> None:
        self._late: list[float] = []

    async def run(self) -> None:
        """Tick until cancelled."""
        while True:
            due = time.perf_counter() + PERIOD
            await asyncio.sleep(PERIOD)
            self._late.append(1000 * (time.perf_counter() - due))

    def __str__(self) -> str:
        late = sorted(self._late)
        p50, p95 = (late[int(share * (len(late) - 1))] for share in (0.5, 0.95))
        return f"late by {p50:.1f} ms at p50, {p95:.1f} at p95, {late[-1]:.1f} at most ({len(late)} ticks)"


@contextlib.asynccontextmanager
async def ticking() -> AsyncIterator[Ticks]:
    """Tick during the body."""
    ticks = Ticks()
    task = asyncio.create_task(ticks.run())
    try:
        yield ticks
    finally:
        task.cancel()


def say(text: str) -> None:
    """Print a figure beside the load of the machine."""
    print(f"load {os.getloadavg()[0]:5.2f}  {text}", flush=True)


async def empty_loop(seconds: float) -> None:
    """Measure the timers of a loop that has nothing else to do."""
    async with ticking() as ticks:
        await asyncio.sleep(seconds)
    say(f"an empty loop: {ticks}")


async def logging_run(folder: Path, size: tuple[int, int], seconds: float) -> None:
    """Measure the timers of the app while another process logs."""
    run = recorded(folder, "running", name=f"logging-{size[0]}")
    words = [sys.executable, "-c", WRITER.format(rate=RATE), str(run.events_path)]
    writer = subprocess.Popen(words)
    try:
        async with ContrastApp(folder, run).run_test(size=size) as pilot:
            await until(lambda: live(pilot.app).history.last_step > 610)
            before = live(pilot.app).history.last_step
            async with ticking() as ticks:
                await asyncio.sleep(seconds)
            events = 2 * (live(pilot.app).history.last_step - before) / seconds
    finally:
        writer.terminate()
        writer.wait()
    say(f"a run that logs {events:.0f} events a second at {size[0]}×{size[1]}: {ticks}")


async def million(folder: Path, size: tuple[int, int]) -> None:
    """Measure how long the app takes to read a million steps."""
    run = large(folder)
    begin = time.perf_counter()
    async with ContrastApp(folder, run).run_test(size=size) as pilot, ticking() as ticks:
        await until(lambda: "━━ loss" in screen_text(pilot.app))
        window = time.perf_counter() - begin
        await until(
            lambda: live(pilot.app).earlier is None and len(live(pilot.app).history.series["step"].steps) == MILLION
        )
        whole = time.perf_counter() - begin
    gigabytes = run.events_path.stat().st_size / 1e9
    say(f"a million steps ({gigabytes:.2f} GB): the latest painted after {window:.2f} s, all after {whole:.1f} s")
    say(f"meanwhile: {ticks}")


def large(folder: Path) -> Run:
    """A run of a million steps."""
    run = recorded(folder, "empty", name="million")
    append(run, msgspec.structs.replace(started(Writer("elsewhere", 1, 1.0)), steps=MILLION))
    some = [stepped(step) for step in range(1, 601)]
    with open(run.events_path, "ab") as file:
        for step in range(1, MILLION + 1):
            file.write(encode(msgspec.structs.replace(some[step % 600], step=step)))
    append(run, msgspec.structs.replace(angles(600), step=MILLION))
    return run


async def idle(folder: Path, kind: Kind, seconds: float) -> None:
    """Measure the share of a core that the app takes with a run on the screen."""
    run = recorded(folder, kind)
    async with ContrastApp(folder, run).run_test(size=WIDE):
        await asyncio.sleep(3)
        before = time.process_time()
        await asyncio.sleep(seconds)
        share = (time.process_time() - before) / seconds
    say(f"nothing happens, a {kind} run: {100 * share:.1f} % of a core")


async def until(condition: Callable[[], object]) -> None:
    """Wait for a condition."""
    while not condition():
        await asyncio.sleep(0.02)


def live(app: App[None]) -> Feed:
    """The feed of the screen."""
    assert isinstance(app.screen, LiveScreen) and app.screen.feed
    return app.screen.feed


def first_frame(words: list[str]) -> tuple[float, float]:
    """Seconds from a process' start until it has painted its last row on a terminal of its own, and those of a core."""
    master, slave = pty.openpty()
    environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"}
    begin = time.perf_counter()
    process = subprocess.Popen(words, stdin=slave, stdout=slave, stderr=slave, env=environment)
    os.close(slave)
    seen = b""
    while b"help" not in seen:
        assert select.select([master], [], [], 30)[0], "no frame"
        seen += os.read(master, 1 << 16)
    took, used = time.perf_counter() - begin, psutil.Process(process.pid).cpu_times()
    process.terminate()
    process.wait()
    os.close(master)
    return took, used.user + used.system


def main() -> None:
    """Print every figure."""
    with tempfile.TemporaryDirectory() as name:
        os.environ["CONTRAST_STATE"] = name
        folder = Path(name) / "runs"
        asyncio.run(empty_loop(5))
        for size in (NARROW, WIDE):
            asyncio.run(logging_run(folder, size, 10))
        asyncio.run(empty_loop(5))
        asyncio.run(million(folder, WIDE))
        asyncio.run(idle(folder, "finished", 10))
        asyncio.run(idle(folder, "running", 10))
        say(f"imported by the app's process: {', '.join(set(HEAVY) & set(sys.modules)) or 'nothing heavy'}")
        for words in (["tui"], ["tui", "starter-finished"]):
            command = [sys.executable, "-m", "contrastcli", "--runs-dir", str(folder), *words]
            took = [first_frame(command) for _ in range(5)]
            median, core = (statistics.median(seconds) for seconds in zip(*took, strict=True))
            say(f"contrast {' '.join(words)}: first frame after {median:.2f} s, {core:.2f} s of a core")


if __name__ == "__main__":
    main()
