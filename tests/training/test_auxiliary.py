"""What an objective declares next to the encoder is made from its settings, by name."""

import pytest

from contrastcli.errors import UsageError
from contrastcli.settings.losses import SimCSE
from contrastcli.settings.objective import AuxiliarySpec, ObjectiveSettings
from contrastcli.training.auxiliaries.auxiliary import make_auxiliaries
from contrastcli.training.auxiliaries.mlm import MaskedTokens


class Elsewhere(ObjectiveSettings, frozen=True, kw_only=True):
    """Declares what does not exist."""

    def auxiliaries(self) -> tuple[AuxiliarySpec, ...]:
        return (AuxiliarySpec("contrastcli.training.auxiliaries.views:NoSuchViews"),)


def test_they_are_made_with_their_settings_and_one_that_cannot_be_imported_is_named() -> None:
    (mlm,) = make_auxiliaries(SimCSE(mlm_weight=0.25, mlm_probability=0.5))
    assert isinstance(mlm, MaskedTokens) and (mlm.weight, mlm.probability) == (0.25, 0.5)
    with pytest.raises(UsageError, match="NoSuchViews cannot be imported"):
        make_auxiliaries(Elsewhere())
