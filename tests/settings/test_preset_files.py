"""Files of presets: settings above a base, `[about]`, a grid; and errors for mistakes."""

from pathlib import Path

import pytest

from contrastcli.errors import UsageError
from contrastcli.settings import config as configs
from contrastcli.settings import presets
from contrastcli.settings.presets import Preset

pytestmark = pytest.mark.usefixtures("cwd")


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that takes the place of the presets' own."""
    monkeypatch.setattr(presets, "folder", lambda: tmp_path / "presets")
    (tmp_path / "presets" / "sweeps").mkdir(parents=True)
    return tmp_path / "presets"


def write(path: Path, toml: str) -> Path:
    path.write_text(toml, encoding="utf-8")
    return path


def read(toml: str) -> Preset:
    return presets.read(write(Path("mine.toml"), toml))


def complaint(toml: str) -> tuple[str, str]:
    """(what, hint) of the error of a file that says this."""
    with pytest.raises(UsageError) as raised:
        configs.resolve(read(toml).layers)
    return raised.value.what, raised.value.hint


def test_a_file_states_what_differs_from_its_base() -> None:
    base, mine = presets.find("simace-bert-base"), read('base = "simace-bert-base"\n[train]\nlr = 1e-4\n')
    assert mine.values == base.values | {"train.lr": 1e-4}
    assert mine.config.sources["train.lr"] == "mine.toml"
    assert mine.config.sources["train.clip"] == "preset simace-bert-base"
    assert mine.config.sources["train.device"] == "default"


def test_another_objective_takes_none_of_the_bases_objective_settings() -> None:
    mine = read('base = "supcon-medium"\n[objective]\nname = "augment"\n')
    assert [key for key in mine.values if key.startswith("objective.")] == ["objective.name"]
    assert mine.config.notes == ()


def test_what_a_file_says_of_itself_stands_over_its_base_topic_by_topic(shipped: Path) -> None:
    about = '[about]\nwhat = "W"\npaper = "P"\ntexts = 3\nsettled.seed = "S"\nsettled.rate = "R"\n'
    write(shipped / "root.toml", about)
    write(shipped / "leaf.toml", 'base = "root"\n[about]\nwhat = "V"\ntexts = 2\nsettled.rate = "Q"\n')
    leaf = presets.find("leaf").about
    assert (leaf.what, leaf.paper, leaf.texts) == ("V", "P", 2)
    assert leaf.settled == {"seed": "S", "rate": "Q"}


def test_a_base_has_no_base_itself() -> None:
    bases = {path.stem: configs.read_toml(path).get("base", "") for path in presets.folder().glob("*.toml")}
    based = {name: base for name, base in bases.items() if base}
    assert based and all(bases[base] == "" for base in based.values())


def test_a_grid_and_a_file_may_stand_on_any_preset_of_a_run(shipped: Path) -> None:
    write(shipped / "a.toml", "[train]\nlr = 1e-4\n")
    write(shipped / "b.toml", 'base = "a"\n[train]\nseed = 7\n')
    write(shipped / "sweeps" / "g.toml", 'base = "b"\n[grid]\n"objective.tau" = [0.05, 0.1]\n')
    for preset in (presets.find("g"), read('base = "b"\n')):
        assert (preset.config.train.lr, preset.config.train.seed) == (1e-4, 7)
    assert complaint('base = "g"\n')[0] == "mine.toml: there is no preset 'g' to base it on"


@pytest.mark.parametrize("grid", ["[grid]\nobjective.tau = [0.05, 0.1]", "[grid.objective]\ntau = [0.05, 0.1]"])
def test_a_grid_needs_no_quotes(grid: str) -> None:
    assert read(grid).grid == {"objective.tau": (0.05, 0.1)}


@pytest.mark.parametrize(
    ("toml", "what", "hint"),
    [
        ('[about]\nwaht = "x"', "there is no setting 'about.waht' (mine.toml)", "did you mean 'about.what'?"),
        ("[about]\nwhat = 3", "mine.toml: Expected `str`, got `int` - at `$.what`", "see contrast presets show"),
        ("about = 3", "mine.toml: Expected `object`, got `int` - at `$.about`", "see contrast presets show"),
        ("[about]\nsettled = 3", "mine.toml: Expected `object`, got `int` - at `$.settled`", "see contrast presets"),
        ("seeds = 0", "mine.toml: Expected `int` >= 1 - at `$.seeds`", "see contrast presets show"),
        (
            '[grid]\n"train.lr" = 3',
            "mine.toml: Expected `array`, got `int` - at `$.grid[...]`",
            "see contrast presets show arccon-grid",
        ),
        (
            '[grid]\n"train.lr" = []',
            "mine.toml: [grid] has no values for train.lr",
            'write "train.lr" = [VALUE, VALUE]',
        ),
        ("grid = 3", "mine.toml: Expected `object`, got `int` - at `$.grid`", "see contrast presets show arccon-grid"),
        (
            "[grid]\ntaus = [0.05, 0.1]",
            "there is no setting 'taus' (mine.toml, [grid])",
            "did you mean 'objective.tau'?",
        ),
        ('base = "simace-bert-bass"', "there is no preset 'simace-bert-bass' to base", "did you mean 'simace-bert-b"),
        ('base = "sweeps/simace-grid"', "no preset 'sweeps/simace-grid' to base", "contrast presets lists them"),
        (f'base = "{300 * "a"}"', "mine.toml: there is no preset 'aaa", "contrast presets lists them"),
        ("speed = 3", "mine.toml: 'speed' not in a section", "sections: [objective]"),
        (
            "lr = 1\nepochs = 2\nwarmup_steps = 3",
            "mine.toml: 'lr', 'epochs', 'warmup_steps' not in a section",
            "write train.lr = …, train.epochs = …, train.warmup = …",
        ),
        ("[train]\nlearning = 3", "there is no setting 'train.learning' (mine.toml)", "did you mean 'train.lr'?"),
    ],
)
def test_a_mistake_in_a_file_is_named(toml: str, what: str, hint: str) -> None:
    error = complaint(toml)
    assert what in error[0] and error[1].startswith(hint)
