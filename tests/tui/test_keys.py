"""Keys that are typed ahead, and keys that arrive together: what they do, and what they do not."""

import asyncio
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from textual._xterm_parser import XTermParser
from textual.css.stylesheet import Stylesheet
from textual.dom import DOMNode
from textual.events import Key
from textual.pilot import Pilot
from textual.widgets import Input

from contrastcli.tui.app import ContrastApp, has_ended
from contrastcli.tui.fields import model_field
from contrastcli.tui.live import screen as live
from contrastcli.tui.runs import listing
from contrastcli.tui.runs import screen as runs_screen
from contrastcli.tui.setup import form
from contrastcli.tui.setup import screen as setup
from support.commands import Commands
from support.recorded import recorded
from support.screens import press, screen_text, setting_up, show, until


async def test_what_is_typed_behind_q_answers_what_it_asks(
    tmp_path: Path, commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(has_ended)
    monkeypatch.setattr("contrastcli.tui.app.has_ended", held)
    async with show(ContrastApp(tmp_path, recorded(tmp_path, "running"))) as pilot:
        await press(pilot, "1", shows="no dry run")
        type_ahead(pilot, "qs")
        await held.let_go()
        await until(pilot, lambda: any("stop" in words for words in commands.calls))
    assert not any("--detach" in words for words in commands.calls), "s did not start a training"


async def test_an_arrow_in_setup_restyles_two_fields_and_lays_nothing_out(
    commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rule with :focus-within for widgets of that name would restyle all that the form holds, at each key."""
    styled: list[DOMNode] = []
    update = Stylesheet.update_nodes

    def record(sheet: Stylesheet, nodes: Iterable[DOMNode], animate: bool = False) -> None:
        styled.extend(nodes := [*nodes])
        update(sheet, nodes, animate)

    async with setting_up() as (pilot, screen):
        await pilot.press("down", "down")
        await pilot.pause()
        screen.screen_layout_refresh_signal.subscribe(screen, styled.append)
        monkeypatch.setattr(Stylesheet, "update_nodes", record)
        before = screen.focused
        await pilot.press("down")
        await pilot.pause()
        assert styled == [before, screen.focused]


def type_ahead(pilot: Pilot[None], text: str) -> None:
    """Let the terminal send all of this at once."""
    names = {"/": "slash", " ": "space", "↓": "down"}
    for character in text:
        pilot.app.post_message(Key(names.get(character, character), None if character == "↓" else character))


class Held:
    """A function that waits in its thread until it is let go, as on a slow disk."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function, self._go, self._called = function, threading.Event(), threading.Event()

    def __call__(self, *args: Any) -> Any:
        self._called.set()
        self._go.wait(60)
        return self._function(*args)

    async def let_go(self) -> None:
        """Let it end once it was called and keys had the time to pass it."""
        assert await asyncio.to_thread(self._called.wait, 60), "nothing called it"
        await asyncio.sleep(0.1)
        self._go.set()


@pytest.mark.parametrize(
    ("slow", "typed", "text"),
    [
        ((setup, "next_draft"), "1broberta", "roberta"),
        ((form, "list_models"), "1broberta", "roberta"),
        ((live, "poll"), "2n next", "next"),
        ((runs_screen, "read_entries"), "3/stopped q", "stopped q"),
        ((model_field, "default_model"), "4mroberta", "roberta"),
        ((model_field, "default_model"), "5sthe dog", "the dog"),
    ],
    ids=["setup", "list of setup", "live", "runs", "evaluate", "query"],
)
async def test_what_is_typed_while_a_screen_opens_goes_to_the_field_that_it_opens(
    tmp_path: Path,
    commands: Commands,
    monkeypatch: pytest.MonkeyPatch,
    slow: tuple[Any, str],
    typed: str,
    text: str,
) -> None:
    run = recorded(tmp_path, "stopped")
    held = Held(getattr(*slow))
    monkeypatch.setattr(*slow, lambda *args: held(*args))
    async with show(ContrastApp(tmp_path, run if slow[0] is live else None)) as pilot:
        type_ahead(pilot, typed)
        await held.let_go()
        await until(pilot, lambda: any(field.value.endswith(text) for field in pilot.app.screen.query(Input)))
        assert pilot.app.is_running and run.exists()
    assert not any({"--detach", "note", "--resume"} & {*words} for words in commands.calls)


async def test_keys_typed_while_runs_opens_act_on_the_run_that_they_are_at(
    tmp_path: Path, commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind in ("stopped", "finished"):
        recorded(tmp_path, kind)
    held = Held(listing.read_entries)
    monkeypatch.setattr(runs_screen, "read_entries", lambda *args: held(*args))
    async with show(ContrastApp(tmp_path)) as pilot:
        type_ahead(pilot, "3↓ ↓")
        await held.let_go()
        await until(pilot, lambda: any("A  starter-finished" in line for line in screen_text(pilot.app).splitlines()))
        assert not any("A  starter-stopped" in line for line in screen_text(pilot.app).splitlines())


@pytest.mark.usefixtures("commands")
async def test_esc_and_a_key_in_one_packet_leave_the_field_and_are_a_command(tmp_path: Path) -> None:
    async with show(ContrastApp(tmp_path)) as pilot:
        for packet, shown in (("\x1by", "copied"), ("\x1b3", "There is no run"), ("\x1b?", "esc        back")):
            await press(pilot, "5", "s", then=lambda: isinstance(pilot.app.focused, Input))
            text = pilot.app.focused.value if isinstance(pilot.app.focused, Input) else ""
            parser = XTermParser()
            events = [*parser.feed(packet)]
            while not events:  # until Esc alone would have been one
                await asyncio.sleep(0.05)
                events += parser.tick()
            for event in events:
                pilot.app.post_message(event)
            await until(pilot, lambda: not isinstance(pilot.app.focused, Input))
            await until(pilot, lambda: shown in screen_text(pilot.app))  # noqa: B023
            assert text == pilot.app.get_screen_stack("query")[0].query_one("#first", Input).value
