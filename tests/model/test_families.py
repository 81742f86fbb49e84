"""Encoders and decoders of today: read as transformers reads them, and saved as sentence-transformers reads them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from contrastcli.errors import DataError, UsageError
from contrastcli.model.backbone import load_backbone, longest_of, read_config
from contrastcli.model.contract import adapted, read_contract
from contrastcli.model.encoder import SentenceEncoder
from contrastcli.model.folder import load_encoder, make_encoder, save_encoder
from contrastcli.settings.sections import Model
from contrastcli.training.setup import load_untrained
from support.contracts import write_embedder
from support.families import DECODERS, FAMILIES, batch, reference, write_family
from support.rounding import assert_near
from support.tiny import edit_json

TEXTS = ["ba den fir", "go", "lum ka ten sir do bum fa gen", "ba " * 100]


@pytest.fixture(scope="module", params=list(FAMILIES))
def family(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of each family; no test may change it."""
    return write_family(request.param, tmp_path_factory.mktemp("family") / request.param)


@pytest.fixture(scope="module", params=list(DECODERS))
def decoder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of each family of decoders; no test may change it."""
    return write_family(request.param, tmp_path_factory.mktemp("decoder") / request.param)


@pytest.fixture
def qwen(tmp_path: Path) -> Path:
    return write_family("qwen3", tmp_path / "qwen3")


def opened(folder: Path, **settings: Any) -> SentenceEncoder:
    """A decoder whose tokens see all others."""
    return make_encoder(adapted(read_contract(folder), Model(attention="bidirectional", **settings))[0])


def test_hidden_states_equal_transformers(family: Path) -> None:
    backbone, (ids, mask) = load_backbone(family), batch()
    with torch.no_grad():
        ours = backbone(ids, mask)
        theirs = reference(family)(input_ids=ids, attention_mask=mask.long(), output_hidden_states=True)
    assert_near(ours.last[mask], theirs.last_hidden_state[mask])
    assert_near(ours.first[mask], theirs.hidden_states[0][mask])
    assert_near(ours.penultimate[mask], theirs.hidden_states[-2][mask])


def test_the_longest_text_and_the_pooling_are_known_from_the_config_alone(family: Path) -> None:
    backbone = load_backbone(family)
    longest = backbone.max_length
    assert longest == longest_of(family, read_config(family))
    assert backbone(torch.full((1, longest), 7), None).last.shape == (1, longest, 32)
    of_family = "causal attention → last pooling" if family.name in DECODERS else "mean pooling"
    assert str(read_contract(family)) == of_family


def test_the_longest_text_of_roberta_s_other_kin_is_shorter_than_its_positions(tmp_path: Path) -> None:
    folder = write_family("roberta", tmp_path / "camembert")
    edit_json(folder / "config.json", model_type="camembert")
    assert longest_of(folder, read_config(folder)) == load_backbone(folder).max_length == 41


def test_a_bare_decoder_takes_the_token_that_ends_the_text(decoder: Path) -> None:
    encoder, model = load_encoder(decoder), reference(decoder)
    for text in TEXTS:
        ids = encoder.tokenizer.encode([text], encoder.max_length)
        assert ids[0][-1] == encoder.tokenizer.encode([""], 8)[0][0], "the end of the text, where it is cut too"
        with torch.no_grad():
            assert_near(encoder.encode([text]), model(input_ids=torch.tensor(ids)).last_hidden_state[:, -1])


def test_padding_on_either_side_gives_the_vectors_of_texts_alone(decoder: Path) -> None:
    model, (ids, mask) = reference(decoder), batch()
    left_ids, left_mask = ids.flip(1), mask.flip(1)
    for row, real in enumerate(mask):
        left_ids[row, left_mask[row]] = ids[row, real]
    with torch.no_grad():
        padded_left = model(input_ids=left_ids, attention_mask=left_mask.long()).last_hidden_state[:, -1]
        ours = load_backbone(decoder)(ids, mask).last[torch.arange(4), mask.sum(1) - 1]
    assert_near(ours, padded_left)


@pytest.mark.filterwarnings("ignore")  # of the other library
def test_a_decoder_may_see_the_whole_text(decoder: Path, tmp_path: Path) -> None:
    library = pytest.importorskip("sentence_transformers")
    encoder = opened(decoder)
    assert str(encoder.contract) == "mean pooling"
    one, other = (encoder.backbone(torch.tensor([[7, 8, last]]), None).last[0, 0] for last in (9, 10))
    assert (one - other).abs().max() > 1e-3
    save_encoder(encoder, tmp_path / "saved")
    saved = load_encoder(tmp_path / "saved")
    assert (saved.contract.attention, saved.contract.pooling) == ("bidirectional", "mean")
    assert np.array_equal(saved.encode(TEXTS), encoder.encode(TEXTS))
    theirs = library.SentenceTransformer(str(tmp_path / "saved"), device="cpu")
    assert_near(theirs.encode(TEXTS), encoder.encode(TEXTS))


@pytest.mark.parametrize("pooling", ["cls", "mean", "mean-no-cls", "first-last", "last-mean", "pooler"])
def test_a_decoder_is_refused_another_pooling_than_its_own(qwen: Path, pooling: Any) -> None:
    words = f"is a decoder: a token sees those before it, so {pooling} pooling is not its own"
    with pytest.raises(UsageError, match=words):
        adapted(read_contract(qwen), Model(pooling=pooling))
    with pytest.raises(UsageError, match=words):
        load_encoder(qwen, pooling)
    assert opened(qwen, pooling="first-last").contract.pooling == "first-last"


def test_a_decoder_published_with_another_pooling_keeps_it(qwen: Path, tmp_path: Path) -> None:
    folder = write_embedder(qwen, tmp_path / "embedder")
    pooling = folder / "1_Pooling" / "config.json"
    pooling.write_text(json.dumps({"word_embedding_dimension": 32, "pooling_mode_mean_tokens": True}))
    contract = read_contract(folder)
    assert contract.pooling == "mean" and adapted(contract, Model(pooling="mean"))[1] == []
    assert adapted(contract, Model(pooling="last"))[0].pooling == "last"


def test_another_attention_is_said_and_other_vectors(qwen: Path, tmp_path: Path) -> None:
    folder = write_embedder(qwen, tmp_path / "embedder")
    contract, notes = adapted(read_contract(folder), Model(attention="bidirectional"))
    assert notes == ["model.attention is bidirectional instead of the backbone's causal"]
    assert contract.pooling == "last", "its own, which is stated"
    assert abs(make_encoder(contract).encode(TEXTS) - load_encoder(folder).encode(TEXTS)).max() > 1e-3


@pytest.mark.parametrize("name", ["bert", "electra", "embedding-gemma"])
def test_an_encoder_is_refused_the_attention_of_a_decoder(name: str, tmp_path: Path) -> None:
    folder = write_family(name, tmp_path / name)
    with pytest.raises(UsageError, match="each token of this backbone sees all others"):
        adapted(read_contract(folder), Model(attention="causal"))
    assert adapted(read_contract(folder), Model(attention="bidirectional"))[1] == []


def test_a_decoder_that_cannot_see_the_whole_text_is_refused_by_name(qwen: Path) -> None:
    """Some versions of transformers, and some models, ignore what the config asks for."""
    edit_json(qwen / "config.json", use_bidirectional_attention=True)
    with pytest.raises(DataError, match=r"transformers [\d.]+ has no bidirectional attention for 'qwen3' models"):
        load_encoder(qwen)


@pytest.mark.filterwarnings("ignore")  # of peft about transformers
def test_an_adapter_has_the_attention_of_its_base(qwen: Path) -> None:
    pytest.importorskip("peft")
    with pytest.raises(UsageError, match="an adapter has the attention of its base"):
        load_untrained(Model(backbone=str(qwen), attention="bidirectional", lora=2))
    edit_json(qwen / "config.json", is_causal=False)
    assert load_untrained(Model(backbone=str(qwen), lora=2)).contract.attention == "bidirectional"


def test_what_comes_before_the_layers_of_a_family_is_frozen_alone(family: Path) -> None:
    encoder = load_untrained(Model(backbone=str(family), freeze="embeddings"))
    frozen = [name for name, parameter in encoder.named_parameters() if not parameter.requires_grad]
    assert frozen and not any(".layer" in name or ".block" in name or ".h." in name for name in frozen)


def test_of_one_layer_that_is_used_several_times_the_embeddings_alone_are_frozen(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the backbone has 1 layer") as caught:
        load_untrained(Model(backbone=str(write_family("albert", tmp_path / "albert")), freeze="1"))
    assert "--freeze embeddings" in str(caught.value.hint)


@pytest.mark.parametrize("name", ["bert", "qwen3", "t5"])
def test_layers_that_the_config_does_not_count_are_said_to_be_unused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A decoder's are saved under another name than those of its backbone; T5's decoder has no place in an encoder."""
    file = write_family(name, tmp_path / name) / "config.json"
    for count in (2, 1):
        key = "num_layers" if name == "t5" else "num_hidden_layers"
        edit_json(file, **{key: count, "layer_types": ["full_attention"] * count})
        load_backbone(file.parent)
        assert ("of layers that its config.json does not count" in capsys.readouterr().err) == (count < 2)


def test_rotary_frequencies_are_not_rounded_in_bf16(qwen: Path) -> None:
    """Else the thousandth position would be turned by radians too many."""
    exact, rounded = load_backbone(qwen), load_backbone(qwen).bfloat16()
    assert {parameter.dtype for parameter in rounded.parameters()} == {torch.bfloat16}
    frequencies = dict(exact.named_buffers())
    assert frequencies and all(torch.equal(frequencies[name], same) for name, same in rounded.named_buffers())
    ids, mask = batch()
    with torch.no_grad():
        vectors = [backbone(ids, mask).last[mask].float() for backbone in (exact, rounded)]
    assert torch.cosine_similarity(*vectors).min() > 0.99
