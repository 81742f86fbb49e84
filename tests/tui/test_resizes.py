"""What a screen shows depends on the size of the terminal, not on the sizes that it had before."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from textual.geometry import Region
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Static

from contrastcli.tui.app import ContrastApp
from support.recorded import recorded
from support.screens import press, screen_text, show

pytestmark = pytest.mark.usefixtures("commands")
Size = tuple[int, int]
SIZES = [(80, 24), (99, 30), (100, 30), (110, 40), (119, 24), (120, 24), (140, 45), (160, 50), (200, 60)]
"""On both sides of the widths at which screens stack their panels."""


def every_change(sizes: Sequence[Size]) -> Iterator[Size]:
    """Sizes in an order that goes from each of them to each other one."""
    for number, size in enumerate(sizes):
        yield size
        for other in sizes[number + 1 :]:
            yield from (other, size)


Shape = dict[Widget, Region]
"""Where each widget that can be seen is, and how large."""


def shape(screen: Screen[object]) -> Shape:
    return {widget: widget.region for widget in screen.query("*") if widget.region}


def misfits(screen: Screen[object]) -> list[str]:
    """The texts whose height is not that of their lines at their width."""
    texts = [text for text in screen.query(Static) if text.region and text.styles.is_auto_height]
    free = [text for text in texts if text.styles.max_height is None and text.styles.min_height is None]
    needed = {text: text.get_content_height(text.size, text.app.size, text.content_size.width) for text in free}
    return [
        f"{text}: {text.content_size} for {rows} rows"
        for text, rows in needed.items()
        if text.content_size.height != rows
    ]


async def check(pilot: Pilot[None], sizes: Sequence[Size]) -> None:
    """Go through all ordered pairs of sizes: each arrival at a size looks as the first one, and all texts fit."""
    first: dict[Size, Shape] = {}
    screen, before = pilot.app.screen, None
    for size in every_change(sizes):
        await pilot.resize_terminal(*size)
        here, now = f"from {before} to {size}", await settled_shape(pilot)
        assert misfits(screen) == [], here
        assert differences(first.setdefault(size, now), now) == [], f"{here}, and not as at the first time"
        for widget in screen.query("*"):
            widget.refresh(layout=True)
        assert differences(now, await settled_shape(pilot)) == [], f"{here}, and after another layout"
        before = size


async def settled_shape(pilot: Pilot[None]) -> Shape:
    before: Shape = {}
    while (now := shape(pilot.app.screen)) != before:
        before = now
        await pilot.pause()
    return now


def differences(one: Shape, other: Shape) -> list[str]:
    return [f"{here}: {one.get(here)}, {other.get(here)}" for here in one | other if one.get(here) != other.get(here)]


READY = {
    "1": "no dry run",
    "2": "step 600 of 600",
    "3": "checkpoints/000300",
    "4": "has not been evaluated",
    "5b": "second − first",
}
"""What each screen shows once it is there, by the keys that open it."""


@pytest.mark.parametrize(
    ("mode", "sizes"), [("5b", SIZES[::8]), *(pytest.param(mode, SIZES, marks=pytest.mark.slow) for mode in READY)]
)
async def test_every_screen_is_the_same_however_its_size_was_reached(
    tmp_path: Path, mode: str, sizes: Sequence[Size]
) -> None:
    run = recorded(tmp_path, "finished")
    async with show(ContrastApp(tmp_path, run if mode == "2" else None)) as pilot:
        await press(pilot, *mode, then=lambda: READY[mode] in screen_text(pilot.app))
        await check(pilot, sizes)
