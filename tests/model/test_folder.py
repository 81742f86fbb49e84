"""Model folders: pooling, head and normalisation as the folder defines them, and errors for bad folders."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import tokenizers
import torch
import transformers
from safetensors.torch import save_file
from torch import nn

from contrastcli.data.tokens import TokenTable
from contrastcli.errors import DataError
from contrastcli.model.encoder import SentenceEncoder, padded
from contrastcli.model.folder import load_encoder, load_model, save_encoder
from contrastcli.model.locate import resolve
from contrastcli.model.pooling import Normalize
from contrastcli.model.static import distil
from contrastcli.runs import checksums
from contrastcli.runs.directory import Run
from contrastcli.settings.sections import Pooling
from support.contracts import by_hand, dense, under
from support.rounding import assert_near
from support.tiny import Tiny, write_backbone

TEXTS = ["ba den fir", "go", "lum ka ten sir do bum fa gen", "ba " * 100, "Ba unknown", ""]
POOLINGS = [pooling for pooling in get_args(Pooling) if pooling != "pooler"]  # which is CLS and a dense layer
Change = Callable[[Path], object]


def full(tiny: Tiny, pooling: Pooling = "mean", activation: nn.Module | None = None) -> SentenceEncoder:
    """An encoder with all that a folder can say."""
    encoder = load_encoder(tiny.backbone, pooling)
    encoder.max_length = 12
    return under(encoder, dense(encoder, 7, activation), Normalize(), prompt="go ")


@pytest.fixture
def folder(tiny: Tiny, tmp_path: Path) -> Path:
    """A saved model with mean pooling, a dense layer, unit length and a prompt."""
    save_encoder(full(tiny), tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.filterwarnings("ignore")  # of the other library
@pytest.mark.parametrize(
    ("pooling", "activation"),
    [*((pooling, nn.Tanh()) for pooling in POOLINGS), ("mean", nn.Identity()), ("mean", nn.GELU())],
)
def test_a_model_pools_as_its_name_says_and_comes_back_the_same_also_in_sentence_transformers(
    tiny: Tiny, tmp_path: Path, pooling: Pooling, activation: nn.Module
) -> None:
    encoder = full(tiny, pooling, activation)
    vectors = encoder.encode(TEXTS)
    assert_near(vectors, [by_hand(encoder, text) for text in TEXTS])
    assert vectors.dtype == np.float32 and encoder.encode([]).shape == (0, 7)
    save_encoder(encoder, tmp_path / "one")
    again = load_encoder(tmp_path / "one")
    save_encoder(again, tmp_path / "two")
    for loaded in (again, load_encoder(tmp_path / "two")):
        assert (str(loaded.contract), loaded.max_length) == (str(encoder.contract), 12)
        assert np.array_equal(loaded.encode(TEXTS), vectors)
    library = pytest.importorskip("sentence_transformers")
    assert_near(library.SentenceTransformer(str(tmp_path / "two"), device="cpu").encode(TEXTS), vectors)


def test_the_pooler_is_that_of_transformers_and_is_kept_in_the_folder(tiny: Tiny, tmp_path: Path) -> None:
    torch.manual_seed(2)
    theirs: Any = transformers.BertModel(transformers.BertConfig.from_pretrained(tiny.backbone))
    theirs.eval()
    folder = Path(shutil.copytree(tiny.backbone, tmp_path / "published"))
    theirs.save_pretrained(folder)
    encoder = load_encoder(folder, "pooler")
    ids = [torch.tensor([encoder.tokenizer.encode([text], encoder.max_length)[0]]) for text in TEXTS]
    with torch.no_grad():
        expected = torch.cat([theirs(input_ids=one).pooler_output for one in ids])
    assert_near(encoder.encode(TEXTS), expected)
    save_encoder(encoder, tmp_path / "saved")
    assert np.array_equal(load_encoder(tmp_path / "saved").encode(TEXTS), encoder.encode(TEXTS))
    with pytest.raises(DataError, match="no weights of a pooler"):
        load_encoder(tmp_path / "saved", "pooler")


def edit(path: str, change: Callable[[Any], object]) -> Change:
    """A change of a JSON file; what `change` returns, if anything, is the new value."""

    def apply(folder: Path) -> None:
        value = json.loads((folder / path).read_text()) if (folder / path).is_file() else {}
        replaced = change(value)
        (folder / path).write_text(json.dumps(value if replaced is None else replaced))

    return apply


def settings(path: str, **values: object) -> Change:
    return edit(path, lambda content: content.update(values))


def chain(*kinds: str) -> Change:
    """The modules replaced by those kinds, which lie where they are."""
    named = {"Transformer": "", "Pooling": "1_Pooling", "Dense": "2_Dense", "Normalize": "3_Normalize"}
    modules = [
        {"idx": i, "name": str(i), "path": named.get(kind, "9_Other"), "type": f"sentence_transformers.models.{kind}"}
        for i, kind in enumerate(kinds)
    ]
    return edit("modules.json", lambda _: modules)


def foreign_type(folder: Path) -> None:
    text = (folder / "modules.json").read_text()
    (folder / "modules.json").write_text(text.replace("sentence_transformers.models.Transformer", "custom.Transformer"))


def layers(folder: Path, pooling: Pooling, change: Change) -> None:
    """The folder saved again with another pooling, then changed."""
    encoder = load_encoder(folder, pooling)
    shutil.rmtree(folder)
    save_encoder(encoder, folder)
    change(folder)


def other_layers(folder: Path) -> None:
    layers(folder, "last-mean", lambda f: save_file({"layer_weights": torch.ones(3)}, f / LAYERS / "model.safetensors"))


LAYERS = "1_WeightedLayerPooling"
WORD = "1_WordWeights/config.json"
POOL = "1_Pooling/config.json"
DENSE = "2_Dense/config.json"

FOREIGN: dict[str, tuple[Change, str]] = {
    "module": (chain("Transformer", "Pooling", "Router"), "Router"),
    "module of somebody else": (foreign_type, "custom.Transformer"),
    "no pooling": (chain("Transformer"), "chain"),
    "nothing at all": (chain(), "chain"),
    "dense before pooling": (chain("Transformer", "Dense", "Pooling"), "chain"),
    "pooling after a static model": (chain("StaticEmbedding", "Pooling"), "chain"),
    "pooling of a static model's vectors": (chain("Transformer", "StaticEmbedding", "Pooling"), "chain"),
    "max pooling": (settings(POOL, pooling_mode_mean_tokens=False, pooling_mode_max_tokens=True), "max"),
    "two poolings": (settings(POOL, pooling_mode_cls_token=True), "cls and mean"),
    "pooling of a later version": (settings(POOL, pooling_mode="weightedmean"), "weightedmean"),
    "prompt not pooled": (settings(POOL, pooling_mode="cls", include_prompt=False), "prompt"),
    "residual": (settings(DENSE, use_residual=True), "residual"),
    "activation of somebody else": (settings(DENSE, activation_function="theirs.Tanh"), "theirs.Tanh"),
    "unknown activation": (settings(DENSE, activation_function="torch.nn.modules.activation.Foo"), "Foo"),
    "dense on tokens": (settings(DENSE, module_input_name="token_embeddings"), "embedding"),
    "layers": (other_layers, "layers"),
    "start of layers": (lambda f: layers(f, "first-last", settings(f"{LAYERS}/config.json", layer_start=1)), "layers"),
    "weights of words": (lambda f: layers(f, "mean-no-cls", settings(WORD, word_weights={"ba": 0})), "words"),
}


@pytest.mark.parametrize("case", FOREIGN)
def test_what_would_be_computed_otherwise_is_refused(folder: Path, case: str) -> None:
    change, word = FOREIGN[case]
    change(folder)
    with pytest.raises(DataError) as error:
        load_encoder(folder)
    assert word in error.value.what and "sentence-transformers" in error.value.hint, error.value.what


def remove(path: str) -> Change:
    return lambda folder: (folder / path).unlink()


def truncate(path: str) -> Change:
    return lambda folder: (folder / path).write_bytes((folder / path).read_bytes()[:-9])


def pickled(folder: Path) -> None:
    (folder / "2_Dense" / "model.safetensors").rename(folder / "2_Dense" / "pytorch_model.bin")


def narrow_dense(folder: Path) -> None:
    save_file({"linear.weight": torch.ones(2, 2), "linear.bias": torch.ones(2)}, folder / "2_Dense/model.safetensors")


def template(**values: object) -> Change:
    """The first token that the tokenizer adds to each text, with other values."""
    return edit("tokenizer.json", lambda content: content["post_processor"]["special_tokens"]["[CLS]"].update(values))


def graph(file: str) -> Change:
    return lambda folder: (folder / "model.safetensors").rename(folder / file)


def pointer(folder: Path) -> None:
    text = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 90868376\n"
    (folder / "model.safetensors").write_text(text)


BOMB = {
    "type": "Sequence",
    "normalizers": [{"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 20} for _ in range(8)],
}
BROKEN: dict[str, tuple[Change, str]] = {
    "config missing": (remove("config.json"), "has no config.json"),
    "config truncated": (truncate("config.json"), "config.json"),
    "config no object": (edit("config.json", lambda _: []), "config.json"),
    "config empty": (edit("config.json", lambda _: {}), "config.json"),
    "weights missing": (remove("model.safetensors"), "has no model.safetensors"),
    "a graph of ONNX": (graph("model.onnx"), "is an ONNX export, which onnxruntime reads"),
    "a graph of OpenVINO": (graph("openvino_model.xml"), "is an OpenVINO export, which openvino reads"),
    "weights truncated": (truncate("model.safetensors"), "model.safetensors is truncated or corrupt"),
    "weights of Git LFS": (pointer, "model.safetensors holds the name of a file of Git LFS"),
    "tokenizer truncated": (truncate("tokenizer.json"), "tokenizer.json"),
    "tokenizer's settings truncated": (truncate("tokenizer_config.json"), "tokenizer_config.json"),
    "modules truncated": (truncate("modules.json"), "modules.json"),
    "modules no list": (edit("modules.json", lambda _: {"a": 1}), "modules"),
    "module without a type": (edit("modules.json", lambda _: [{"path": ""}]), "modules"),
    "limit no number": (settings("sentence_bert_config.json", max_seq_length="long"), "modules"),
    "pooling missing": (remove(POOL), "1_Pooling"),
    "pooling by nothing": (settings(POOL, pooling_mode_mean_tokens=False), "1_Pooling has no pooling"),
    "pooling truncated": (truncate(POOL), "1_Pooling/config.json"),
    "dense settings missing": (remove(DENSE), "2_Dense"),
    "dense weights missing": (remove("2_Dense/model.safetensors"), "2_Dense has no model.safetensors"),
    "dense weights truncated": (truncate("2_Dense/model.safetensors"), "2_Dense/model.safetensors"),
    "dense weights under another name": (pickled, "does not hold tensors alone"),
    "dense weights of another size": (narrow_dense, "takes 2 numbers, and gets 32"),
    "template with an id beyond the vocabulary": (template(ids=[99_999]), "99999"),
    "template longer than any text": (template(ids=[2] * 100, tokens=["a"] * 100), "at most 12 tokens"),
    "texts of special tokens alone": (settings("sentence_bert_config.json", max_seq_length=2), "at most 2 tokens"),
    "normalizer that fills the memory": (settings("tokenizer.json", normalizer=BOMB), "times longer"),
    "prompt missing": (settings("config_sentence_transformers.json", prompts={}), "modules"),
}


@pytest.mark.filterwarnings("ignore")  # of transformers, which is asked to convert what is no tokenizer
@pytest.mark.parametrize("case", BROKEN)
def test_what_is_missing_or_broken_is_named(folder: Path, case: str) -> None:
    change, word = BROKEN[case]
    change(folder)
    with pytest.raises(DataError) as error:
        load_encoder(folder)
    assert word in error.value.what and "\n" not in error.value.what + error.value.hint, error.value.what


def test_names_that_version_6_of_sentence_transformers_writes_are_known(folder: Path) -> None:
    before = load_encoder(folder).encode(TEXTS)
    text = (folder / "modules.json").read_text()
    for kind, home in {"Transformer": "base", "Dense": "base", "Pooling": "sentence_transformer"}.items():
        old = f"sentence_transformers.models.{kind}"
        text = text.replace(old, f"sentence_transformers.{home}.modules.{kind.lower()}.{kind}")
    (folder / "modules.json").write_text(text)
    edit(POOL, lambda _: {"embedding_dimension": 32, "pooling_mode": "mean", "include_prompt": True})(folder)
    edit("sentence_bert_config.json", lambda _: {"transformer_task": "feature-extraction"})(folder)
    settings("tokenizer_config.json", model_max_length=12)(folder)  # where that version keeps the limit
    assert np.array_equal(load_encoder(folder).encode(TEXTS), before)


def test_a_model_that_lowers_its_texts_reads_them_so_and_is_saved_so(folder: Path, tmp_path: Path) -> None:
    file = folder / "tokenizer.json"
    tokenizer = json.loads(file.read_text())
    assert tokenizer["normalizer"] == {"type": "Lowercase"}
    file.write_text(json.dumps(tokenizer | {"normalizer": None}))
    loud, quiet = ["BA Den"], ["ba den"]
    encoder = load_encoder(folder)
    assert not np.array_equal(encoder.encode(loud), encoder.encode(quiet))
    settings("sentence_bert_config.json", do_lower_case=True)(folder)
    settings("tokenizer_config.json", tokenizer_class="BertTokenizer", do_lower_case=False)(folder)
    encoder = load_encoder(folder)
    save_encoder(encoder, tmp_path / "again")
    for reader in (encoder, load_encoder(tmp_path / "again")):
        assert np.array_equal(reader.encode(loud), reader.encode(quiet))
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "again")
    assert theirs(loud).input_ids == theirs(quiet).input_ids == encoder.tokenizer.encode(quiet, 12)


def test_other_libraries_cut_and_pad_as_the_model_does(folder: Path, tmp_path: Path) -> None:
    """Published tokenizers often have the limits of the model that they were made for."""
    old = {"direction": "Right", "max_length": 5, "strategy": "LongestFirst", "stride": 0}
    settings("tokenizer.json", truncation=old, padding=None)(folder)
    settings("tokenizer_config.json", model_max_length=5)(folder)
    settings("sentence_bert_config.json", max_seq_length=9)(folder)
    encoder = load_encoder(folder).eval()
    save_encoder(encoder, tmp_path / "again")
    read = tokenizers.Tokenizer.from_file(str(tmp_path / "again" / "tokenizer.json")).encode_batch(TEXTS)
    table = TokenTable.of(encoder.tokenizer.encode(TEXTS, 9))
    ids, mask = padded(encoder, table, np.arange(len(TEXTS)))
    assert [one.ids for one in read] == ids.tolist() and [one.attention_mask for one in read] == mask.int().tolist()
    assert transformers.AutoTokenizer.from_pretrained(str(tmp_path / "again")).model_max_length == 9
    assert np.array_equal(load_encoder(tmp_path / "again").encode(TEXTS), encoder.encode(TEXTS))


@pytest.mark.parametrize("with_pooler", [True, False])
@pytest.mark.parametrize("kind", ["Bert", "Roberta", "DistilBert", "MPNet", "ModernBert"])
def test_other_libraries_find_all_weights_in_a_saved_folder(
    tiny: Tiny, tmp_path: Path, kind: str, with_pooler: bool
) -> None:
    torch.manual_seed(2)
    sizes = json.loads((tiny.backbone / "config.json").read_text())
    names = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
    changes = {"dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 64} if kind == "DistilBert" else {}
    changes |= {"pad_token_id": 0} if kind == "ModernBert" else {}
    config = getattr(transformers, f"{kind}Config")(**{name: sizes[name] for name in names if name in sizes} | changes)
    options = {} if with_pooler or kind in ("DistilBert", "ModernBert") else {"add_pooling_layer": False}
    theirs = getattr(transformers, f"{kind}Model")(config, **options)
    folder = Path(shutil.copytree(tiny.backbone, tmp_path / "published"))
    theirs.save_pretrained(folder)
    save_encoder(load_encoder(folder), tmp_path / "saved")
    how = json.loads((tmp_path / "saved" / "sentence_bert_config.json").read_text()).get("model_args", {})
    assert how == options
    again, report = transformers.AutoModel.from_pretrained(tmp_path / "saved", output_loading_info=True, **how)
    assert not report["missing_keys"] and not report["unexpected_keys"]
    assert all(torch.equal(tensor, again.state_dict()[name]) for name, tensor in theirs.state_dict().items())


def test_the_longest_text_of_a_bare_backbone_is_its_tokenizers_and_never_beyond_its_own(
    tiny: Tiny, tmp_path: Path
) -> None:
    bare = Path(shutil.copytree(tiny.backbone, tmp_path / "bare"))
    for length, expected in ((20, 20), (512, 32), (10**30, 32), (-1, 32)):
        (bare / "tokenizer_config.json").write_text(json.dumps({"model_max_length": length}))
        assert load_encoder(bare).max_length == expected


def test_leaving_out_cls_needs_a_tokenizer_that_has_one(tiny: Tiny, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny.backbone, tmp_path / "model"))
    edit("tokenizer_config.json", lambda content: {k: v for k, v in content.items() if k != "cls_token"})(folder)
    assert load_encoder(folder, "mean").tokenizer.cls_id < 0
    with pytest.raises(DataError, match="no CLS token"):
        load_encoder(folder, "mean-no-cls")


def test_ids_may_leave_gaps_in_a_vocabulary(tmp_path: Path) -> None:
    """As where one was cut: CLS is the last of 91 ids, of which 65 have a token."""
    folder = write_backbone(tmp_path / "model", vocab_size=91)

    def move(content: Any) -> None:
        content["model"]["vocab"]["[CLS]"] = content["added_tokens"][2]["id"] = 90
        content["post_processor"]["special_tokens"]["[CLS]"]["ids"] = [90]

    edit("tokenizer.json", move)(folder)
    for name, encoder in {"whole": load_encoder(folder, "mean-no-cls"), "static": distil(load_encoder(folder))}.items():
        save_encoder(encoder, tmp_path / name)
        assert np.array_equal(load_encoder(tmp_path / name).encode(TEXTS), encoder.encode(TEXTS))


def test_a_backbone_may_be_in_a_subfolder(folder: Path) -> None:
    """The layout of sentence-transformers before version 1."""
    before = load_encoder(folder).encode(TEXTS)
    home = folder / "0_Transformer"
    home.mkdir()
    for name in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"):
        (folder / name).rename(home / name)
    (folder / "sentence_bert_config.json").rename(home / "sentence_roberta_config.json")
    edit("modules.json", lambda modules: modules[0].update(path="0_Transformer"))(folder)
    assert np.array_equal(load_encoder(folder).encode(TEXTS), before)


def test_a_checkpoint_that_training_replaces_while_it_is_read_is_read_anew(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, check = load_model(resolve(str(run.path))).encode(TEXTS), checksums.check
    replaced: list[Path] = []

    def check_slowly(folder: Path) -> None:
        if not replaced:
            replaced.append(run.checkpoint().rename(run.checkpoints_dir / "000099"))
            run.checkpoints_path.write_text('{"last": "000099", "best": "000099"}')
        check(folder)

    monkeypatch.setattr(checksums, "check", check_slowly)
    assert load_model(resolve(str(run.path))).encode(TEXTS).tobytes() == expected.tobytes()
