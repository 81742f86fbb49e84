"""What every event has."""

from collections.abc import Mapping
from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from contrastcli.boundary import printable

# What charts and the system can take. A line with other values is no event.
Count = Annotated[int, Meta(ge=0, lt=1 << 53)]
Positive = Annotated[int, Meta(ge=1, lt=1 << 53)]
Number = Annotated[float, Meta(ge=-3.4e38, le=3.4e38)]
Time = Annotated[float, Meta(ge=0, lt=1e11)]
Pid = Annotated[int, Meta(ge=1, lt=1 << 31)]


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag=str.lower, omit_defaults=True):
    """Every event has a step and a time (seconds since the epoch)."""

    step: Count
    time: Time = 0.0

    routine: ClassVar[bool] = False
    """Whether it is so frequent that a console need not show each one."""
    titles: ClassVar[Mapping[str, str]] = {}
    """Titles of charts, by the numbers that may be charted alone."""

    @classmethod
    def kind(cls) -> str:
        """Its name in `events.jsonl`, and that of the table of its numbers."""
        return str(cls.__struct_config__.tag)

    @property
    def label(self) -> str:
        """The first word of its line."""
        return self.kind()

    def numbers(self) -> Mapping[str, float | None]:
        """Numbers to chart over the steps, by name, in the unit that is shown."""
        return {}

    def details(self, steps: int) -> str:
        """Its line without the label, or nothing; `steps` is the number of steps of the run."""
        return ""

    def line(self, steps: int = 0) -> str:
        """One line of text, or nothing."""
        details = self.details(steps)
        return printable(f"{self.label:<9} {details}").rstrip() if details else ""
