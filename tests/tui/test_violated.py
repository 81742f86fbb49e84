"""Anchors that are violated again and again, in Live: z on Hardest negatives lists them, with keys of their own."""

import csv
from pathlib import Path

import pytest

from contrastcli.runs.measured import Violated, ViolatedAnchor
from contrastcli.runs.status import this_process
from contrastcli.show.format import as_csv
from contrastcli.tui.app import ContrastApp
from contrastcli.tui.live.lines import NegativesPanel
from contrastcli.tui.processes import Finished
from support.commands import answer_commands
from support.recorded import append, recorded, started
from support.screens import NARROW, SIZES, Page, footer, press, says, show, until

pytestmark = pytest.mark.usefixtures("quick_live")


def violated(number: int, times: int, *angles: tuple[float, float]) -> ViolatedAnchor:
    """An anchor by its number."""
    return ViolatedAnchor(
        anchor=f"a man {number} plays [b]the[/b] guitar",
        positive=f"a person {number} plays",
        negative=f"A man {number} plays, loudly",
        times=times,
        angles=list(angles) or [(40.0, 31.5)],
    )


EVENTS = [
    Violated(step=100, anchors=[violated(1, 3), violated(2, 3)]),
    Violated(step=200, anchors=[violated(2, 5, (50.0, 40.0), (45.0, 44.0), (43.2, 38.1)), violated(3, 4)]),
]


async def listed(page: Page) -> NegativesPanel:
    """Show the list, once the run is shown."""
    await until(page, lambda: says(page, "✔ finished"))
    panel = page.app.screen.query_one(NegativesPanel)
    panel.focus()
    await press(page, "z", shows="Violated again and again · 1 of 3")
    return panel


@SIZES
async def test_z_lists_every_anchor_as_last_told_with_its_angles_and_the_words_that_differ(
    size: tuple[int, int], tmp_path: Path
) -> None:
    run = recorded(tmp_path, "finished")
    append(run, *EVENTS)
    async with show(ContrastApp(tmp_path, run), size) as page:
        panel = await listed(page)
        assert says(page, "▶ 5 times in 2.0 epochs", "-5.1°")
        assert says(page, "a man 2 plays [b]the[/b] guitar", "+ 43.2° a person 2 plays")
        await until(page, lambda: "export" not in footer(page))
        assert says(page, "− 38.1° A man 2 plays, loudly", "4 times in 2.0 epochs -8.5°")
        assert says(page, "↑↓ next x leave out y write all z all panels")
        bold = {s.text.strip() for y in range(4) for s in panel.render_line(y) if s.style and s.style.bold}
        assert {"person", "man", "loudly"} <= {word.strip(",") for text in bold for word in text.split()}
        assert "2" not in bold and "A" not in bold, "the case of a letter is no difference"
        await press(page, "down", "down", "down", shows=("Violated again and again · 3 of 3", "▶ 3 times"))
        assert not says(page, "a man 2")
        await press(page, "up", shows=("· 2 of 3", "▶ 4 times", "a man 3", "a man 1"))
        append(run, Violated(step=300, anchors=[violated(1, 9)], total=1_310))
        await until(page, lambda: says(page, "· 3 of 3, the worst of 1,310", "▶ 4 times"))
        append(run, started(this_process(), resumed_from=200))
        await until(page, lambda: says(page, "· 2 of 2", "▶ 4 times"))
        await press(page, "z", shows="▲ closer than the positive")


async def test_x_leaves_the_pair_out_by_a_command_for_which_the_next_x_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = answer_commands(monkeypatch, Finished(""))
    run = recorded(tmp_path, "finished")
    append(run, *EVENTS)
    app = ContrastApp(tmp_path, run)
    async with show(app, NARROW) as page:
        await listed(page)
        await press(page, "down", "x", shows="▶ 4 times in 2.0 epochs -8.5° left out")
        app.clear_notifications()  # which lie on the keys for 5 seconds
        await until(page, lambda: says(page, "x leave out y write 1 left out z all panels"))
        pair = violated(3, 4).anchor, violated(3, 4).negative
        assert commands.calls == [("runs", "exclude", "--", str(run.path.resolve()), *pair)]
        await press(page, "x", then=lambda: not says(page, "-8.5° left out"))
        assert commands.calls[1:] == [("runs", "exclude", "--undo", "--", str(run.path.resolve()), *pair)]
        commands.held.clear()
        await press(page, "x", "x", then=lambda: commands.calls[2:])
        await page.pause()
        assert ["--undo" in words for words in commands.calls[2:]] == [False]
        commands.held.set()
        await until(page, lambda: ["--undo" in words for words in commands.calls[2:]] == [False, True])
        commands.answer = lambda directory, words: Finished("", "no such run\nhint: look elsewhere")
        await press(page, "down", "x", then=lambda: any("no such run" in told.message for told in app._notifications))
        assert not says(page, "▶ 3 times in 1.0 epochs -8.5° left out")


async def test_y_writes_the_list_and_both_keys_are_those_of_the_screen_elsewhere(cwd: Path) -> None:
    run = recorded(cwd, "finished", "mine")
    append(run, *EVENTS)
    earlier = cwd / "false-negatives-mine.csv"
    earlier.write_text("edited")
    app = ContrastApp(cwd, run)
    async with show(app, NARROW) as page:
        await listed(page)
        await page.press("y")
        path = cwd / "false-negatives-mine-2.csv"
        told = f"{path} has the pairs (3); Setup's field false negatives takes it"
        await until(page, lambda: any(one.message == told for one in app._notifications))
        await press(page, "z", "y", then=lambda: "✔ finished" in app.clipboard)
        await press(page, "x", shows="Write the best model of mine to which new folder?")
    assert earlier.read_text() == "edited"
    first, *others = csv.DictReader(path.read_text("utf-8").splitlines())
    texts = {"anchor": "a man 2 plays [b]the[/b] guitar", "positive": "a person 2 plays"}
    texts["negative"] = "A man 2 plays, loudly"
    assert first == {**texts, "times": "5", "angles": "50.0/40.0 45.0/44.0 43.2/38.1"}
    assert [row["times"] for row in others] == ["4", "3"]


async def test_y_writes_every_pair_that_was_left_out_also_where_it_is_listed_no_longer(
    cwd: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer_commands(monkeypatch, Finished(""))
    run = recorded(cwd, "finished", 220 * "m")
    append(run, *EVENTS)
    run.false_negatives_path.write_text('{"anchor":"a man 1","negative":"one who plays"}\n')
    app = ContrastApp(cwd, run)
    async with show(app, NARROW) as page:
        await listed(page)
        assert says(page, "y write 1 left out")
        await press(page, "x", then=lambda: app._notifications)
        app.clear_notifications()
        await until(page, lambda: says(page, "y write 2 left out"))
        await press(page, "y", then=lambda: any("has the pairs (2)" in one.message for one in app._notifications))
    written = csv.DictReader((cwd / f"false-negatives-{50 * 'm'}.csv").read_text("utf-8").splitlines())
    negatives = [(row["anchor"], row["negative"], row["times"]) for row in written]
    assert negatives == [(violated(2, 5).anchor, violated(2, 5).negative, "5"), ("a man 1", "one who plays", "")]


def test_a_text_of_a_list_keeps_its_spaces() -> None:
    assert as_csv(("anchor", "times"), [(" a man ", 3)]) == "anchor,times\n a man ,3"
