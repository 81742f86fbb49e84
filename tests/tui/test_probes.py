"""Probes in the app: a panel in Live by itself, and P in Query adds what is typed there to what Setup trains next."""

import threading
from pathlib import Path

import pytest
from textual.widgets import Input

from contrastcli.runs.measured import Probed
from contrastcli.runs.status import this_process
from contrastcli.tui.app import ContrastApp
from contrastcli.tui.processes import Finished
from contrastcli.tui.setup.draft import Draft
from contrastcli.tui.widgets import PlainText
from support.commands import answer_commands
from support.recorded import append, evaluated, recorded, started
from support.screens import SIZES, Page, press, says, show, until

PAIR, OTHER = "a dog runs | a puppy sprints", "a [b]man[/b] plays | a woman sings"


@pytest.mark.usefixtures("quick_live")
@SIZES
async def test_the_panel_appears_by_itself_and_tells_what_was_and_is(size: tuple[int, int], tmp_path: Path) -> None:
    run = recorded(tmp_path, "starting")
    append(run, started(this_process()), Probed(step=0, angles={PAIR: 48.0, OTHER: 30.0}))
    async with show(ContrastApp(tmp_path, run), size) as page:
        await until(page, lambda: page.app.screen.query_one("#probes").display)
        append(run, Probed(step=100, angles={PAIR: 31.44, OTHER: 61.52}), evaluated(100, best=True))
        await press(page, *["tab"] * 7, "z", shows=f"{PAIR} 48.0° → 31.4°")
        assert says(page, " | a woman sings 30.0° → 61.5°")
        await press(page, "left_square_bracket", shows=f"{PAIR} 48.0° → 48.0°")


def command(page: Page) -> str:
    """The command line that Setup shows, which it wraps; empty on another screen."""
    return "".join(str(one.content) for one in page.app.screen.query("#command").results(PlainText))


async def test_p_in_query_adds_a_pair_to_what_setup_trains_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer_commands(monkeypatch, Finished("", "no dry run here"))
    app = ContrastApp(tmp_path)
    three = "; ".join(f"text {number} | b" for number in range(1, 4))
    app.project.draft = "starter", {"dev.probes": three}
    async with show(app) as page:
        await until(page, lambda: "text 3 | b'" in command(page))

        async def probe(a: str, b: str, said: str) -> None:
            for name, text in (("first", a), ("second", b)):
                app.screen.query_one(f"#{name}", Input).value = text
            await page.pause()
            await page.press("P")
            # On the screen a long text is wrapped.
            await until(page, lambda: any(said in told.message for told in app._notifications))

        await page.press("5")
        await probe("hi", "a; b | c", "these are no probe: a ; begins the next pair")
        await probe("a dog", "a cat", "probe 4 of the next training, which 1 sets up: a dog | a cat")
        await probe("text 2", "b", "probe 4 of the next training, which 1 sets up: text 2 | b")
        await probe("one more", "b", "probe 5 of the next training, which 1 sets up: one more | b")
        await probe("last", "b", "no longer: text 1 | b")
        await probe("a; b", "c", "these are no probe: must be at most 5 pairs")
        await page.press("1")
        words = "--probes 'text 3 | b; a dog | a cat; text 2 | b; one more | b; last | b'"
        await until(page, lambda: words in command(page))


@pytest.mark.usefixtures("without_setup")
async def test_a_pair_is_added_though_another_is_typed_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    typed = threading.Event()

    def read(preset: str, words: dict[str, str]) -> Draft:
        typed.wait(10)
        return Draft(preset, words)

    monkeypatch.setattr("contrastcli.tui.query.screen.Draft", read)
    app = ContrastApp(tmp_path)
    async with show(app) as page:
        await press(page, "5", "P", "s", "x", then=lambda: app.screen.query_one("#first", Input).value.endswith("x"))
        await page.pause()
        typed.set()
        await until(page, lambda: app.project.draft[1].get("dev.probes") == PAIR)
