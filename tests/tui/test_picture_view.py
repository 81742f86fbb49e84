"""Pictures in pixels over the charts of Evaluate, in a terminal as kitty is: seen while nothing covers a part."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.screen import Screen

from contrastcli.runs.directory import Run
from contrastcli.show import graphics, plots
from contrastcli.tui.app import ContrastApp
from contrastcli.tui.evaluate import picture_view
from contrastcli.tui.evaluate.picture_view import PictureView
from support.recorded import recorded
from support.screens import NARROW, WIDE, show, until

TASK = {
    "positive_histogram": [0] * 6 + [3, 1] + [0] * 28,
    "negative_histogram": [0] * 16 + [5, 5, 10] + [0] * 17,
    "pca": [[0.1 * n, 0.01 * n * n] for n in range(-9, 10)],
    "explained": [0.25, 0.125],
}


class Kitty:
    """What the terminal shows: the place of each picture by its number; and the size of each that was drawn."""

    def __init__(self) -> None:
        self.places: dict[str, tuple[int, int]] = {}
        self.sizes: list[tuple[int, int]] = []

    def write(self, data: str) -> None:
        for row, column, keys in re.findall(r"\x1b\[(\d+);(\d+)H\x1b_G([^;]*)", data):
            self.places[re.findall(r"i=(\d+)", keys)[0]] = (int(column) - 1, int(row) - 1)
        for number in re.findall(r"\x1b_Ga=d,d=I,i=(\d+)", data):
            self.places.pop(number, None)

    def draw(self, picture: object, size: tuple[int, int], *look: object) -> bytes:
        self.sizes.append(size)
        return b"a picture"


@pytest.fixture
def kitty(monkeypatch: pytest.MonkeyPatch) -> Kitty:
    kitty = Kitty()
    monkeypatch.setitem(ContrastApp.MODES, "setup", Screen)
    monkeypatch.setenv("CONTRAST_PICTURES", "kitty")
    monkeypatch.setattr(graphics, "cell_size", lambda: (8, 16))
    monkeypatch.setattr(plots, "png", kitty.draw)
    monkeypatch.setattr(picture_view, "_SETTLE", 0.0)
    return kitty


@pytest.fixture
def app(tmp_path: Path) -> ContrastApp:
    run = recorded(tmp_path, "finished", "one-run")
    run.scores_path.write_text(json.dumps({"suites": {"geometry": {"STS-B": TASK}}}))
    app = ContrastApp(tmp_path)
    app.remembered.suites = ("geometry",)
    return app


async def open_evaluate(app: ContrastApp, kitty: Kitty, pilot: Pilot[None]) -> list[PictureView]:
    assert app._driver
    app._driver.write = kitty.write  # type: ignore[method-assign]
    await pilot.press("4")
    await until(pilot, lambda: [view for view in app.screen.query(PictureView) if not view.chart.empty])
    return [*app.screen.query(PictureView)]


def test_pictures_lie_in_their_frames_and_give_way(app: ContrastApp, kitty: Kitty) -> None:
    async def body(pilot: Pilot[None]) -> None:
        views = await open_evaluate(app, kitty, pilot)
        await until(pilot, lambda: len(kitty.places) == 2)
        assert {*kitty.places.values()} == {view.content_region.offset for view in views}
        assert {*kitty.sizes} == {view.size for view in views}
        drawn = len(kitty.sizes)
        for key, back in (("1", "4"), ("m", "escape")):
            await pilot.press(key)
            await until(pilot, lambda: not kitty.places)
            await pilot.press(back)
            await until(pilot, lambda: len(kitty.places) == 2)
        app.notify("high\n" * 16, timeout=60)
        await until(pilot, lambda: [*kitty.places.values()] == [views[0].content_region.offset])
        app.clear_notifications()
        await until(pilot, lambda: len(kitty.places) == 2)
        assert len(kitty.sizes) == drawn, "each is drawn once"
        app.theme = "textual-light"
        await until(pilot, lambda: len(kitty.sizes) == drawn + 2 and len(kitty.places) == 2)
        await app.open_run(recorded(app.directory, "finished", "not-measured"), "evaluate")
        await until(pilot, lambda: not kitty.places)
        assert all(view.chart.empty for view in views), "the pictures of another model are gone"
        await app.open_run(Run(app.directory / "one-run"), "evaluate")
        await until(pilot, lambda: len(kitty.places) == 2)
        app.theme = "ansi-dark"
        await until(pilot, lambda: not kitty.places)

    show(app, body, WIDE)


def test_a_picture_is_shown_once_all_of_it_is_scrolled_into_sight(app: ContrastApp, kitty: Kitty) -> None:
    async def body(pilot: Pilot[None]) -> None:
        views = await open_evaluate(app, kitty, pilot)
        assert not kitty.places
        await pilot.press("end")
        await until(pilot, lambda: views[1].content_region.offset in kitty.places.values())
        await pilot.press("up")
        await until(pilot, lambda: views[1].content_region.offset not in kitty.places.values())
        await pilot.press("home")
        await until(pilot, lambda: not kitty.places)

    show(app, body, NARROW)
