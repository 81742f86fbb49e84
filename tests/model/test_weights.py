"""Models published without safetensors: their pickled tensors are read, and nothing else that a pickle may hold."""

import json
import os
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from contrastcli.errors import DataError
from contrastcli.model.folder import load_encoder
from contrastcli.model.locate import resolve
from contrastcli.model.weights import count_parameters, read_weights
from contrastcli.runs.events import Note
from support.hub import Hub, Repo, files_of
from support.tiny import Tiny, told, train

TEXTS = ["ba den", "go", "lum ka"]


@pytest.fixture
def folder(tiny: Tiny, tmp_path: Path) -> Path:
    """The tiny backbone as it would have been published years ago."""
    copy = Path(shutil.copytree(tiny.backbone, tmp_path / "old"))
    unpickled = load_file(copy / "model.safetensors")
    unpickled["cls.predictions.decoder.weight"] = unpickled["embeddings.word_embeddings.weight"]  # tied
    torch.save(unpickled, copy / "pytorch_model.bin")
    (copy / "model.safetensors").unlink()
    return copy


def test_pickled_tensors_make_the_same_model_also_in_the_old_format_of_torch(tiny: Tiny, folder: Path) -> None:
    expected = load_encoder(tiny.backbone).encode(TEXTS)
    assert np.array_equal(load_encoder(folder).encode(TEXTS), expected)
    tied = read_weights(folder)["embeddings.word_embeddings.weight"].numel()
    assert count_parameters(folder) == count_parameters(tiny.backbone) + tied  # counted twice
    torch.save(
        load_file(tiny.backbone / "model.safetensors"),
        folder / "pytorch_model.bin",
        _use_new_zipfile_serialization=False,
    )
    assert np.array_equal(load_encoder(folder).encode(TEXTS), expected)


def test_safetensors_in_several_files_make_the_same_model(tiny: Tiny, folder: Path) -> None:
    tensors = load_file(tiny.backbone / "model.safetensors")
    index = {name: f"model-0000{number % 2 + 1}-of-00002.safetensors" for number, name in enumerate(tensors)}
    for file in set(index.values()):
        save_file({name: tensors[name] for name in tensors if index[name] == file}, folder / file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    assert np.array_equal(load_encoder(folder).encode(TEXTS), load_encoder(tiny.backbone).encode(TEXTS))
    assert count_parameters(folder) == count_parameters(tiny.backbone)
    (folder / file).unlink()
    with pytest.raises(DataError, match=f"there is no file .*{file}"):
        load_encoder(folder)


@pytest.mark.slow
def test_another_family_is_read_through_transformers(folder: Path) -> None:
    from transformers import AutoModel, CamembertConfig

    sizes: dict[str, Any] = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 16}
    config = CamembertConfig(vocab_size=65, num_hidden_layers=1, max_position_embeddings=40, **sizes)
    auto: Any = AutoModel
    model = auto.from_config(config)
    config.save_pretrained(folder)
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    assert load_encoder(folder, "mean").encode(TEXTS).shape == (3, 16)


class Command:
    """What an attacker would put into a file."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch attacked",)


@pytest.mark.parametrize("content", ["code", "more than tensors", "a list", "names that are no text", "a plain pickle"])
def test_whatever_is_not_tensors_alone_is_refused_and_not_run(
    folder: Path, content: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    file, tensor = folder / "pytorch_model.bin", torch.ones(2)
    values: dict[str, object] = {
        "code": {"a": tensor, "b": Command()},
        "more than tensors": {"model": {"a": tensor}, "step": 3},
        "a list": [tensor],
        "names that are no text": {1: tensor},
    }
    if content in values:
        torch.save(values[content], file)
    else:
        file.write_bytes(pickle.dumps({"a": Command()}))
    with pytest.raises(DataError, match="does not hold tensors alone") as caught:
        load_encoder(folder)
    assert "safetensors" in caught.value.hint
    assert not (folder / "attacked").exists()


def test_a_truncated_file_and_one_in_parts_are_named(folder: Path) -> None:
    file = folder / "pytorch_model.bin"
    content = file.read_bytes()
    file.write_bytes(content[:-100])
    with pytest.raises(DataError, match=r"pytorch_model\.bin is truncated or corrupt"):
        load_encoder(folder)
    file.rename(folder / "pytorch_model-00001-of-00002.bin")
    with pytest.raises(DataError, match="pickled weights in several files"):
        load_encoder(folder)


def test_a_model_without_safetensors_is_downloaded_with_its_pickle_and_a_note_says_so(
    tiny: Tiny, folder: Path, served_hub: Hub, place: Path
) -> None:
    served_hub.models["owner/pickled"] = Repo(files_of(folder))
    served_hub.models["owner/both"] = Repo({**files_of(folder), "model.safetensors": b"tensors"})
    assert not (resolve("owner/both").folder() / "pytorch_model.bin").exists()
    assert (resolve("owner/pickled").folder() / "pytorch_model.bin").is_file()
    served_hub.models.clear()
    assert resolve("owner/pickled").absence() == "", "the cache has it"
    run = tiny.run(place, "simcse", "pairs", model__backbone="owner/pickled", train__max_steps=1)
    train(run)
    notes = [event.text for event in told(run, Note)]
    assert "the weights of owner/pickled are read from its pytorch_model.bin, as tensors only" in notes[0]


def test_of_an_adapter_of_other_software_its_base_is_named(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text('{"base_model_name_or_path": "intfloat/e5-base"}')
    with pytest.raises(DataError, match="is an adapter that other software has trained") as caught:
        load_encoder(tmp_path)
    assert "merge it into intfloat/e5-base: merge_and_unload" in caught.value.hint
