"""SBERT's classification objective, the label of a pair from [u, v, |u − v|].

Reimers and Gurevych, 2019, https://arxiv.org/abs/1908.10084, Section 3.
"""

from torch import nn

from contrastcli.objectives.functional import Result, Views, fresh_linear, pair_features, to_device
from contrastcli.objectives.rows import Rows
from contrastcli.settings.objective import ObjectiveSettings


def heads(width: int) -> nn.ModuleDict:
    """The classifier of three labels, one linear layer."""
    return nn.ModuleDict({"classifier": fresh_linear(3 * width, 3, bias=True)})


def softmax(views: Views, rows: Rows, heads: nn.ModuleDict, settings: ObjectiveSettings) -> Result:
    """CE(f([u, v, |u − v|]), label), mean over the rows.

    Views: anchor (premise) and positive (hypothesis), (N, d), with labels of three classes. Parts: classification.
    """
    logits = heads["classifier"](pair_features(views["anchor"], views["positive"]))  # (N, 3)
    loss = nn.functional.cross_entropy(logits, to_device(rows.labels(), logits.device))
    return loss, {"classification": loss}
