"""Data sets and files of the hub, from one on this machine: no test asks the network."""

import io
from pathlib import Path

import datasets
import pytest

from contrastcli.data import hub
from contrastcli.data.sources import open_dev
from contrastcli.errors import DataError
from support.hub import Hub, Repo
from support.tables import load


@pytest.mark.parametrize(
    ("name", "repo", "parts"),
    [
        ("hf:owner/name", "owner/name", {}),
        ("hf:owner/na.me-1@v1.2", "owner/na.me-1", {"revision": "v1.2"}),
        ("hf:owner/name/a/b.csv", "owner/name", {"file": "a/b.csv"}),
        ("hf:owner/name@main/b.csv", "owner/name", {"revision": "main", "file": "b.csv"}),
        ("hf:o/n?config=pair-class&split=train[:5%25]", "o/n", {"config": "pair-class", "split": "train[:5%]"}),
        ("hf:o/n@refs/convert/parquet", "o/n", {"revision": "refs/convert/parquet"}),
        ("hf:o/n@refs/pr/3/b.csv", "o/n", {"revision": "refs/pr/3", "file": "b.csv"}),
        ("hf:o/n@r?split=dev", "o/n", {"revision": "r", "split": "dev"}),
    ],
)
def test_a_hub_name_has_parts(name: str, repo: str, parts: dict[str, str]) -> None:
    assert hub.parse(name) == hub.Reference(**{"name": repo, "revision": "", "title": name, **parts})


@pytest.fixture
def hub_set(served_hub: Hub) -> None:
    """A data set owner/name with class labels, in two splits, and with files of its own."""
    names = datasets.ClassLabel(names=["entailment", "neutral", "contradiction"])
    kinds = datasets.Features(premise=datasets.Value("string"), hypothesis=datasets.Value("string"), label=names)
    rows = {"premise": ["a", "b", "c"], "hypothesis": ["x", "y", "z"], "label": [2, 0, -1]}
    file = io.BytesIO()
    datasets.Dataset.from_dict(rows, features=kinds).to_parquet(file)
    splits = {f"data/{split}-00000-of-00001.parquet": file.getvalue() for split in ("train", "validation")}
    served_hub.datasets["owner/name"] = Repo(splits)
    texts = {"sub/a.csv": b"sent0,sent1,hard_neg\na,b,c\nd,e,f\n", "b.txt": b"one\n \ntwo\n"}
    served_hub.datasets["owner/files"] = Repo(texts)


@pytest.mark.usefixtures("hub_set")
def test_a_file_of_the_hub_is_read_by_our_own_readers() -> None:
    rows = load("hf:owner/files/sub/a.csv", "simcse")
    assert rows.views == {"anchor": ["a", "d"], "positive": ["b", "e"], "negative": ["c", "f"]}
    with pytest.raises(DataError, match=r"^hf:owner/files/b\.txt, line 2: the sentence"):
        load("hf:owner/files/b.txt", "simcse")


@pytest.mark.usefixtures("hub_set")
def test_a_data_set_of_the_hub_knows_the_names_of_its_labels_and_is_no_folder_here(cwd: Path) -> None:
    here = cwd / "owner" / "name"
    here.mkdir(parents=True)
    (here / "train.csv").write_text("premise,hypothesis,label\nlocal,file,entailment\nother,file,neutral\n")
    (here / "name.py").write_text("")
    rows = load("hf:owner/name", "supcon")
    assert rows.views == {"anchor": ["a", "b"], "positive": ["x", "y"]}
    assert rows.labels == [2, 0] and Path.cwd() == cwd
    assert "1 of 3 rows without a gold label were dropped" in rows.notes
    assert len(load("hf:owner/name?split=validation", "supcon", limit=2)) == 2


def test_an_unreachable_hub_is_an_error_with_what_helps_without_it(hub_cache: Path) -> None:
    with pytest.raises(DataError, match="hf:owner/name: the hub cannot be reached") as caught:
        load("hf:owner/name", "supcon")
    fetch = "hf download --repo-type dataset --local-dir DIR owner/name"
    assert caught.value.hint == f"give --data FILE, or fetch it where there is a network: {fetch}"
    (hub_cache / "datasets--owner--name").mkdir(parents=True)
    with pytest.raises(DataError) as caught:
        load("hf:owner/name", "supcon")
    assert "HF_HUB_OFFLINE=1" in caught.value.hint


def test_a_data_set_that_was_saved_to_a_folder_is_read_as_it_is(tmp_path: Path) -> None:
    labels = datasets.ClassLabel(names=["entailment", "contradiction"])
    kinds = datasets.Features(premise=datasets.Value("string"), hypothesis=datasets.Value("string"), label=labels)
    rows = {"premise": ["a", "b"], "hypothesis": ["c", "d"], "label": [0, 1]}
    saved = datasets.Dataset.from_dict(rows, features=kinds)
    saved.save_to_disk(str(tmp_path / "one"))
    assert load(str(tmp_path / "one"), "softmax").labels == [0, 2]
    lists = datasets.Dataset.from_dict({"query": ["a"], "pos": [["b", "c"]]})
    datasets.DatasetDict(train=saved, other=lists).save_to_disk(str(tmp_path / "two"))
    assert load(str(tmp_path / "two"), "softmax").views["anchor"] == ["a", "b"]
    assert load(str(tmp_path / "two" / "other"), "simcse").views == {"anchor": ["a", "a"], "positive": ["b", "c"]}
    with pytest.raises(DataError, match="has no split 'validation'") as caught:
        open_dev(str(tmp_path / "two"))
    assert caught.value.hint == f"name one that it has: {tmp_path}/two/train or {tmp_path}/two/other"
    next((tmp_path / "one").glob("*.arrow")).write_bytes(b"")
    with pytest.raises(DataError, match="one cannot be read as a saved data set"):
        load(str(tmp_path / "one"), "softmax")
