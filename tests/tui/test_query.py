"""The screen Query: two sentences and a corpus, answered by a process that stands in for a model."""

import json
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
from textual.app import App
from textual.events import Paste
from textual.message import Message
from textual.pilot import Pilot
from textual.widgets import Input

from contrastcli.tui import processes, state
from contrastcli.tui.app import ContrastApp
from contrastcli.tui.fields.choice_field import ChoiceField
from contrastcli.tui.fields.columns import ColumnsField
from contrastcli.tui.fields.model_field import ModelField
from contrastcli.tui.query.corpus_panel import CorpusPanel
from contrastcli.tui.query.query_panel import QueryPanel, query_line
from contrastcli.tui.query.similarity_panel import SimilarityPanel, draw_dial
from contrastcli.tui.widgets import PlainText
from support import fake_query
from support.recorded import recorded
from support.screens import NARROW, SIZES, check_golden, choose, press, says, screen_text, settled, show, until
from support.waiting import wait_until


@dataclass
class Model:
    """A process that the screen has started, with the words of its command and the lines that it was asked."""

    pid: int
    words: list[str]
    asked: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.words[-1]

    @property
    def closed(self) -> bool:
        return not psutil.pid_exists(self.pid)


Models = Callable[[], list[Model]]


@pytest.fixture(autouse=True)
def models(without_setup: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Models:
    """The processes that the screen has started, in that order, read from what they have logged."""
    log = tmp_path / "asked.jsonl"
    monkeypatch.setenv(fake_query.LOG, str(log))
    monkeypatch.setattr(processes, "CONTRAST", (sys.executable, fake_query.__file__))

    def read() -> list[Model]:
        models: dict[int, Model] = {}
        for entry in map(json.loads, log.read_text().splitlines() if log.exists() else ()):
            if "words" in entry:
                models[entry["pid"]] = Model(entry["pid"], entry["words"])
            else:
                models[entry["pid"]].asked.append(entry["asked"])
        return list(models.values())

    return read


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A runs directory with one finished run."""
    recorded(tmp_path / "runs", "finished", "one-run")
    return tmp_path / "runs"


async def write(pilot: Pilot[None], name: str, text: str) -> None:
    """Put a text into a field."""
    line = pilot.app.screen.query_one(f"#{name}", Input)
    line.focus()
    line.value = text
    await pilot.pause()


@SIZES
async def test_the_remembered_sentences_are_answered_by_the_newest_run(
    place: Path, models: Models, size: tuple[int, int]
) -> None:
    async with show(ContrastApp(place), size) as pilot:
        await press(pilot, "5", shows="0.3333")
        assert "70.5°" in screen_text(pilot.app)
        if size == NARROW:
            check_golden("query-narrow", await settled(pilot))
    [model] = models()
    assert model.words == ["query", "-", "--json", "--model", "one-run"]
    assert model.asked == ["a dog runs\ta puppy sprints"]
    wait_until(lambda: model.closed)


async def test_a_model_that_is_known_and_not_yet_told_is_loaded_once(
    place: Path, models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    post, ask, loaded = ModelField.post_message, SimilarityPanel.ask_process, list[Sequence[str]]()

    def post_late(field: ModelField, message: Message) -> bool:
        if isinstance(message, ModelField.Changed) and field.id == "one-model":
            field.screen.query_one("#one", SimilarityPanel).ask("a dog runs\ta puppy sprints")
        return post(field, message)

    def ask_counted(panel: SimilarityPanel, line: str, *args: str) -> None:
        loaded.extend([args] * (panel.asked != (args, 0.0)))
        ask(panel, line, *args)

    monkeypatch.setattr(ModelField, "post_message", post_late)
    monkeypatch.setattr(SimilarityPanel, "ask_process", ask_counted)
    async with show(ContrastApp(place), NARROW) as pilot:
        await press(pilot, "5", shows="0.3333")
    assert loaded == [("--model", "one-run")] and len(models()) == 1


async def test_the_log_has_the_commands_that_run_and_copies_one(place: Path, models: Models) -> None:
    app = ContrastApp(place)
    async with show(app, NARROW) as pilot:
        await press(pilot, "5", then=lambda: models() and models()[0].asked)
        await press(pilot, "semicolon", shows="Commands that the app ran")
        assert "● running" in screen_text(pilot.app)
        await press(pilot, "enter", then=lambda: app.clipboard)
        assert app.clipboard == f"contrast --runs-dir {place} query - --json --model one-run"
        await press(pilot, "semicolon", "escape", "s", then=lambda: isinstance(pilot.app.focused, Input))


async def test_an_answer_follows_the_typing_and_says_that_a_text_is_cut(place: Path, models: Models) -> None:
    async with show(ContrastApp(place), NARROW) as pilot:
        await pilot.press("5", "s")
        await write(pilot, "first", "a puppy sprints")
        await until(pilot, lambda: "1.0000" in screen_text(pilot.app))
        assert "0.0°" in screen_text(pilot.app)
        await write(pilot, "first", "")
        await until(pilot, lambda: "type two sentences" in screen_text(pilot.app))
        assert "1.0000" not in screen_text(pilot.app)
        assert len(models()[0].asked) < 6, "a pause in the typing is waited for"
        await write(pilot, "first", "a dog runs")
        await write(pilot, "second", "a puppy sprints " * 5)
        await until(pilot, lambda: "B is cut after 12 of 15 tokens" in screen_text(pilot.app))
        await write(pilot, "second", "a puppy")
        await until(pilot, lambda: "0.4082" in screen_text(pilot.app) and "is cut" not in screen_text(pilot.app))
    assert len(models()) == 1


async def test_a_second_model_answers_next_to_the_first_while_it_is_shown(place: Path, models: Models) -> None:
    app = ContrastApp(place)
    async with show(app, NARROW) as pilot:
        await press(pilot, "5", "b", then=lambda: len(models()) == 2 and models()[1].asked)
        await until(pilot, lambda: "Second model" in screen_text(pilot.app))
        change = math.degrees(math.acos(1 / 3 + 1 / 16) - math.acos(1 / 3))
        for text in ("0.3958", "second − first", "+0.0625", f"{change:+.1f}°"):
            await until(pilot, lambda: text in screen_text(pilot.app))  # noqa: B023
        await press(pilot, "b", then=lambda: any(model.closed for model in models()))
        await until(pilot, lambda: "Second model" not in screen_text(pilot.app))
        app.screen.query_one("#other-model", ModelField).choose("one-run")
        await until(pilot, lambda: app.project.second_model == "one-run")
        assert app.screen.query_one("#other", SimilarityPanel).asked is None, "it is hidden"
    assert sorted(model.name for model in models()) == ["one-run", "starter"]


async def test_another_model_replaces_the_one_before_and_one_that_fails_is_asked_again_by_enter(
    place: Path, models: Models
) -> None:
    recorded(place, "stopped", "a-simace-run")
    async with show(ContrastApp(place)) as pilot:
        await pilot.press("5")
        await until(pilot, lambda: "best, step 300" in screen_text(pilot.app) and "0.3333" in screen_text(pilot.app))
        (place / "one-run" / "checkpoints.json").write_text('{"last": "000400", "best": "000400"}')
        await press(pilot, "1", "5", shows="best, step 400")
        await until(pilot, lambda: len(models()) == 2 and bool(models()[1].asked))
        assert models()[0].closed, "a run that has saved again is another model"
        await choose(pilot, "m", "simace")
        await until(pilot, lambda: models()[-1].name == "a-simace-run" and models()[-1].asked)
        await until(pilot, lambda: models()[1].closed)
        await choose(pilot, "m", "some/encode")
        await until(pilot, lambda: models()[-1].name == "some/encode")
        await press(pilot, "m", shows="not on this machine")
        await press(pilot, "end", "r", "enter", then=lambda: models()[-1].name == "some/encoder")
        await choose(pilot, "m", "none")
        await until(pilot, lambda: says(pilot, "no model is called none", "check the spelling"))
        failed = len(models())
        await write(pilot, "first", "a cat")
        await pilot.pause(0.4)
        assert len(models()) == failed, "a model that has failed is not loaded at each key"
        await press(pilot, "enter", then=lambda: len(models()) == failed + 1)
    assert state.load().project(place).model == "none"


async def test_without_any_model_it_says_how_to_get_one(tmp_path: Path, models: Models) -> None:
    async with show(ContrastApp(tmp_path / "empty"), NARROW) as pilot:
        await press(pilot, "5", shows="No model to use")
        assert "none yet" in screen_text(pilot.app) and "Press 1, then s" in screen_text(pilot.app)
        await choose(pilot, "m", "starter")
        await until(pilot, lambda: "0.3958" in screen_text(pilot.app))
    assert [model.name for model in models()] == ["starter"]


async def test_a_field_takes_letters_and_lines_enter_goes_to_the_second_and_escape_leaves(
    place: Path, models: Models
) -> None:
    async with show(ContrastApp(place)) as pilot:
        await pilot.press("5")
        assert pilot.app.focused is None
        await press(pilot, "s", "ctrl+u", "b", "1", shows="esc back")
        first = pilot.app.screen.query_one("#first", Input)
        assert first.value == "b1"
        await pilot.press("ctrl+u")
        pilot.app.post_message(Paste("a cat\nsleeps\n"))
        await until(pilot, lambda: first.value == "a cat sleeps")
        await press(pilot, "enter", then=lambda: pilot.app.focused is pilot.app.screen.query_one("#second"))
        asked = "a cat sleeps\ta puppy sprints"
        await until(pilot, lambda: any(model.asked[-1:] == [asked] for model in models()))
        await pilot.press("escape")
        await until(pilot, lambda: pilot.app.focused is None and "esc back" not in screen_text(pilot.app))


async def test_the_nearest_sentences_of_a_corpus(place: Path, models: Models, cwd: Path) -> None:
    app = ContrastApp(place)
    async with show(app) as pilot:
        await pilot.press("5")
        await choose(pilot, "c", "texts.txt")
        await until(pilot, lambda: "File      texts.txt ▾" in screen_text(pilot.app))
        await write(pilot, "k", "2")
        await write(pilot, "question", "a puppy")
        await press(pilot, "enter", shows="over the grass")
        # As it stands in the file.
        await until(pilot, lambda: "[red]chess[/red]" in screen_text(pilot.app))
        await pilot.press("escape")
        check_golden("query-wide", await settled(pilot))
        await press(pilot, "n", "enter", then=lambda: any(model.asked == ["a puppy", "a puppy"] for model in models()))
        await pilot.press("escape", "y")
        assert len(models()) == 2, "a second question goes to the process that has the corpus"
        (cwd / "texts.txt").touch()
        await press(pilot, "n", "enter", then=lambda: len(models()) == 3)
    model, again = (model for model in models() if "--corpus" in model.words)
    assert model.words == again.words, "a file that was written anew is read anew"
    corpus = ["--corpus", "texts.txt", "-k", "2", "--model", "one-run", "--blank", "drop"]
    assert model.words == ["query", "-", "--json", *corpus]
    assert app.clipboard.splitlines() == [
        "a dog runs",
        "a puppy sprints",
        "0.3333  70.5°  one-run",
        "a puppy",
        "0.5774\t54.7°\t1\ta puppy sprints over the grass",
        "0.3162\t71.6°\t3\tno puppy is playing [red]chess[/red]",
    ]
    remembered = state.load().project(place)
    assert (remembered.corpus, remembered.question, remembered.nearest) == ("texts.txt", "a puppy", "2")


async def test_a_long_sentence_of_a_corpus_goes_on_in_the_next_line_and_one_that_is_cut_says_so(place: Path) -> None:
    texts = "long " * 10 + "end", "long " * 100 + "end"
    near = [{"row": n, "text": text, "cosine": 0.5, "angle_deg": 60.0} for n, text in enumerate(texts)]
    async with show(ContrastApp(place), NARROW) as pilot:
        await press(pilot, "5", shows="Nearest in a corpus")
        panel = pilot.app.screen.query_one(CorpusPanel)
        panel.show_answer(json.dumps({"query": "a puppy", "neighbours": near, "model": "one-run"}))
        await until(pilot, lambda: says(pilot, "long end", "…"))


async def test_every_project_has_its_own_choices_whichever_app_ends_last(tmp_path: Path) -> None:
    apps = {name: ContrastApp(tmp_path / name) for name in ("one", "two")}
    async with show(apps["one"]), show(apps["two"]):
        for name, app in apps.items():
            app.project.corpus = f"{name}.txt"
    assert {name: state.load().project(app.directory).corpus for name, app in apps.items()} == {
        "one": "one.txt",
        "two": "two.txt",
    }
    assert state.load().project(tmp_path).corpus == ""


async def test_with_a_run_come_the_data_that_it_was_trained_on(place: Path) -> None:
    data = place / "faq.csv"
    data.write_text("Frage;Antwort\nwo;hier\n")
    columns = "anchor=Frage,positive=Antwort"
    run = recorded(place / "more", "stopped", "mine", data__train=str(data), data__columns=columns)
    # Several files are no corpus, nor is their list a path that any system takes.
    many = recorded(place / "more", "stopped", "many", data__train=",".join(f"part-{n}.jsonl" for n in range(40)))
    app = ContrastApp(place)
    async with show(app) as pilot:
        await app.open_run(many, "query")
        await app.workers.wait_for_complete([one for one in app.workers if one.group == "data"])
        await app.open_run(run, "query")
        await until(pilot, lambda: app.project.corpus == str(data))
        screen = pilot.app.screen
        assert screen.query_one("#file", ChoiceField).value == str(data)
        assert screen.query_one(ColumnsField).value == columns
        assert "Type a question: Enter finds" in screen_text(pilot.app)
        other = recorded(place / "more", "stopped", "other", data__train=str(place / "texts.txt"))
        await app.open_run(other, "query")
        await pilot.pause()
        assert app.project.corpus == str(data), "what was chosen before stays"


async def test_without_a_file_one_is_chosen_a_second_question_is_typed_over_the_first_and_x_stops_a_search(
    place: Path, models: Models
) -> None:
    async with show(ContrastApp(place)) as pilot:
        await press(pilot, "5", then=lambda: models() and models()[0].asked)
        await press(pilot, "n", "enter", then=lambda: pilot.app.focused is pilot.app.screen.query_one("#file"))
        assert says(pilot, "Choose a file of sentences with c") and len(models()) == 1
        await choose(pilot, "enter", "texts.txt")
        await until(pilot, lambda: pilot.app.focused is pilot.app.screen.query_one("#question"))
        await press(pilot, *"a puppy", "enter", shows="over the grass")
        await pilot.press(*"interest rates", "enter")
        await until(pilot, lambda: any("interest rates" in model.asked for model in models()))
        await until(pilot, lambda: "rates rose" in screen_text(pilot.app).split("rank")[-1].splitlines()[1])
        assert "x stop" not in screen_text(pilot.app)
        await write(pilot, "question", "slow")
        assert says(pilot, "Nearest to 'interest rates'")
        await press(pilot, "enter", then=lambda: any("slow" in model.asked for model in models()))
        await press(pilot, "escape", shows="x stop")
        await press(pilot, "x", then=lambda: models()[-1].closed)
        await until(pilot, lambda: "x stop" not in screen_text(pilot.app))


async def test_another_file_ends_the_search_of_the_one_before_and_takes_its_answer_away(
    place: Path, models: Models
) -> None:
    app = ContrastApp(place)
    app.project.corpus = "texts.txt"
    async with show(app) as pilot:
        await pilot.press("5")
        await write(pilot, "question", "a puppy")
        await press(pilot, "enter", shows="over the grass")
        await write(pilot, "question", "slow")
        await press(pilot, "enter", then=lambda: any("slow" in model.asked for model in models()))
        app.screen.query_one("#file", ChoiceField).choose("other.txt")
        await until(pilot, lambda: any(model.closed for model in models() if "--corpus" in model.words))
        await pilot.press("escape", "y")
        assert "over the grass" not in screen_text(app) + app.clipboard


async def test_of_lines_that_wait_only_the_newest_is_asked(tmp_path: Path, models: Models) -> None:
    answers: list[str] = []

    class Panel(QueryPanel):
        def show_answer(self, line: str) -> None:
            answers.append(line)

    async with App[None]().run_test() as pilot:
        panel = Panel(tmp_path, "", "panel", PlainText(classes="message"))
        await pilot.app.mount(panel)
        panel.ask_process("a\ta", "--model", "any")
        await until(pilot, lambda: len(answers) == 1)
        for word in "bcd":
            panel.ask_process(f"a\t{word}", "--model", "any")
        await until(pilot, lambda: len(answers) == 2)
        panel.close_process()
        await until(pilot, lambda: models()[0].closed)
    [model] = models()
    assert model.asked == ["a\ta", "a\td"]


def test_a_line_holds_no_tab_or_line_end_of_its_own() -> None:
    assert query_line("a\tb", "c\r\nd ") == "a b\tc  d"
    assert query_line("a", " \t") == ""


@pytest.mark.parametrize("angle", [0, 30, 90, 150, 180])
def test_the_dial_points_where_the_angle_is(angle: int) -> None:
    *rows, scale = draw_dial(angle).split("\n")
    ends = {0: (-1, -1), 30: (3, -3), 90: (0, 13), 150: (3, 2), 180: (-1, 0)}
    row, column = ends[angle]
    assert ord(rows[row][column]) > 0x2800
    assert f"{angle}.0°" in scale
    assert {len(text) for text in rows} == {len(scale)}
