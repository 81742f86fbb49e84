"""The model that a word names: a run, a folder, the starter or a name on the hub."""

import shutil
import sys
from pathlib import Path

import pytest

from contrastcli.errors import DataError
from contrastcli.model.locate import STARTER, ModelRef, resolve, revision, word_for
from contrastcli.runs.directory import Run, create, list_runs
from support.recorded import recorded
from support.tiny import Tiny

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def hub(hub_cache: Path, cwd: Path) -> Path:
    return hub_cache


def cache(hub: Path, repo: str, *files: str) -> Path:
    """A model in the hub's own layout: refs/main names the snapshot."""
    model = hub / f"models--{repo.replace('/', '--')}"
    snapshot = model / "snapshots" / COMMIT
    for file in files:
        (snapshot / file).parent.mkdir(parents=True, exist_ok=True)
        (snapshot / file).write_text("{}")
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text(COMMIT)
    return snapshot


@pytest.fixture
def two_runs(tmp_path: Path) -> Path:
    """A directory with the finished runs simple-a and simple-b, the second the newer, and no other."""
    for name in ("simple-a", "simple-b"):
        recorded(tmp_path / "runs", "finished", name)
    return tmp_path / "runs"


def test_without_a_word_the_newest_run_that_has_ended_is_meant(two_runs: Path) -> None:
    newer = {recorded(two_runs, kind) for kind in ("empty", "killed", "running")}
    assert {*list_runs(two_runs)[:3]} == newer and any(run.checkpoints() for run in newer)
    assert resolve(None, two_runs).name == str(two_runs / "simple-b")
    shutil.rmtree(two_runs / "simple-b")
    assert resolve(None, two_runs).name == str(two_runs / "simple-a")


def test_the_newest_run_is_meant_where_another_run_here_has_its_name(
    two_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shutil.copytree(two_runs, tmp_path / "here"))
    assert resolve(None, Path("../runs")).run == Run(Path("../runs/simple-b"))


def test_a_run_that_stopped_before_its_first_evaluation_is_meant_where_there_is_no_other(tmp_path: Path) -> None:
    early = recorded(tmp_path, "stopped", "b-early")
    early.checkpoints_path.write_text('{"last": "000350"}')
    assert resolve(None, tmp_path).run == early
    measured = recorded(tmp_path, "stopped", "a-measured")
    assert list_runs(tmp_path) == [early, measured], "the first is the newest"
    assert resolve(None, tmp_path).run == measured


def test_a_word_for_a_run_precedes_the_environment_which_precedes_the_newest_run(
    two_runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONTRAST_MODEL", "simple-a")
    assert resolve(None, two_runs).name == str(two_runs / "simple-a")
    run = Run(two_runs / "simple-b")
    for word in ("simple-b", "-b", "last", str(run.path), f"{run.path}/"):
        assert resolve(word, two_runs) == ModelRef(str(run.path), run)
    assert resolve("last", two_runs).folder() == run.checkpoint()


def test_a_word_that_means_no_run_is_left_for_folders_and_the_hub(two_runs: Path, tiny: Tiny) -> None:
    for word in ("starter", "owner/name", str(tiny.backbone)):
        assert resolve(word, two_runs) == ModelRef(word)


def test_the_name_of_a_backbone_is_no_part_of_the_name_of_a_run(tiny: Tiny, hub: Path, tmp_path: Path) -> None:
    """Runs are named after their backbone, which must not turn into the run that was trained from it."""
    folder = tmp_path / "runs"
    config = tiny.config(model__backbone="bert-base-uncased")
    create(config, folder, "2026-11-20-1432-simcse-bert-base-uncased-7f3a")
    assert resolve("bert-base-uncased", folder).run is None
    assert resolve("bert-base", folder).run == resolve("7f3a", folder).run == resolve("last", folder).run
    cache(hub, "bert-base", "config.json", "model.safetensors")
    assert resolve("bert-base", folder).run is None  # a model that is here
    Path("7f3a").write_text("")
    assert resolve("7f3a", folder).run is None  # a file, such as word vectors


@pytest.mark.parametrize(
    ("repo", "files"),
    [
        ("owner/name", ("config.json", "model.safetensors")),
        ("bert-base-uncased", ("config.json", "model.safetensors")),
        ("owner/static", ("modules.json", "0_StaticEmbedding/model.safetensors")),
    ],
)
def test_a_cached_model_has_its_commit(hub: Path, repo: str, files: tuple[str, ...]) -> None:
    snapshot = cache(hub, repo, *files)
    for name in (repo, f"{repo}@main", f"{repo}@{COMMIT}"):
        assert resolve(name).folder() == snapshot
    assert revision(resolve(repo).folder()) == COMMIT
    assert revision(hub) is None


def test_a_cache_with_part_of_a_model_is_not_taken_for_the_model(hub: Path) -> None:
    cache(hub, "owner/name", "config.json", "tokenizer.json")
    with pytest.raises(DataError, match="'owner/name' is neither a folder nor in the hub cache"):
        resolve("owner/name").folder()


@pytest.mark.parametrize("name", ["./x", "/nowhere/x", "~/x-that-is-not-there", "~nobody/x", "a/b/c", "", " "])
def test_a_path_that_does_not_exist_never_asks_the_hub(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)  # importing it would fail
    with pytest.raises(DataError, match="there is no folder"):
        resolve(name).folder()


def test_folders_come_before_the_hub(hub: Path, tmp_path: Path) -> None:
    (tmp_path / "owner" / "name").mkdir(parents=True)
    assert resolve("owner/name").folder() == Path("owner/name")
    assert resolve("owner/name").origin() == ""
    cache(hub, "owner/name", "config.json", "model.safetensors")
    here = f"the model owner/name is the folder {tmp_path / 'owner' / 'name'}, not the hub's model of that name"
    assert resolve("owner/name").origin() == here
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="is a file"):
        resolve("file").folder()


def test_scores_are_kept_for_the_files_of_a_model_as_they_are(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = ModelRef(shutil.copytree(tiny.backbone, str(tmp_path / "model")))
    before, weights = folder.scores_path(), Path(folder.name, "model.safetensors")
    Path(folder.name, "scores.json").write_text("{}")
    assert folder.scores_path() == before, "what eval --out DIR writes is no part of the model"
    weights.write_bytes(weights.read_bytes())
    paths = {before, folder.scores_path()}
    Path(folder.name, "vocab.txt").write_text("[PAD]\n")
    paths.add(folder.scores_path())
    with monkeypatch.context() as replacing:
        replacing.setattr(Path, "is_file", lambda path: True)
        Path(folder.name, "replaced.safetensors").symlink_to("gone")
        assert folder.scores_path() in paths
    for place in ("a", "b"):
        (tmp_path / place).mkdir()
        monkeypatch.chdir(tmp_path / place)
        Path("w.txt").write_text("a 1\n")
        paths.add(ModelRef("w.txt").scores_path())
    assert len(paths) == 5


def test_the_starter_is_embedded(trained: Run, cwd: Path) -> None:
    run = Run(Path(shutil.copytree(trained.path, cwd / "starter")))
    assert word_for(Run(Path("starter")), Path()) == "./starter"
    for word in ("./starter", None):
        assert resolve(resolve(word, Path()).name).folder().resolve() == run.checkpoint()
    assert resolve("starter").folder() == STARTER
    assert STARTER.parts[-3:] == ("contrastcli", "starter", "backbone")


def test_absence_says_whether_a_model_is_here_and_refuses_what_can_be_none(hub: Path, tiny: Tiny) -> None:
    (hub.parent / "empty").mkdir()
    assert ModelRef("starter").absence() == "" and ModelRef(str(tiny.backbone)).absence() == ""
    words = ModelRef("some/model").absence()
    assert "'some/model' is neither" in words and "cannot be reached" in words
    for name in ("no such/folder/at all", "./nothing"):
        with pytest.raises(DataError, match="there is no folder"):
            ModelRef(name).absence()
