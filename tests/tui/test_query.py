"""The screen Query: two sentences and a corpus, answered by children that stand in for a model."""

from __future__ import annotations

import asyncio
import json
import math
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import Input

from contrastcli.runs.events import Progress
from contrastcli.tui import state
from contrastcli.tui.app import ContrastApp
from contrastcli.tui.children import ChildEnded, OnProgress
from contrastcli.tui.query import corpus_panel as corpus
from contrastcli.tui.query import similarity_panel as answer
from contrastcli.tui.query.angle_dial import dial
from contrastcli.tui.query.query_process import Asker, line
from support.recorded import recorded
from support.screens import NARROW, WIDE, check_golden, screen_text, show, until

SIZES = pytest.mark.parametrize("size", [NARROW, WIDE], ids=["narrow", "wide"])
CORPUS = ["a puppy sprints over the grass", "interest rates rose", "no puppy is playing [red]chess[/red]"]


class Model:
    """A child that answers by the words that two sentences share; a model called `none` cannot be loaded."""

    children: list[Model]

    def __init__(self, directory: Path, *words: str, on_progress: OnProgress | None = None) -> None:
        self.words, self.model = words, words[words.index("--model") + 1]
        self.asked: list[str] = []
        self.closed = False
        self._on_progress = on_progress
        self.children.append(self)

    async def ask(self, question: str, answers: int = 1) -> list[str]:
        if self._on_progress and not self.asked:
            self._on_progress(Progress(step=0, what="encoding", done=1, total=3))
        self.asked.append(question)
        await asyncio.sleep(0.01)
        if self.model == "none":
            raise ChildEnded("backbone 'none' is neither a folder nor a model on the hub\nhint: check the spelling")
        if "--corpus" in self.words:
            found = [{"row": n + 1, "text": text, **_likeness(question, text)} for n, text in enumerate(CORPUS)]
            found.sort(key=lambda near: near["angle_deg"])
            count = int(self.words[self.words.index("-k") + 1])
            return [json.dumps({"query": question, "neighbours": found[:count], "model": self.model})]
        a, b = question.split("\t")
        return [json.dumps({"a": a, "b": b, **_likeness(a, b), "model": self.model})]

    async def close(self) -> None:
        self.closed = True


def _likeness(a: str, b: str) -> dict[str, float]:
    first, second = set(a.split()), set(b.split())
    cosine = len(first & second) / math.sqrt(len(first) * len(second))
    return {"cosine": cosine, "angle_deg": math.degrees(math.acos(min(cosine, 1.0)))}


@pytest.fixture(autouse=True)
def models(monkeypatch: pytest.MonkeyPatch) -> list[Model]:
    """The children that the screen has started."""
    Model.children = []
    for module in (answer, corpus):
        monkeypatch.setattr(module, "Conversation", Model)
    monkeypatch.setitem(ContrastApp.MODES, "setup", Screen)  # it has tests of its own, and takes its time
    return Model.children


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A runs directory with one finished run."""
    recorded(tmp_path, "finished", "one-run")
    return tmp_path


async def settled(pilot: Pilot[None]) -> str:
    """What the screen shows, once it has come to rest."""
    before = ""
    while (text := screen_text(pilot.app)) != before:
        before = text
        await pilot.pause(0.1)
    return text


async def typed(pilot: Pilot[None], field: str, text: str) -> None:
    """Put a text into a field."""
    found = pilot.app.screen.query_one(f"#{field}", Input)
    found.focus()
    found.value = text
    await pilot.pause()


@SIZES
def test_the_remembered_sentences_are_answered_by_the_newest_run(
    place: Path, models: list[Model], size: tuple[int, int]
) -> None:
    async def body(pilot: Pilot[None]) -> None:
        await pilot.press("5")
        await until(pilot, lambda: "angle" in screen_text(pilot.app))
        await until(pilot, lambda: "0.3333" in screen_text(pilot.app))
        assert "70.5°" in screen_text(pilot.app)
        check_golden(f"query-{'narrow' if size == NARROW else 'wide'}", await settled(pilot))

    show(ContrastApp(place), body, size)
    (model,) = models
    assert model.words == ("query", "-", "--json", "--model", "one-run")
    assert model.asked == ["a dog runs\ta puppy sprints"]
    assert model.closed


def test_an_answer_follows_the_typing(place: Path, models: list[Model]) -> None:
    async def body(pilot: Pilot[None]) -> None:
        await pilot.press("5", "s")
        await typed(pilot, "first", "a puppy sprints")
        await until(pilot, lambda: "1.0000" in screen_text(pilot.app))
        assert "0.0°" in screen_text(pilot.app)
        await typed(pilot, "first", "")
        await until(pilot, lambda: "Type two sentences" in screen_text(pilot.app))
        assert "1.0000" not in screen_text(pilot.app)

    show(ContrastApp(place), body)
    assert len(models) == 1 and len(models[0].asked) < 6, "a pause in the typing is waited for"


def test_letters_go_into_a_field_until_escape_leaves_it(place: Path) -> None:
    async def body(pilot: Pilot[None]) -> None:
        await pilot.press("5")
        assert pilot.app.focused is None
        await pilot.press("s", "ctrl+u", "b", "1")
        assert pilot.app.screen.query_one("#first", Input).value == "b1"
        assert "esc back" in screen_text(pilot.app)
        await pilot.press("escape")
        assert pilot.app.focused is None
        assert "esc back" not in screen_text(pilot.app)

    show(ContrastApp(place), body)


@SIZES
def test_a_second_model_answers_beside_the_first(place: Path, models: list[Model], size: tuple[int, int]) -> None:
    async def body(pilot: Pilot[None]) -> None:
        await pilot.press("5", "b")
        await until(pilot, lambda: len(models) == 2 and models[1].asked)
        await until(pilot, lambda: screen_text(pilot.app).count("0.3333") == 2 or size == NARROW)
        assert "Beside it" in screen_text(pilot.app)
        await pilot.press("b")
        await until(pilot, lambda: models[1].closed)
        assert "Beside it" not in screen_text(pilot.app)

    show(ContrastApp(place), body, size)
    assert [model.model for model in models] == ["one-run", "starter"]


def test_another_model_replaces_the_one_before(place: Path, models: list[Model]) -> None:
    recorded(place, "stopped", "a-simace-run")

    async def body(pilot: Pilot[None]) -> None:
        await pilot.press("5")
        await until(pilot, lambda: models and models[0].asked)
        await pilot.press("m", *"simace")
        await until(pilot, lambda: "a-simace-run" in screen_text(pilot.app))
        await pilot.press("down", "enter")
        await until(pilot, lambda: models[-1].model == "a-simace-run" and models[-1].asked)
        await until(pilot, lambda: models[0].closed)

    show(ContrastApp(place), body)
    assert state.load().model == "a-simace-run"


def test_a_model_that_cannot_be_loaded_says_why_and_is_asked_again_by_enter(place: Path, models: list[Model]) -> None:
    async def body(pilot: Pilot[None]) -> None:
        await pilot.press("5", "m", *"none", "enter")
        await until(pilot, lambda: "neither a folder" in screen_text(pilot.app))
        assert "check the spelling" in screen_text(pilot.app)
        failed = len(models)
        await typed(pilot, "first", "a cat")
        await pilot.pause(0.4)
        assert len(models) == failed, "a model that has failed is not loaded at each key"
        await pilot.press("enter")
        await until(pilot, lambda: len(models) == failed + 1)

    show(ContrastApp(place), body)


def test_without_any_model_it_says_how_to_get_one(tmp_path: Path, models: list[Model]) -> None:
    async def body(pilot: Pilot[None]) -> None:
        await pilot.press("5")
        await until(pilot, lambda: "A model is needed" in screen_text(pilot.app))
        assert "press 1" in screen_text(pilot.app).lower()
        check_golden("query-no-model", await settled(pilot))
        await pilot.press("m", *"starter", "enter")
        await until(pilot, lambda: "0.3333" in screen_text(pilot.app))

    show(ContrastApp(tmp_path), body, NARROW)
    assert [model.model for model in models] == ["starter"]


@SIZES
def test_the_nearest_sentences_of_a_corpus(place: Path, models: list[Model], size: tuple[int, int]) -> None:
    async def body(pilot: Pilot[None]) -> None:
        await pilot.press("5", "c")
        await typed(pilot, "file", "texts.txt")
        await typed(pilot, "k", "2")
        await typed(pilot, "question", "a puppy")
        await pilot.press("enter")
        await until(pilot, lambda: "over the grass" in screen_text(pilot.app))
        assert "[red]chess[/red]" in screen_text(pilot.app), "as it stands in the file"
        await pilot.press("escape")
        check_golden(f"query-corpus-{'narrow' if size == NARROW else 'wide'}", await settled(pilot))
        await pilot.press("n")
        await until(pilot, lambda: len(models[-1].asked) == 2)
        await pilot.press("y")

    app = ContrastApp(place)
    show(app, body, size)
    assert models[-1].words == (*("query", "-", "--json", "--corpus", "texts.txt", "-k", "2", "--model", "one-run"),)
    assert len(models) == 2, "a second question goes to the child that has the corpus"
    assert app.clipboard.splitlines() == [
        "a dog runs",
        "a puppy sprints",
        "0.3333  70.5°  one-run",
        "a puppy",
        "0.5774\t54.7°\t1\ta puppy sprints over the grass",
        "0.3162\t71.6°\t3\tno puppy is playing [red]chess[/red]",
    ]
    remembered = state.load()
    assert (remembered.corpus, remembered.question, remembered.nearest) == ("texts.txt", "a puppy", "2")


def test_a_corpus_without_a_file_says_what_to_type(place: Path, models: list[Model]) -> None:
    async def body(pilot: Pilot[None]) -> None:
        await pilot.press("5")
        await until(pilot, lambda: models and models[0].asked)
        await pilot.press("n")
        assert "Name a text file" in screen_text(pilot.app)
        assert pilot.app.focused is pilot.app.screen.query_one("#file"), "and is where to type it"
        await pilot.press(*"a.txt", "enter")
        assert pilot.app.focused is pilot.app.screen.query_one("#question")

    show(ContrastApp(place), body)
    assert len(models) == 1


def test_of_questions_that_wait_only_the_newest_is_asked(tmp_path: Path) -> None:
    model = Model(tmp_path, "--model", "any")
    answers: list[str] = []

    async def body() -> None:
        asker = Asker(model, answers.append)  # type: ignore[arg-type]  # a stand-in
        talk = asyncio.create_task(asker.run())
        asker.ask("a\ta")
        await asyncio.sleep(0)
        for word in "bcd":
            asker.ask(f"a\t{word}")
        while len(answers) < 2:
            await asyncio.sleep(0.005)
        talk.cancel()
        await asyncio.gather(talk, return_exceptions=True)

    asyncio.run(body())
    assert model.asked == ["a\ta", "a\td"]
    assert model.closed


def test_a_line_holds_no_tab_or_line_end_of_its_own() -> None:
    assert line("a\tb", "c\r\nd ") == "a b\tc  d"
    assert line("a", " \t") == ""


@pytest.mark.parametrize("angle", [0, 30, 90, 150, 180])
def test_the_dial_points_where_the_angle_is(angle: int) -> None:
    *rows, scale = dial(angle).split("\n")
    ends = {0: (-1, -1), 30: (3, -3), 90: (0, 13), 150: (3, 2), 180: (-1, 0)}
    row, column = ends[angle]
    assert ord(rows[row][column]) > 0x2800
    assert f"{angle}.0°" in scale
    assert {len(text) for text in rows} == {len(scale)}
