"""The screen Runs in tests."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from textual.pilot import Pilot

from contrastcli.tui.app import ContrastApp
from contrastcli.tui.runs.runs_table import RunsTable
from support.screens import WIDE, show, until


@asynccontextmanager
async def opened(app: ContrastApp, size: tuple[int, int] = WIDE) -> AsyncIterator[tuple[Pilot[None], RunsTable]]:
    """Show Runs, and go on once its table is filled."""
    async with show(app, size) as pilot:
        await pilot.press("3")
        table = app.screen.query_one(RunsTable)
        await until(pilot, lambda: table.row_count)
        yield pilot, table


def at(table: RunsTable, name: str) -> None:
    """Put the cursor at a run."""
    table.move_cursor(row=names(table).index(name))


async def select(pilot: Pilot[None], table: RunsTable, *chosen: str) -> None:
    """Select these runs, one after the other."""
    for name in chosen:
        at(table, name)
        await pilot.press("space")


def names(table: RunsTable) -> list[str]:
    """The names in the table, from the top."""
    return [str(row[1]) for row in map(table.get_row_at, range(table.row_count))]
