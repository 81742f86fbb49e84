"""What a terminal, a pipe and a program see of a run."""

import io
import math
import re
import sys
from collections.abc import Iterable
from itertools import pairwise

import msgspec
import pytest

from contrastcli.runs.event import Event
from contrastcli.runs.events import Done, Note, Progress, Saved
from contrastcli.runs.measured import Angles, Evaluated, HardNegative, Step
from contrastcli.runs.text import duration, fixed
from contrastcli.show.console import Bars, Console, IgnoreClosedStream, Lines, console, notification
from support.signs import started

STARTED = started(steps=5698, steps_per_epoch=5698, objective="pairsupcon", precision="bf16")
STEP = Step(
    step=120,
    loss=1.234,
    parts={"contrast": 1.1, "classification": 0.134},
    lr=3e-5,
    epoch=0.02,
    sentences_per_s=1520.4,
    seconds_left=130.0,
)
ANGLES = Angles(step=120, positive=31.2, negative=71.0, hardest=52.34, satisfied=0.81)
EVALUATED = Evaluated(step=125, score=0.71394, alignment=0.21, uniformity=-2.31, pairs=1500, best=True)
RUN: list[Event] = [
    STARTED,
    Progress(step=0, what="tokenising", done=12000, total=50000),
    Evaluated(step=0, score=0.5, alignment=0.3, uniformity=None, pairs=1500),
    STEP,
    ANGLES,
    EVALUATED,
    Saved(step=125, checkpoint="000125", best=True),
    Saved(step=130, checkpoint="000130"),
    Note(step=131, text="out of memory: the token budget is now 8,192"),
    Done(step=131, status="stopped", code=0, message="saved as 000131"),
]


class Tty(io.StringIO):
    """A terminal of 80 columns that keeps what was drawn."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Tty:
    monkeypatch.setenv("TERM", "xterm")
    return Tty()


def show(events: Iterable[Event], shown: Console) -> None:
    for event in events:
        shown(event)


def last_bar(terminal: io.StringIO) -> str:
    """What the last line of the terminal reads in the end."""
    text = re.sub(r"\x1b\[\??[0-9;]*[A-Za-z]", "", terminal.getvalue())
    return text.rstrip("\n").rpartition("\n")[2].rpartition("\r")[2]


def narrated(events: Iterable[Event], encoding: str = "utf-8") -> list[str]:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    show(events, Lines(stream))
    stream.seek(0)
    return stream.read().splitlines()


def test_plain_lines_of_a_run() -> None:
    assert narrated(RUN) == [
        "started   pairsupcon on starter · cpu bf16 · 5,698 steps · batch 64 · 126 negatives per anchor",
        "progress  tokenising  12,000/50,000",
        "dev       step 0  Spearman 50.00  alignment 0.30  uniformity –",
        "step        120/5,698  loss 1.234 (contrast 1.100, classification 0.134)  lr 3.0e-05"
        "  1,520 sentences/s  2m 10s left",
        "angles    step 120  positive 31.2°  negative 71.0°  hardest 52.3°  batch accuracy 81 %",
        "dev       step 125  Spearman 71.39 (best)  alignment 0.21  uniformity -2.31",
        "saved     step 125  checkpoint 000125 (best)",
        "note      out of memory: the token budget is now 8,192",
        "stopped   step 131  saved as 000131",
    ]


def test_numbers_that_are_missing_read_as_a_dash() -> None:
    assert narrated([Step(step=1, loss=None, lr=1e-5, epoch=0.0)]) == ["step      1/0  loss –  lr 1.0e-05"]
    empty = Angles(step=1, positive=None, negative=None, hardest=None, satisfied=None)
    assert narrated([empty]) == ["angles    step 1  positive –°  negative –°  hardest –°  batch accuracy –"]


def test_a_resumed_run_names_the_step_it_resumes_from() -> None:
    (line,) = narrated([msgspec.structs.replace(STARTED, step=120, resumed_from=120)])
    assert line.startswith("resumed   pairsupcon") and line.endswith(" · from step 120")


def test_a_failure_is_left_to_the_two_lines_of_the_command_line() -> None:
    assert narrated([Done(step=3, status="diverged", code=4, message="loss is NaN", hint="lower train.lr")]) == []


def test_text_from_data_cannot_move_the_cursor() -> None:
    assert narrated([Note(step=1, text="a\x1b[2Jb\nc")]) == [r"note      a\u001b[2Jb c"]


def test_steps_are_shown_once_in_a_while_and_the_last_one_always() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    shown = Lines(stream)
    show([msgspec.structs.replace(STARTED, steps=60)], shown)
    for step in range(10, 70, 10):  # one a second, and all read at once
        show([msgspec.structs.replace(event, step=step, time=1e9 + step / 10) for event in (STEP, ANGLES)], shown)
    stream.seek(0)
    words = [line.split()[:3] for line in stream.read().splitlines()[1:]]
    assert [w[1] for w in words if w[0] == "step"] == ["10/60", "40/60", "60/60"]
    assert [w[2] for w in words if w[0] == "angles"] == ["10", "40", "60"]


def test_progress_of_long_work_is_shown_at_once_then_less_and_less_often() -> None:
    work = [Progress(step=0, what="encoding", done=done, total=600, time=1e9 + 2 * done) for done in range(0, 601)]
    shown = [int(line.split()[2].split("/")[0]) for line in narrated(work)]
    assert shown[:4] == [0, 2, 4, 6] and shown[-1] == 600
    gaps = [later - earlier for earlier, later in pairwise(shown[:-1])]
    assert gaps == sorted(gaps) and 50 <= max(gaps) <= 60 and len(shown) < 60
    again = [Progress(step=9, what="encoding", done=done, total=5, time=1e9 + 1500 + done) for done in (0, 5)]
    assert narrated([*work, *again])[len(shown) :] == ["progress  encoding  5/5"]


def test_a_stream_of_ascii_gets_ascii() -> None:
    assert narrated([STARTED, ANGLES, Note(step=1, text="τ ≤ 0 – 日")], encoding="ascii") == [
        "started   pairsupcon on starter - cpu bf16 - 5,698 steps - batch 64 - 126 negatives per anchor",
        "angles    step 120  positive 31.2 deg  negative 71.0 deg  hardest 52.3 deg  batch accuracy 81 %",
        "note      tau <= 0 - \\u65e5",
    ]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.4, "0s"), (59.4, "59s"), (59.6, "1m 00s"), (130, "2m 10s"), (3599.7, "1h 00m"), (93784, "26h 03m")],
)
def test_durations_read_naturally(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_a_large_number_has_four_digits() -> None:
    numbers = 84_613_560.0, 999_999.5, -1.23456, math.nan
    assert [fixed(number, 4) for number in numbers] == ["8.461e+07", "999999.5000", "-1.2346", "–"]


def test_a_terminal_gets_a_bar_with_loss_score_rate_and_time_left(
    terminal: Tty, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    show(RUN, Bars(terminal))
    bar, drawn = last_bar(terminal), terminal.getvalue()
    assert bar.startswith("train ") and "125/5698" in bar
    assert bar.rstrip().endswith("loss 1.234  dev 71.39  2m 10s left  1,520 sentences/s")
    assert "dev       step 125  Spearman 71.39 (best)" in drawn
    assert drawn.count("\x1b[?25l") == drawn.count("\x1b[?25h") == 1, "the cursor is hidden once and given back"


def test_a_terminal_gets_the_angles_before_an_evaluation_once(terminal: Tty) -> None:
    closest = [HardNegative(anchor="the anchor", negative="n", positive="p", negative_deg=50.0, positive_deg=60.0)]
    show([STARTED, msgspec.structs.replace(ANGLES, closest=closest), EVALUATED, EVALUATED], Bars(terminal))
    assert terminal.getvalue().count("the anchor") == 1


@pytest.mark.parametrize(
    ("environment", "code"),
    [
        ({"TERM": "xterm-256color"}, "\x1b]9;run a, step 3: b\a"),
        ({"TERM": "foot"}, "\x1b]777;notify;contrast;run a, step 3: b\a"),
        ({"TERM": "xterm-256color", "VTE_VERSION": "7000"}, "\x1b]777;notify;contrast;run a, step 3: b\a"),
        ({"TERM": "tmux-256color", "TMUX": "x"}, "\x1bPtmux;\x1b\x1b]9;run a, step 3: b\a\x1b\\"),
        ({"TERM": "linux"}, ""),
    ],
)
def test_a_terminal_is_asked_to_notify_the_desktop_in_its_own_way(
    environment: dict[str, str], code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TERM", "TMUX", "VTE_VERSION"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert notification("run a; step 3: b") == code


def test_a_narrow_terminal_keeps_the_step_and_the_loss(terminal: Tty, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    show(RUN, Bars(terminal))
    bar = last_bar(terminal)
    assert "125/5698" in bar and "loss 1.234" in bar and "…" in bar and len(bar) <= 50


@pytest.mark.parametrize(
    "after",
    [Progress(step=0, what="tokenising", done=2, total=2), msgspec.structs.replace(STEP, step=1)],
    ids=["done", "training goes on"],
)
def test_work_that_is_over_leaves_the_terminal(terminal: Tty, after: Event) -> None:
    shown = Bars(terminal)
    show([Progress(step=0, what="tokenising", done=1, total=2), after], shown)
    before = len(terminal.getvalue())
    shown.close()
    assert "tokenising" in terminal.getvalue()[:before]
    assert "tokenising" not in terminal.getvalue()[before:]


def test_bars_continue_where_an_ended_run_is_resumed(terminal: Tty) -> None:
    resumed = msgspec.structs.replace(STARTED, step=131, resumed_from=131)
    end = Done(step=140, status="stopped", code=0)
    show([*RUN, resumed, msgspec.structs.replace(STEP, step=140), end], Bars(terminal))
    assert "140/5698" in last_bar(terminal)


@pytest.mark.parametrize(
    ("stream", "environment", "kind"),
    [(Tty, {}, Bars), (Tty, {"NO_COLOR": "1"}, Lines), (Tty, {"TERM": "dumb"}, Lines), (io.StringIO, {}, Lines)],
)
def test_only_a_terminal_with_colour_gets_bars(
    monkeypatch: pytest.MonkeyPatch, stream: type[io.StringIO], environment: dict[str, str], kind: type
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stderr", stream())
    assert isinstance(console(), kind)


@pytest.mark.parametrize("kind", [Bars, Lines])
def test_training_outlives_its_terminal(terminal: Tty, kind: type[Bars | Lines]) -> None:
    shown = IgnoreClosedStream(kind(terminal))
    show(RUN[:4], shown)
    terminal.close()
    show(RUN[4:], shown)
    shown.close()
    with pytest.raises(ValueError, match="closed file"):
        show(RUN[4:], kind(terminal))
