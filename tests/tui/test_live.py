"""The Live screen on recorded runs: what it shows of each, what its keys do, at 80×24 and at 140×45."""

import errno
import gc
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from unittest.mock import Mock

import msgspec
import pytest
from msgspec.structs import asdict
from rich.color_triplet import ColorTriplet
from textual.widget import Widget
from textual.widgets import OptionList

from contrastcli.runs.directory import Run
from contrastcli.runs.events import Done, Note, Progress, Queued, Verdict
from contrastcli.runs.measured import System, Violated, ViolatedAnchor
from contrastcli.runs.status import Digest, this_process
from contrastcli.runs.verdict import Change
from contrastcli.tui.app import ContrastApp
from contrastcli.tui.live import header
from contrastcli.tui.live import screen as live
from contrastcli.tui.live.panels import Panel, ReadingsPanel
from contrastcli.tui.widgets import KeyBar
from support.recorded import Kind, angles, append, evaluated, recorded, started, stepped, training
from support.screens import NARROW, SIZES, WIDE, Page, check_golden, choose, footer, press, says, settled, show, until

TEXTS: dict[Kind, tuple[str, ...]] = {
    "finished": ("✔ finished", "step 600 of 600", "100 %", "u queries it"),
    "running": ("● running", "step 350 of 600", "58 %", "1m 02s left"),
    "starting": ("◌ starting", "loading the model and the data"),
    "empty": ("◌ starting", "loading the model and the data"),
    "stopped": ("■ stopped", "step 350 of 600", "Stopped and saved. r resumes"),
    "resumed": ("✔ finished", "step 600 of 600"),
    "diverged": ("▲ diverged", "not a finite number at step 350", "t takes its settings to Setup, with a lower rate"),
    "failed": ("✖ failed", "MemoryError: no message", "contrast --debug train", "nothing was saved; r starts it again"),
    "killed": ("✖ killed", "was killed; r resumes", "train.log ends with:", "Traceback (most recent call last):"),
    "silent": ("◍ silent", "shows no sign of life: ", "or its disk or host is unreachable"),
}
GOLDEN = {("running", NARROW): "live-narrow", ("running", WIDE): "live-wide", ("killed", NARROW): "live-killed-narrow"}


@pytest.fixture(autouse=True)
def quick(quick_live: None, without_setup: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing is said of a run that is quiet for long."""
    monkeypatch.setattr(header, "QUIET_SECONDS", math.inf)


def opened(run: Run, baseline: Run | None = None) -> ContrastApp:
    app = ContrastApp(run.path.parent, run)
    if baseline:
        app.project.baseline = str(baseline.path)
    return app


def seen(widget: Widget | None) -> bool:
    """Whether a panel can be seen from top to bottom."""
    return widget is not None and widget.screen.query_one("#panels").region.contains_region(widget.region)


def is_drawn(page: Page) -> bool:
    """Whether every chart that can be seen shows something."""
    region = page.app.screen.query_one("#panels").region
    return not any(panel.picture.empty for panel in page.app.screen.query(Panel) if panel.region.overlaps(region))


def charts(page: Page) -> set[str]:
    """The panels that have something to show."""
    return {panel.id or "" for panel in page.app.screen.query(Panel) if not panel.picture.empty}


def test_a_run_is_not_said_to_start_while_its_events_are_being_read(tmp_path: Path) -> None:
    snapshot = header.poll(recorded(tmp_path, "running"), Digest(), None)
    assert snapshot and snapshot.status.state == "running" and snapshot.status.step > 0


async def test_the_header_moves_between_two_logged_steps_and_numbers_tell_what_a_step_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = recorded(tmp_path, "running")
    async with show(opened(run), WIDE) as page:
        await until(page, lambda: says(page, "step 350 of 600", "1m 02s left", "a step takes 250 ms"))
        assert says(page, "backward 56 %", "forward 36 %")
        assert not says(page, "batch 0 %"), "less than a hundredth"
        append(run, Progress(step=350, what="mining", done=9, total=9))
        await until(page, lambda: says(page, "mining 9 of 9"))
        run.alive_path.write_bytes(msgspec.json.encode(asdict(this_process()) | {"step": 357, "seconds_left": 3672.0}))
        await until(page, lambda: says(page, "step 357 of 600", "60 %", "1h 01m left"))
        screen = page.app.screen
        assert isinstance(screen, live.LiveScreen) and screen.here
        monkeypatch.setattr(header, "QUIET_SECONDS", 8.0)
        for step, is_said in ((350, True), (50, False)):  # the second was seen before the events were read
            quiet = replace(screen.here, status=msgspec.structs.replace(screen.here.status, step=step, updated=0.0))
            assert ("logged" in header.progress_text(quiet, screen.view, 140, {})) == is_said
        view = replace(screen.view, share="the last third", smoothing="smoothed over 20 %")
        narrow = header.progress_text(screen.here, view, 78, {"view paused": True})
        assert narrow.endswith("left · view paused · the last third"), "a note that has no room is not cut"


async def test_a_run_that_is_left_before_it_is_read_leaves_nothing_behind(tmp_path: Path) -> None:
    first, second = recorded(tmp_path, "finished"), recorded(tmp_path, "running")
    app = opened(first)
    async with show(app) as page:
        await until(page, lambda: says(page, first.name))
        screen = page.app.screen
        assert isinstance(screen, live.LiveScreen)
        for run in (second, first, second):
            screen.choose(run)
        await until(page, lambda: says(page, second.name))
        gc.collect()  # a coroutine that was never awaited is an error now, not in a later test


@SIZES
async def test_each_state_is_shown_in_words_and_by_a_shape(size: tuple[int, int], tmp_path: Path) -> None:
    runs = {kind: recorded(tmp_path, kind) for kind in TEXTS}
    app = opened(runs["finished"])
    async with show(app, size) as page:
        for kind, run in runs.items():
            await app.open_run(run)
            await until(page, lambda: says(page, *TEXTS[kind], run.name))  # noqa: B023
            assert app.watched.startswith(TEXTS[kind][0]) and app.focused is None
            assert says(page, "ends with:") == (kind in ("killed", "failed"))
            if golden := GOLDEN.get((kind, size)):
                await until(page, lambda: is_drawn(page))
                check_golden(golden, await settled(page))


async def test_without_a_run_it_says_how_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with show(ContrastApp(tmp_path), NARROW) as page:
        await press(page, "2", shows="No run is shown. Press 1 to set up and start a run, or 3 to choose one.")
        await page.press("z", "p", "s", "l", "tab", "y")
        assert says(page, "No run is shown.")
        monkeypatch.setattr("contrastcli.tui.app.list_runs", Mock(side_effect=OSError(5, "input/output error")))
        await press(page, "3", "2", shows="No run is shown.")


@pytest.mark.parametrize("shown", ["starter-running", "starter-stopped"])
async def test_without_a_run_the_newest_that_trains_is_shown_else_the_newest(tmp_path: Path, shown: str) -> None:
    recorded(tmp_path, "finished")
    if shown == "starter-running":
        recorded(tmp_path, "running")
        append(recorded(tmp_path, "empty", "behind"), Queued(step=0, behind=shown))
    recorded(tmp_path, "stopped")
    async with show(ContrastApp(tmp_path), NARROW) as page:
        await press(page, "2", shows=(shown, "/600"))
        await page.press("3", "2")
        assert page.app.screen.here.run.name == shown  # type: ignore[attr-defined]


async def test_the_panel_of_the_machine_has_a_row_for_what_it_tells(tmp_path: Path) -> None:
    run = recorded(tmp_path, "running")
    samples = [
        System(step=step, time=evaluated(step, best=False).time, gpu=step / 4, gpu_power=312.4, cpu=98.6, memory=2.34)
        for step in range(10, 351, 10)
    ]
    append(run, *samples)
    async with show(opened(run)) as page:
        await until(page, lambda: "loss" in charts(page))
        await page.press("c", *["down"] * 8, "space", "escape", *["tab"] * 7)
        await until(page, lambda: says(page, "System", "GPU 88 %", "GPU power 312 W", "memory 2.3 GB"))
        assert says(page, "CPU 99 %") and not says(page, "GPU clock") and not says(page, "disk free")
        await press(page, "left_square_bracket", shows="GPU 85 %")


async def test_empty_panels_say_what_will_be_there_and_of_shorter_embeddings_scores_and_angles_are(
    tmp_path: Path,
) -> None:
    run = recorded(tmp_path, "starting")
    async with show(opened(run), (140, 60)) as page:
        await until(page, lambda: says(page, "the loss and its parts", "the dev score", "rates, memory and device"))
        append(run, started(this_process()), stepped(10))
        append(run, msgspec.structs.replace(angles(10), shorter={64: {"hardest": 52.25}}))
        append(run, msgspec.structs.replace(evaluated(10, best=True), shorter={64: 0.61}))
        await until(page, lambda: says(page, "dev at 64 61", "hardest at 64 52.2 °", "╍╍ @64"))


@SIZES
async def test_every_panel_can_be_reached_by_tab_and_shows_something(size: tuple[int, int], tmp_path: Path) -> None:
    async with show(opened(recorded(tmp_path, "finished")), size) as page:
        await until(page, lambda: "loss" in charts(page))
        met = []
        for _ in range(8):
            await page.press("tab")
            assert page.app.focused
            met.append(page.app.focused.id)
            await until(page, lambda: seen(page.app.focused))
        assert met == ["loss", "angles", "dev", "numbers", "histogram", "plane", "negatives", "log"]
        await until(page, lambda: charts(page) == {"loss", "angles", "histogram", "dev", "plane"})
        assert says(page, "finished step 600")
        await page.press("shift+tab", "shift+tab", "up")
        above = "numbers" if size == NARROW else "dev"
        await until(page, lambda: page.app.focused and page.app.focused.id == above)


async def test_z_lets_a_panel_fill_the_screen_and_that_is_remembered(tmp_path: Path) -> None:
    run = recorded(tmp_path, "finished")
    async with show(opened(run), NARROW) as page:
        await until(page, lambda: "loss" in charts(page))
        await page.press("tab", "tab", "z")
        await until(page, lambda: says(page, "Angles · 3 % violated") and not says(page, "─ Loss"))
        assert page.app.screen.query_one("#angles").size.height > NARROW[1] - 9
    async with show(opened(run), NARROW) as page:
        await until(page, lambda: charts(page) == {"angles"})
        await page.press("tab")
        await until(page, lambda: says(page, "dev Spearman · starter", "◆") and not says(page, "Angles · 3"))
        await press(page, "escape", shows="─ Loss")
        assert page.app.focused is None


async def test_plus_and_minus_choose_how_many_of_the_steps_are_shown(tmp_path: Path) -> None:
    async with show(opened(recorded(tmp_path, "finished"))) as page:

        def shown() -> tuple[float, float] | None:
            return page.app.screen.query_one("#angles", Panel).picture.x_range

        await until(page, lambda: shown() == (0, 600))
        for key, steps, words in (
            ("plus", (400, 600), "the last third"),
            ("plus", (540, 600), "the last tenth"),
            ("plus", (540, 600), "the last tenth"),
            ("minus", (400, 600), "the last third"),
            ("minus", (0, 600), "100 %"),
        ):
            await press(page, key, then=lambda: shown() == pytest.approx(steps) and says(page, words))  # noqa: B023
        # A cursor before what is shown goes no further back, and never forward.
        await page.click("#dev", offset=(20, 5))
        await until(page, lambda: says(page, "values at step 2"))
        place = re.findall(r"values at step \d+", await settled(page))[0]
        await press(page, "plus", "left_square_bracket", shows=(place, "the last third"))


async def test_brackets_and_a_click_read_values_at_an_earlier_place(tmp_path: Path) -> None:
    async with show(opened(recorded(tmp_path, "finished"))) as page:
        await press(page, "w", shows=("% of pairs, step 600", "accuracy 97 %", "loss 0.9629 (-2.68)"))
        panel = page.app.screen.query_one("#numbers", ReadingsPanel)
        row = next(line for line in map(panel.render_line, range(panel.size.height)) if "/s" in line.text)
        shades = [one.style.color.get_truecolor().green for one in row if one.style and one.style.color]
        assert shades[0] == shades[2] < shades[1], "names and units are dimmer than the numbers"
        await page.press(*["left_square_bracket"] * 3)
        await until(page, lambda: says(page, "values at step 550", "% of pairs, step 550", "epoch 5.50"))
        assert says(page, f"loss {stepped(550).loss:.4g} (", f"positive {angles(550).positive:.4g} (")
        await press(page, "right_square_bracket", shows=("values at step 570", "% of pairs, step 570"))
        await press(page, "escape", then=lambda: says(page, "% of pairs, step 600") and not says(page, "values at"))
        await page.click("#dev", offset=(20, 5))
        await until(page, lambda: says(page, "values at step 2"))


async def test_the_gap_between_positives_and_hardest_negatives_is_shown_with_the_margin(tmp_path: Path) -> None:
    run = recorded(tmp_path, "starting")
    append(run, started(this_process()))
    for step in range(10, 210, 10):
        hardest, satisfied = (30.0, 0.25) if step <= 100 else (60.0, 0.75)
        changed = {"positive": 35.0, "hardest": hardest, "with_margin": 45.0, "satisfied": satisfied}
        append(run, msgspec.structs.replace(angles(step), effective=9.2, **changed))
    async with show(opened(run)) as page:
        words = ("Angles · 25 % violated", "positive + m 45.00", "126 negatives given, 9 that pull")
        await until(page, lambda: says(page, *words))
        panel = page.app.screen.query_one("#angles", Panel)
        red, green = (ground(panel, x) for x in (12, panel.size.width - 4))
        assert red.red > red.green and green.green > green.red
        await page.click("#angles", offset=(12, 5))
        await until(page, lambda: says(page, "Angles · 75 % violated"))


def ground(panel: Panel, x: int) -> ColorTriplet:
    """The one colour behind the characters of a column, besides that of the panel."""
    styles = [next(iter(panel.render_line(y).crop(x, x + 1))).style for y in range(panel.size.height)]
    found = {style.bgcolor for style in styles if style and style.bgcolor} - {panel.rich_style.bgcolor}
    (colour,) = (one.get_truecolor() for one in found if one)
    return colour


async def test_the_waterfall_shows_pairs_by_angle_over_all_steps_and_w_those_of_one_batch(tmp_path: Path) -> None:
    run = recorded(tmp_path, "finished")
    async with show(opened(run), NARROW) as page:
        panel = page.app.screen.query_one("#histogram", Panel)
        await page.press(*["tab"] * 5)
        await until(page, lambda: panel.picture.heat is not None and says(page, "Pairs by angle", "both", "600 step"))
        assert panel.picture.heat and panel.picture.x_range == (0, 600)
        first, *_, last = panel.picture.heat.counts
        middles = [[mean(kind) for kind in both] for both in (first, last)]
        assert middles[0][0] > middles[1][0] and middles[0][1] < middles[1][1], "positives fall and negatives rise"
        await page.press("w")
        await until(page, lambda: says(page, "% of pairs, step 600", "w all steps") and panel.picture.heat is None)
    async with show(opened(run), NARROW) as page:
        await press(page, *["tab"] * 5, shows="% of pairs, step 600")


def mean(counts: Sequence[int]) -> float:
    """The mean bin of a histogram."""
    return sum(n * count for n, count in enumerate(counts)) / sum(counts)


async def test_curves_are_drawn_over_other_axes_smoothed_or_logarithmic_and_that_is_remembered(tmp_path: Path) -> None:
    run = recorded(tmp_path, "finished")
    async with show(opened(run)) as page:
        chart = page.app.screen.query_one("#loss", Panel)
        await until(page, lambda: chart.picture.x_range == (0, 600))
        raw = chart.picture.series[0].y
        for label, last in (("minutes", 150 / 60), ("sentences", 600 * 128), ("epoch", 6), ("step", 600)):
            await press(page, "h", then=lambda: chart.picture.x_label == label)  # noqa: B023
            assert chart.picture.x_range and chart.picture.x_range[1] == pytest.approx(last)
        await press(page, "a", shows="smoothed over 5 %")
        smooth = chart.picture.series[0].y
        assert sum(abs(b - a) for a, b in pairwise(smooth)) < sum(abs(b - a) for a, b in pairwise(raw))
        await press(page, "h", "l", shows="Loss, logarithmic")
    async with show(opened(run)) as page:
        chart = page.app.screen.query_one("#loss", Panel)
        await until(page, lambda: says(page, "Loss, logarithmic", "smoothed over 5 %") and chart.picture.log)
        assert chart.picture.x_label == "minutes"
        await press(page, "l", then=lambda: not says(page, "Loss, logarithmic"))


async def test_the_curves_of_another_run_are_compared_at_the_step_of_each_value(tmp_path: Path) -> None:
    run, other = recorded(tmp_path, "finished"), recorded(tmp_path, "finished", "twin")
    async with show(opened(run)) as page:
        chart = page.app.screen.query_one("#angles", Panel)
        await until(page, lambda: len(chart.picture.series) == 3)
        await press(page, "b", shows=("Compare curves with", "none", "twin"))
        assert not says(page, str(tmp_path)), "runs of this directory go by their names"
        await page.press(*"twin", "enter")
        await until(page, lambda: says(page, f"Δ to {other.name}", "(Δ+0)") and len(chart.picture.series) == 6)
    async with show(opened(run)) as page:
        chart = page.app.screen.query_one("#angles", Panel)
        # Not while events are read: the keys go by shares of what is there.
        await until(page, lambda: says(page, f"Δ to {other.name}", "(Δ+0)") and chart.picture.x_range == (0, 600))
        for step in (580, 550, 520, 490):  # the dev set was last measured at step 500, and at 400
            await press(page, *["left_square_bracket"] * (1 if step == 580 else 2), shows=f"values at step {step}")
            assert set(re.findall(r"\(Δ(.*?)\)", await settled(page))) == {"+0"}


async def test_neither_a_run_itself_nor_a_directory_that_cannot_be_read_has_a_baseline(
    cwd: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = recorded(Path("runs"), "finished")
    app = ContrastApp(Path("runs"), Run(run.path.resolve()))
    async with show(app) as page:
        await until(page, lambda: says(page, "✔ finished"))
        await press(page, "b", shows="Compare curves with")
        assert page.app.screen.query_one(OptionList).option_count == 1  # none
        await page.press("escape")
        monkeypatch.setattr(Path, "iterdir", Mock(side_effect=OSError(errno.EIO, "Input/output error")))
        await press(page, "b", then=lambda: any("Input/output error" in told.message for told in app._notifications))


async def test_what_a_baseline_has_not_is_said_and_not_compared(tmp_path: Path) -> None:
    run = recorded(tmp_path, "finished")
    recorded(tmp_path, "empty", "waits")
    recorded(tmp_path, "stopped", "short")
    on_stsb = msgspec.structs.replace(evaluated(350, best=False), data="hub/stsb")
    append(recorded(tmp_path, "running", "other"), on_stsb)
    async with show(opened(run), (200, 60)) as page:
        await until(page, lambda: says(page, "✔ finished") and is_drawn(page))
        await choose(page, "b", "waits")
        await until(page, lambda: says(page, "Δ to step 0, the last of waits", "(Δ–)") and not says(page, "(Δ+0)"))
        await choose(page, "b", "other")
        await until(page, lambda: says(page, "the baseline has Spearman · stsb", "the last of other"))
        assert len(page.app.screen.query_one("#dev", Panel).picture.series) == 1
        await choose(page, "b", "short")
        await until(page, lambda: says(page, "Δ to step 350, the last of short"))
        await page.click("#dev", offset=(20, 5))
        await until(page, lambda: says(page, "Δ to short") and not says(page, "the last of"))


async def test_panels_are_chosen_and_ordered_and_that_is_remembered(tmp_path: Path) -> None:
    run = recorded(tmp_path, "finished")
    chosen = ["dev", "angles", "numbers", "histogram", "plane", "negatives", "log"]

    def shown(page: Page) -> list[str]:
        panels = page.app.screen.query("#panels > *")
        return [panel.id or "" for panel in panels if panel.display]

    async with show(app := opened(run)) as page:
        await until(page, lambda: "loss" in charts(page))
        await press(page, "c", "escape", "left_square_bracket", shows="values at step")
        assert not app.remembered.panels, "they were looked at, and not chosen"
        await press(page, "c", shows=("Panels", "● loss"))
        await press(page, "space", "down", "d", "escape", then=lambda: shown(page) == chosen)
    async with show(opened(run)) as page:
        await until(page, lambda: shown(page) == chosen)


async def test_lines_of_the_log_are_whole_and_copied_and_pairs_of_texts_are_read_at_any_step(tmp_path: Path) -> None:
    app = opened(run := recorded(tmp_path, "finished"))
    words = "[red]not a colour[/] " + " ".join(f"word{n}" for n in range(30))
    append(run, Note(step=600, text=words))
    hard, worst = angles(600).closest[0], evaluated(600, best=False).worst[0]
    async with show(app, NARROW) as page:
        await press(page, "shift+tab", shows=words)
        await press(page, "y", then=lambda: "✔ finished 600/600" in app.clipboard)
        for text in ("objective      pairsupcon\n", "gradient norm  3.468\n", "Spearman · starter 72.85 (best)", words):
            assert text in app.clipboard
        app.clear_notifications()  # which lie on the panel
        await page.press("escape", "c", *["down"] * 9, "space", "escape")
        await press(page, *["tab"] * 7, "z", shows=("Hardest negatives, step 600", f"{hard.negative_deg:.1f}°▲"))
        assert says(page, "▲ closer than the positive", hard.anchor, hard.negative, hard.positive)
        await press(page, "tab", shows=("Worst dev pairs, step 600", worst.second))
        assert says(page, "too close score 0 (rank 480), cosine 0.96 (rank 20)")
        await press(page, "left_square_bracket", shows=("Worst dev pairs, step 500", "cosine 0.95 (rank 20)"))
        await press(page, "shift+tab", shows="Hardest negatives, step 580")


async def test_a_run_is_followed_to_its_end(tmp_path: Path) -> None:
    run = recorded(tmp_path, "empty")
    async with show(opened(run), NARROW) as page:
        await until(page, lambda: says(page, "◌ starting"))
        me = this_process()
        run.alive_path.write_bytes(msgspec.json.encode(me))
        append(run, started(me), Progress(step=0, what="tokenising", done=1024, total=4096))
        await until(page, lambda: says(page, "● running", "tokenising 1,024 of 4,096"))
        append(run, *training(1, 250))
        await until(page, lambda: says(page, "step 250 of 600", "◆ dev Spearman 71.36 at step 200"))
        append(run, *training(251, 600), Done(step=600, status="finished", code=0))
        run.alive_path.unlink()
        best = "◆ dev Spearman 72.85 at step 300"
        await until(page, lambda: says(page, "✔ finished", "step 600 of 600", best))


@SIZES
async def test_the_end_says_whether_it_is_better_and_what_it_forgot(size: tuple[int, int], tmp_path: Path) -> None:
    run = recorded(tmp_path, "starting")
    own = Change(metric="ndcg@10", before=0.631, after=0.684, low=0.04, high=0.07)
    general = Change(before=0.82, after=0.7, low=-0.15, high=-0.09)
    append(run, started(this_process()), stepped(10))
    append(run, msgspec.structs.replace(evaluated(10, best=True), general=general))
    append(run, Verdict(step=10, base="minilm", best_step=10, change=own, general=general))
    async with show(opened(run), size) as page:
        verdict = "◆ better than minilm: nDCG@10 63.10 → 68.40"
        await until(page, lambda: says(page, verdict) and says(page, "general 70"))
        assert size[0] < 100 or says(page, f"{verdict}; worse in general")


async def test_a_paused_view_changes_by_keys_alone_until_it_continues_or_the_run_ends(tmp_path: Path) -> None:
    run, other = recorded(tmp_path, "running"), recorded(tmp_path, "running", "other")
    async with show(opened(run, other), NARROW) as page:
        chart = page.app.screen.query_one("#loss", Panel)
        await until(page, lambda: chart.picture.x_range == (0, 350) and says(page, "Δ to other"))
        await page.pause(0.2)
        await page.press("p")
        append(run, *training(351, 400))
        await until(page, lambda: says(page, "view paused", "step 400 of 600"))
        append(other, *training(351, 400))
        await page.pause(0.5)
        assert chart.picture.x_range == (0, 350)
        await press(page, "p", then=lambda: chart.picture.x_range == (0, 400))
        await press(page, "p", "left_square_bracket", shows="values at step 390 · view paused")
        await press(page, "escape", "plus", then=lambda: chart.picture.x_range != (0, 400))
        append(run, *training(401, 450), Done(step=450, status="finished", code=0))
        await until(page, lambda: not says(page, "view paused"))
        await until(page, lambda: 450 in (chart.picture.x_range or ()))


async def test_a_paused_view_draws_what_is_looked_at_otherwise(tmp_path: Path) -> None:
    run, other = recorded(tmp_path, "running"), recorded(tmp_path, "finished", "other")
    anchor = ViolatedAnchor(anchor="a dog", positive="a puppy", negative="dogs", times=3, angles=[(40.0, 31.5)])
    append(run, Violated(step=350, anchors=[anchor]))
    async with show(opened(run), NARROW) as page:
        await until(page, lambda: "loss" in charts(page))
        await press(page, "p", *["tab"] * 6, then=lambda: "plane" in charts(page) and says(page, "view paused"))
        await press(page, "tab", "z", shows=("Violated again and again · 1 of 1", "view paused"))
        await page.press("escape", "tab", "b", *other.name, "enter")
        await until(page, lambda: len(page.app.screen.query_one("#loss", Panel).picture.series) == 6)
        assert says(page, "view paused")


async def test_a_view_that_is_paused_as_a_run_opens_shows_nothing_of_the_run_before(tmp_path: Path) -> None:
    async with show(opened(recorded(tmp_path, "finished"))) as page:
        await until(page, lambda: is_drawn(page) and says(page, "Hardest negatives, step 600"))
        screen = page.app.screen
        assert isinstance(screen, live.LiveScreen)
        screen.choose(recorded(tmp_path, "starting"))
        screen._paused = True
        await until(page, lambda: says(page, "◌ starting", "view paused"))
        await until(page, lambda: not charts(page) and not says(page, "step 600"), seconds=5)


async def test_the_footer_holds_at_most_eight_keys_help_names_them_all_and_the_palette_each_once(
    tmp_path: Path,
) -> None:
    app = opened(recorded(tmp_path, "running"))
    async with show(app, (140, 70)) as page:
        for key, run in (("s stop", app.run_shown), ("r resume", recorded(tmp_path, "killed"))):
            assert run
            await app.open_run(run)
            await until(page, lambda: key in footer(page) and "e evaluate" in footer(page))  # noqa: B023
            assert len(app.screen.query_one(KeyBar).keys) <= 8
            titles = [command.title for command in app.get_system_commands(app.screen)]
            assert {key[2:].capitalize(), "Evaluate", "Evaluate screen", "Theme"} <= set(titles)
            assert len(titles) == len(set(titles))
        await page.press("tab", "question_mark")
        actions = "logarithmic", "the last third", "an earlier place", "to the next panel", "from the last checkpoint"
        await until(page, lambda: says(page, *actions))
        assert len(app.screen_stack[-2].query_one(KeyBar).keys) <= 8
        await page.resize_terminal(*NARROW)
        await until(page, lambda: not says(page, "Training is a process of its own"))
        await press(page, "end", shows="Training is a process of its own")
