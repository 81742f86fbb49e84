"""The nearest sentences of a file to a question."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import DataTable, Input, Label, Static

from contrastcli.runs.events import Progress
from contrastcli.tui.children import Conversation
from contrastcli.tui.model_field import NO_MODEL
from contrastcli.tui.query import query_process as asking
from contrastcli.tui.query.query_process import Asker, Nearest
from contrastcli.tui.state import State

EMPTY = "Name a text file, a sentence a line, and a question; Enter finds what is nearest to it."
_COUNT = 5  # where none is given
_COLUMNS = (("rank", 4), ("cosine", 7), ("angle", 6), ("row", 6))  # and the sentence, in what is left
_PADDING = 2  # of a cell


class CorpusPanel(Vertical):
    """A file, a question, how many neighbours; and these, once they have been asked for."""

    def __init__(self, directory: Path, model: Callable[[], str], last: State) -> None:
        super().__init__(id="corpus")
        self.border_title = "Nearest in a corpus"
        self._directory, self._model = directory, model
        self._last = last
        self._asker: Asker | None = None
        self._about: tuple[str, ...] = ()  # what the asker's conversation is about
        self._found: Nearest | None = None

    def compose(self) -> ComposeResult:
        with Horizontal(classes="row"):
            yield Label("File", classes="name")
            yield Input(self._last.corpus, placeholder="sentences.txt, .csv, .jsonl …", id="file", compact=True)
            yield Label("k", classes="name short")
            yield Input(self._last.nearest, restrict=r"\d{0,3}", id="k", compact=True)
        with Horizontal(classes="row"):
            yield Label("Question", classes="name")
            yield Input(self._last.question, placeholder="any sentence", id="question", compact=True)
        yield Static(EMPTY, classes="words", markup=False)
        yield DataTable(cursor_type="row", id="neighbours")

    def on_mount(self) -> None:
        self._table.display = False

    @property
    def _table(self) -> DataTable[Text]:
        return self.query_one(DataTable)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.search()

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self._last.corpus, self._last.question, self._last.nearest = map(self._typed, ("file", "question", "k"))

    def _typed(self, field: str) -> str:
        return self.query_one(f"#{field}", Input).value.strip()

    def search(self) -> None:
        """Ask for the nearest, of a child that keeps the corpus."""
        file, question, model = self._typed("file"), asking.line(self._typed("question")), self._model()
        if not (file and question and model):
            self._say(EMPTY if model else NO_MODEL)
            self._ask_for("file" if not file else "question" if not question else "")
            return
        count = max(1, int(self._typed("k") or _COUNT))
        about = ("--corpus", str(Path(file).expanduser()), "-k", str(count), "--model", model)
        if self._asker is None or about != self._about:
            self._about = about
            self._converse(question)
        else:
            self._asker.ask(question)

    def _ask_for(self, field: str) -> None:
        """Go to the field that is missing, if it is one, and have the panel in sight with what it says."""
        if field:
            self.query_one(f"#{field}", Input).focus()
        self.call_after_refresh(self.scroll_visible, animate=False)

    def rest(self) -> None:
        """Let the model go, and what it has found."""
        self.workers.cancel_node(self)
        self._asker = self._found = None
        self._say(EMPTY)

    @work(exclusive=True)
    async def _converse(self, question: str) -> None:
        words = ("query", "-", "--json", *self._about)
        self._asker = asker = Asker(Conversation(self._directory, *words, on_progress=self._advance), self._hear)
        self._say("loading the model and the corpus…")
        asker.ask(question)
        said = await asker.run()
        self._asker = None
        self._say(said)

    def _advance(self, event: Progress) -> None:
        self._say(f"{event.what} {event.done:,} of {event.total:,}")

    def _hear(self, line: str) -> None:
        try:
            self._found = msgspec.json.decode(line, type=Nearest)
        except msgspec.DecodeError:
            self._say("This model gives no numbers: its training may have diverged.")
        else:
            self._say("")
            self._list(self._found)

    def _say(self, words: str) -> None:
        """Words in place of the table, or none."""
        self.query_one(".words", Static).update(words)
        self.query_one(".words").display = bool(words)
        self._table.display = not words

    def _list(self, found: Nearest) -> None:
        table = self._table
        table.clear(columns=True)
        for name, width in _COLUMNS:
            table.add_column(name.rjust(width), width=width)
        rest = self.size.width - sum(width + _PADDING for _, width in _COLUMNS) - _PADDING
        table.add_column("sentence", width=max(rest, 10, *(len(n.text) for n in found.neighbours)))
        for rank, near in enumerate(found.neighbours, 1):
            numbers = (f"{rank:>4}", f"{near.cosine:7.4f}", f"{near.angle_deg:5.1f}°", f"{near.row:>6,}")
            table.add_row(*map(Text, (*numbers, near.text)))  # plain: a sentence may hold brackets
        self.call_after_refresh(self.scroll_visible, animate=False)

    def copied(self) -> str:
        """The neighbours as text."""
        if self._found is None:
            return ""
        lines = (f"{n.cosine:.4f}\t{n.angle_deg:.1f}°\t{n.row}\t{n.text}" for n in self._found.neighbours)
        return "\n".join([self._found.query, *lines])
