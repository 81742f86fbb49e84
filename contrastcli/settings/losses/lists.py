"""PCL and RankCSE: InfoNCE, and the lists of similarities of other encoders."""

from typing import Annotated, Literal

from contrastcli.settings.losses.infonce import Contrast
from contrastcli.settings.objective import AuxiliarySpec
from contrastcli.settings.setting import about, about_data

Distillation = Literal["listnet", "listmle"]


class PCL(Contrast, frozen=True, kw_only=True):
    """Two peer encoders over many views of a sentence (SimACE Eq. 12)."""

    def auxiliaries(self) -> tuple[AuxiliarySpec, ...]:
        kinds = ("shuffle", "reverse", "delete", "repeat") * 2
        return (
            AuxiliarySpec("contrastcli.training.auxiliaries.views:PerturbedViews", {"kinds": kinds}, views=len(kinds)),
            AuxiliarySpec("contrastcli.training.auxiliaries.views:Peer", encoders=1),
        )


class RankCSE(Contrast, frozen=True, kw_only=True):
    """InfoNCE with consistent rankings and a teacher's ranking (SimACE Eq. 13 and 14)."""

    beta: Annotated[float, about("weight of consistency", "β", ge=0, le=1000, essential=True)] = 1.0
    gamma: Annotated[float, about("weight of distillation; 0: no teacher", "γ", ge=0, le=1000)] = 1.0
    distillation: Annotated[Distillation, about("what is learnt of a teacher's list: its order or its softmax")] = (
        "listmle"
    )
    teachers: Annotated[
        str,
        about_data(
            "models to learn from, each FOLDER|RUN|NAME[:POOLING][=WEIGHT], with commas between", names_model="several"
        ),
    ] = ""
    teacher_tau: Annotated[float, about("temperature of a teacher's list", "τ2", gt=0, le=1000)] = 0.05

    def inactive(self) -> dict[str, str]:
        off: dict[str, str] = {}
        if not self.gamma:
            off = dict.fromkeys(("distillation", "teachers", "teacher_tau"), "no effect while gamma is 0")
        elif self.distillation == "listmle":
            off = {"teacher_tau": "no effect while distillation is listmle"}
        return super().inactive() | off

    def auxiliaries(self) -> tuple[AuxiliarySpec, ...]:
        teachers = AuxiliarySpec("contrastcli.training.auxiliaries.teachers:Teachers", {"teachers": self.teachers})
        return (teachers,) if self.gamma else ()
