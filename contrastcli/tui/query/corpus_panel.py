"""The sentences of a file that are nearest to a question."""

import os
from collections.abc import Callable
from pathlib import Path

import msgspec
from rich.text import Text
from textual.content import Content
from textual.widgets import Input, Label

from contrastcli.runs.results import Nearest
from contrastcli.runs.text import excerpt
from contrastcli.settings.sections import Data
from contrastcli.tui.fields.choice_field import ChoiceField
from contrastcli.tui.fields.columns import ColumnsField
from contrastcli.tui.fields.completion import complete_data, data_files
from contrastcli.tui.fields.model_field import NO_MODEL
from contrastcli.tui.query.query_panel import QueryPanel, query_line
from contrastcli.tui.state import Project
from contrastcli.tui.widgets import FormRow, LineInput, PlainText, RowTable

EMPTY = "Choose a file of sentences with c and type a question: Enter finds the nearest sentences, n edits it."
TO_ASK = "Type a question: Enter finds the nearest sentences."
_TITLE, _ASKED_WIDTH = "Nearest in a corpus", 40
_USUAL_COUNT = 10
_NUMBERS_WIDTH = 33
_MOST_LINES = 4  # of a sentence, or one more


class CorpusPanel(QueryPanel):
    """A file, a question, the number of neighbours, and the neighbours once they are known."""

    how_to_stop = "\n\nEsc, then x, stops the search."

    def __init__(self, directory: Path, model: Callable[[], str], project: Project) -> None:
        self._model, self._project = model, project
        self._nearest: Nearest | None = None
        self._table = RowTable("neighbours")
        blank = "sentences.txt, .csv, .jsonl …"
        title = "A file with one sentence a line, or a table with a column of sentences"
        self._file = ChoiceField(title, data_files, project.corpus, blank=blank, complete=complete_data, id="file")
        count = Input(project.nearest, str(_USUAL_COUNT), restrict=r"([1-9]\d{0,2})?", id="k", compact=True)
        question = LineInput(project.question, placeholder="any sentence", id="question", compact=True)
        self._columns = ColumnsField(directory, project, lambda: project.corpus)
        file = FormRow("File", self._file, Label("k", id="k-name"), count)
        rows = file, FormRow("Columns", self._columns), FormRow("Question", question)
        message = PlainText(TO_ASK if project.corpus else EMPTY, classes="message")
        super().__init__(directory, _TITLE, "corpus", *rows, message, self._table)
        self.border_subtitle = "rows without a text are left out"

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        # Another question is typed over this one.
        event.input.action_select_all()
        self.search()

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self._project.question, self._project.nearest = self._typed("question"), self._typed("k")

    def on_choice_field_changed(self, event: ChoiceField.Changed) -> None:
        event.stop()
        if event.field is self._file:
            self._project.corpus = event.value
            self._columns.recall()
        self.close_process()
        self.query_one("#question").focus()

    def propose(self, data: Data) -> None:
        """Choose the file that a run was trained on, where none is chosen yet."""
        if not self._file.value and os.path.isfile(data.train):
            if data.columns:
                self._project.keep_roles(data.train, data.columns)
            self._project.corpus = data.train
            self._file.show(data.train)
            self._columns.recall()
            self.show_message(TO_ASK)

    def _typed(self, field: str) -> str:
        return self.query_one(f"#{field}", Input).value.strip()

    def search(self) -> None:
        """Ask for the nearest sentences, or for what is missing."""
        file, line, model = self._file.value, query_line(self._typed("question")), self._model()
        if file and line and model:
            count = max(1, int(self._typed("k") or _USUAL_COUNT))
            columns = ("--columns", self._columns.value) if self._columns.value else ()
            path = os.path.expanduser(file)
            words = ("--corpus", path, "-k", str(count), "--model", model, "--blank", "drop")
            written = os.path.getmtime(path) if os.path.exists(path) else 0.0
            self.ask_process(line, *words, *columns, written=written)
            return
        self.show_message(NO_MODEL if not model else TO_ASK if file else EMPTY)
        if not (file and line):
            (self.query_one("#question") if file else self._file).focus()
        self.call_after_refresh(self.scroll_visible, animate=False)

    def close_process(self) -> None:
        super().close_process()
        self.show_message(TO_ASK if self._file.value else EMPTY)

    def show_message(self, text: str) -> None:
        super().show_message(text)
        self._nearest, self.border_title = None, _TITLE
        self.query_one(".message").display = bool(text)
        self._table.display = not text

    def show_answer(self, line: str) -> None:
        nearest = msgspec.json.decode(line, type=Nearest)
        self.show_message("")
        self._nearest = nearest
        self.border_title = Content(f"Nearest to '{excerpt(nearest.query, _ASKED_WIDTH)}'")
        table = self._table
        table.clear(columns=True)
        table.add_columns("rank", " cosine", " angle", "   row")
        width = max(self.size.width - _NUMBERS_WIDTH, 10)
        table.add_column("sentence", width=width)
        for rank, near in enumerate(nearest.neighbours, 1):
            numbers = (f"{rank:>4}", f"{near.cosine:7.4f}", f"{near.angle_deg:5.1f}°", f"{near.row:>6,}")
            text = excerpt(near.text, _MOST_LINES * width)
            table.add_row(*map(Text, (*numbers, text)), height=None)  # no markup
        self.call_after_refresh(self._show_rows)

    def _show_rows(self) -> None:
        # It may have been laid out before it had counted its rows.
        self._table.refresh(layout=True)
        self.scroll_visible(animate=False)

    def clipboard_text(self) -> str:
        if self._nearest is None:
            return ""
        lines = (f"{n.cosine:.4f}\t{n.angle_deg:.1f}°\t{n.row}\t{n.text}" for n in self._nearest.neighbours)
        return "\n".join([self._nearest.query, *lines])
