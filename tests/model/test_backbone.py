"""The backbone equals transformers' own models, and says what is wrong with a folder that it cannot read."""

import json
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from contrastcli.errors import DataError
from contrastcli.model.backbone import Backbone, BertBackbone, load_backbone, load_language_model_head
from contrastcli.model.bert import cpu
from contrastcli.model.bert.packed import PackedBert
from contrastcli.model.devices import has_products
from contrastcli.model.encoder import autocast
from contrastcli.settings.sections import Precision
from support.families import batch, reference, write_family
from support.rounding import assert_near
from support.tiny import edit_json

transformers = pytest.importorskip("transformers")
needs_packing = pytest.mark.skipif(not has_products("fp32"), reason="this torch has no oneDNN")

CONFIGS: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("bert", {}),
    "bert-gelu-new": ("bert", {"hidden_act": "gelu_new", "layer_norm_eps": 1e-3}),
    "roberta": ("roberta", {"pad_token_id": 1, "type_vocab_size": 1}),
    "roberta-relu": ("roberta", {"pad_token_id": 1, "hidden_act": "relu"}),
    "distilbert-gelu-new": ("distilbert", {"activation": "gelu_new"}),
    "mpnet": ("mpnet", {}),
    "modernbert": ("modernbert", {f"{place}_dropout": 0.1 for place in ("embedding", "attention", "mlp")}),
}


def published_state(backbone: Backbone) -> dict[str, Tensor]:
    """The weights of a backbone that runs without transformers."""
    assert isinstance(backbone, BertBackbone)
    return backbone.bert.published_state()


@pytest.fixture(scope="module", params=list(CONFIGS))
def published(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as the hub has them, with the language-model head and sizeable random weights."""
    family, changes = CONFIGS[request.param]
    return write_family(family, tmp_path_factory.mktemp("published") / family, head=True, **changes)


def padding_of(backbone: Backbone) -> int:
    return int(backbone.config.get("pad_token_id") or 0)


def test_hidden_states_equal_transformers(published: Path) -> None:
    """By the network of training, and by the packed copy of it for encoding."""
    backbone, model = load_backbone(published), reference(published)
    assert isinstance(backbone, BertBackbone)
    mask = torch.arange(20) < torch.tensor([20, 16, 16, 16, 9, 9, 6, 2, 2, 2, 2, 1])[:, None]
    ids = torch.randint(1, 60, mask.shape)  # padding inside a text too
    networks: list[Backbone | PackedBert] = [backbone]
    networks += [PackedBert(backbone.bert, "fp32")] if has_products("fp32") else []
    with torch.no_grad():
        theirs = model(input_ids=ids, attention_mask=mask.long(), output_hidden_states=True)
        for network in networks:
            ours, of_first = network(ids, mask), network(ids, mask, first_token=True)
            assert_near(ours.first[mask], theirs.hidden_states[0][mask])
            assert_near(ours.penultimate[mask], theirs.hidden_states[-2][mask])
            assert_near(ours.last[mask], theirs.last_hidden_state[mask])
            assert_near(of_first.last, theirs.last_hidden_state[:, :1])
        for no_mask in (None, mask[:1]):
            assert_near(backbone(ids[:1], no_mask).last, theirs.last_hidden_state[:1])
    assert theirs.last_hidden_state[mask].std() > 0.1


@needs_packing
@pytest.mark.parametrize("name", ["mpnet", "modernbert"])
def test_long_texts_equal_transformers(name: str, tmp_path: Path) -> None:
    """Where far tokens are related in another way than near ones."""
    folder = write_family(name, tmp_path / name, max_position_embeddings=302)
    backbone, model = load_backbone(folder), reference(folder)
    assert isinstance(backbone, BertBackbone)
    ids = torch.randint(5, 60, (2, 300), generator=torch.Generator().manual_seed(2))
    mask = torch.arange(300) < torch.tensor([300, 211])[:, None]
    with torch.no_grad():
        theirs = model(input_ids=ids, attention_mask=mask.long()).last_hidden_state
        assert_near(backbone(ids, mask).last[mask], theirs[mask])
        assert_near(PackedBert(backbone.bert, "fp32")(ids, mask).last[mask], theirs[mask])


@pytest.mark.parametrize("first_token", [False, True])
def test_gradients_equal_transformers(published: Path, first_token: bool) -> None:
    backbone, model = load_backbone(published), reference(published)
    ids, mask = batch(padding_of(backbone))
    weights = torch.randn(4, 9, 32, generator=torch.Generator().manual_seed(1)) * mask[..., None]
    weights[:, int(first_token) or 9 :] = 0
    (backbone(ids, mask, first_token).last * weights[:, : 1 if first_token else 9]).sum().backward()
    (model(input_ids=ids, attention_mask=mask.long()).last_hidden_state * weights).sum().backward()
    theirs = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    for parameter in backbone.parameters():
        assert parameter.grad is not None
        parameter.data = parameter.grad  # published_state then names the gradients as transformers does
    ours = published_state(backbone)
    assert theirs.keys() == ours.keys()
    for name, gradient in theirs.items():
        assert (ours[name] - gradient).abs().max() < 1e-4 * max(1.0, gradient.abs().max().item()), name


@pytest.mark.skipif(not has_products("bf16"), reason="this CPU multiplies no matrices in bf16")
def test_gradients_in_bf16_are_near_those_in_fp32(published: Path) -> None:
    backbone, (ids, mask) = load_backbone(published), batch()
    weights = torch.randn(4, 9, 32, generator=torch.Generator().manual_seed(1)) * mask[..., None]

    def gradients(precision: Precision) -> list[Tensor]:
        with autocast(torch.device("cpu"), precision):
            loss = (backbone(ids, mask).last * weights).sum()
        return [gradient.to_dense() for gradient in torch.autograd.grad(loss, list(backbone.parameters()))]

    exact, half = gradients("fp32"), gradients("bf16")
    assert {gradient.dtype for gradient in half} == {torch.float32}
    for parameter, one, other in zip(backbone.parameters(), exact, half, strict=True):
        assert 0 < (one - other).norm() < 0.05 * one.norm(), parameter.shape


def test_language_model_head_equals_transformers_and_trains_the_word_embeddings_it_is_tied_to(published: Path) -> None:
    backbone = load_backbone(published)
    head = load_language_model_head(published, backbone)
    model = transformers.AutoModelForMaskedLM.from_pretrained(published, dtype=torch.float32).eval()
    ids, mask = batch(padding_of(backbone))
    with torch.no_grad():
        ours = head(backbone(ids, mask).last[mask])  # (M, V)
        theirs = model(input_ids=ids, attention_mask=mask.long()).logits[mask]
    assert ours.shape == (18, 65)
    assert_near(ours, theirs)
    stored = load_file(published / "model.safetensors")
    assert all(torch.equal(stored[name], tensor) for name, tensor in head.published_state().items())
    head(torch.ones(1, 32)).square().sum().backward()
    assert [name for name, p in backbone.named_parameters() if p.grad is not None] == ["bert.words.weight"]
    assert (65, 32) not in {parameter.shape for parameter in head.parameters()}, "it has no matrix of its own"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"num_hidden_layers": 10**9}, "more than 1,000 layers"),
        ({"vocab_size": 10**9}, "far fewer"),
        ({"intermediate_size": 40}, "another shape"),
    ],
)
def test_a_model_that_its_weights_do_not_fit_is_refused_before_it_takes_memory(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], changes: dict[str, object], words: str
) -> None:
    folder = write_family("electra", tmp_path / "model")
    edit_json(folder / "config.json", **changes)
    capfd.readouterr()
    with pytest.raises(DataError, match=words):
        load_backbone(folder)
    assert capfd.readouterr() == ("", ""), "transformers printed its report"


@pytest.fixture
def small(tmp_path: Path) -> Path:
    return write_family("bert", tmp_path / "small", head=True)


def rewrite(folder: Path, change: Callable[[dict[str, Tensor]], dict[str, Tensor]]) -> None:
    weights = {name: tensor.clone() for name, tensor in load_file(folder / "model.safetensors").items()}
    save_file(change(weights), folder / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.parametrize(
    "changes",
    [
        {"layer_types": ["sliding_attention", "full_attention"]},
        {"rope_parameters": {"full_attention": {"rope_theta": 300.0}, "sliding_attention": {"rope_theta": 20.0}}},
        {"layer_types": None, "rope_parameters": None, "local_rope_theta": 20.0},
        {"rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 4.0, "rope_theta": 300.0}}},
    ],
)
def test_either_spelling_of_modernberts_layers_is_read(tmp_path: Path, changes: dict[str, object]) -> None:
    folder = write_family("modernbert", tmp_path / "modern")
    edit_json(folder / "config.json", **changes)
    ids, mask = batch(0)
    with torch.no_grad():
        theirs = reference(folder)(input_ids=ids, attention_mask=mask.long()).last_hidden_state
        assert_near(load_backbone(folder)(ids, mask).last[mask], theirs[mask])


def test_half_precision_weights_become_fp32_and_stay_so_when_saved(small: Path, tmp_path: Path) -> None:
    rewrite(small, lambda weights: {name: tensor.half() for name, tensor in weights.items()})
    edit_json(small / "config.json", dtype="float16")
    backbone = load_backbone(small)
    assert {p.dtype for p in backbone.parameters()} == {torch.float32}
    saved = tmp_path / "saved"
    saved.mkdir()
    backbone.save(saved)
    assert {tensor.dtype for tensor in load_file(saved / "model.safetensors").values()} == {torch.float32}
    assert transformers.AutoModel.from_pretrained(saved).dtype == torch.float32


def test_old_spellings_of_the_weights_load(small: Path) -> None:
    # Copies: some versions of safetensors write over the file that they are mapped from.
    before = {name: tensor.clone() for name, tensor in published_state(load_backbone(small)).items()}

    def spell(name: str) -> str:
        name = name.removeprefix("bert.")
        return name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")

    rewrite(small, lambda weights: {spell(name): tensor for name, tensor in weights.items()})
    after = published_state(load_backbone(small))
    assert all(torch.equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize("p", [0.1, 0.5])
def test_dropout_zeroes_its_share_and_keeps_the_mean(p: float) -> None:
    torch.manual_seed(0)
    x = torch.ones(301, 333, requires_grad=True)  # no multiple of four
    dropped = cpu.dropout(x, p)
    deviation = math.sqrt(p * (1 - p) / x.numel())
    assert abs((dropped == 0).float().mean().item() - p) < 5 * deviation
    assert torch.allclose(dropped[dropped != 0], torch.tensor(1 / (1 - p)), rtol=1e-4)
    neighbours = (dropped == 0).flatten().float()
    assert abs((neighbours[1:] * neighbours[:-1]).mean().item() - p * p) < 5 * deviation
    (gradient,) = torch.autograd.grad(dropped.sum(), x)
    assert torch.equal(gradient, dropped.detach())


@pytest.mark.parametrize("p", [0.0, 1e-9])
def test_attention_in_training_equals_attention_in_evaluation(p: float) -> None:
    """A rate too small to drop anything still takes the path with dropout."""
    q, k, v = torch.randn(3, 4, 2, 9, 8, generator=torch.Generator().manual_seed(0))
    mask = batch()[1][:, None, None, :]
    added = torch.randn(2, 9, 9).where(mask, -torch.inf)
    for how in (None, mask, added, added[:1]):
        expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=how)
        assert_near(cpu.attend(q, k, v, how, p), expected)


def without(name: str, weights: dict[str, Tensor]) -> dict[str, Tensor]:
    return {key: tensor for key, tensor in weights.items() if not key.startswith(name)}


def test_a_config_and_weights_that_do_not_fit_are_named(small: Path, tmp_path: Path) -> None:
    rewrite(small, partial(without, "bert.encoder.layer.1.attention.self.key.weight"))
    with pytest.raises(DataError, match=r"model\.safetensors.*encoder\.layer\.1\.attention\.self\.key\.weight"):
        load_backbone(small)
    edit_json(small / "config.json", vocab_size=66)
    with pytest.raises(DataError, match=r"embeddings\.word_embeddings\.weight are.*\[65, 32\].*\[66, 32\]"):
        load_backbone(small)
    modern = write_family("modernbert", tmp_path / "modern")
    edit_json(modern / "config.json", layer_types=["full_attention"])
    with pytest.raises(DataError, match="layer_types do not fit"):
        load_backbone(modern)


def test_a_model_of_images_and_texts_is_told_as_that(tmp_path: Path) -> None:
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    config = transformers.CLIPConfig(text_config=sizes, vision_config=sizes)
    transformers.CLIPModel(config).save_pretrained(tmp_path)
    with pytest.raises(DataError, match="'clip' model, which is not of texts alone"):
        load_backbone(tmp_path)


def test_a_family_without_a_language_model_head_here_says_so(tmp_path: Path) -> None:
    folder = write_family("electra", tmp_path / "electra")
    with pytest.raises(DataError, match="language-model head of 'electra' models"):
        load_language_model_head(folder, load_backbone(folder))


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"model_type": "bart", "is_encoder_decoder": True}, "encoder-decoder.* the encoder of 'Bart' alone"),
        ({"model_type": "homemade", "auto_map": {"AutoModel": "code.Model"}}, "needs its own code"),
        ({"model_type": "homemade"}, "unknown type, 'homemade'"),
        ({"model_type": "vit"}, "text encoder"),
        ({"model_type": "bert"}, r"config\.json is not understood: there is no 'hidden_size'"),
    ],
)
def test_models_that_cannot_run_here_are_refused(small: Path, config: dict[str, object], reason: str) -> None:
    (small / "config.json").write_text(json.dumps(config))
    with pytest.raises(DataError, match=reason):
        load_backbone(small)
