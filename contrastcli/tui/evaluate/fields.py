"""Fields of Evaluate: the suites, and data of one's own."""

from pathlib import Path
from typing import ClassVar

from textual.binding import BindingType
from textual.containers import Vertical
from textual.widgets import Checkbox

from contrastcli.evaluation.suites import OWN
from contrastcli.tui.fields.choice_field import ChoiceField
from contrastcli.tui.fields.columns import ColumnsField
from contrastcli.tui.fields.completion import complete_path, data_files
from contrastcli.tui.state import Project
from contrastcli.tui.widgets import FormRow, hidden_key


class SuiteBox(Checkbox):
    """A checkbox whose state is seen without colour too; arrow keys go from one to the next."""

    BINDINGS: ClassVar[list[BindingType]] = [
        hidden_key("down", "step(1)", "next suite", "to the next suite"),
        hidden_key("up", "step(-1)", "previous suite", "to the previous suite"),
    ]

    @property
    def BUTTON_INNER(self) -> str:  # type: ignore[override]
        return "X" if self.value else " "

    def action_step(self, by: int) -> None:
        (self.screen.focus_next if by > 0 else self.screen.focus_previous)(SuiteBox)


class OwnData(Vertical):
    """The file that the suite own measures, and what its columns hold."""

    def __init__(self, directory: Path, project: Project) -> None:
        what, blank = "A file of pairs, scored or not, or of triplets", "none chosen"
        file = ChoiceField(what, data_files, project.own_data, blank=blank, complete=complete_path, id="own_data")
        self.columns = ColumnsField(directory, project, lambda: project.own_data)
        super().__init__(FormRow("Own data", file), FormRow("Columns", self.columns))
        self.display = OWN.name in project.suites
