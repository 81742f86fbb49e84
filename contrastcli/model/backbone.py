"""A pretrained encoder from a folder: the BERT family without transformers, any other through it."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import msgspec
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from contrastcli.boundary import narrate
from contrastcli.data.tokens import transformers
from contrastcli.errors import DataError, Use, error_text, failing_as
from contrastcli.files import json_bytes, read_json
from contrastcli.model.bert.families import FAMILIES, Shape, canonical, fits
from contrastcli.model.bert.network import Bert, Hidden, MaskedLMHead
from contrastcli.model.locate import PICKLED
from contrastcli.model.weights import CONFIG, DOWNLOAD, WEIGHTS, config_file, no_model, read_weights
from contrastcli.settings.sections import Attention

POOLER = ("pooler.dense.weight", "pooler.dense.bias")
_NO_HEAD = "set the weight of the masked-language-model term to 0"
_MOST_LAYERS = 1_000
_SEE_ALL = {"xlnet", "bert-generation"}
"""Types that transformers lists among those that write texts, though their tokens see all others."""
_FROM_PADDING = {"camembert", "data2vec-text", "ibert", "longformer", "luke", "mpnet", "roberta", "xlm-roberta", "xmod"}
_FROM_PADDING |= {"roberta-prelayernorm", "xlm-roberta-xl"}
"""Types that count positions from behind the number of the padding."""
_USUAL_MAX_LENGTH = 512
"""The limit of published sentence encoders, for a model of relative positions, which has none."""


class Backbone(nn.Module):
    """An encoder from token ids to hidden states; `config` is its published config.json.

    `width` is the d of the hidden states, and `max_length` counts a text's tokens with the special ones.
    """

    takes_threads = False
    """Whether threads may run it side by side, each with dropout of its own: not in older transformers."""
    takes_int8 = False
    """Whether it encodes with matrix products in int8."""
    adapter: Any = None
    """Its LoRA in training, an adapters.Adapter, of whose modules the backbone has those that it needs."""

    def __init__(self, config: dict[str, Any], width: int, layers: int, max_length: int, vocab_size: int) -> None:
        super().__init__()
        self.config = config
        self.width = width
        self.layers = layers
        self.max_length = max_length
        self.vocab_size = vocab_size

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None, first_token: bool = False) -> Hidden:
        """(B, T) token ids, padded on the right, and a (B, T) bool mask, false on padding (None: no padding).

        With `first_token` the last hidden states may be of that token alone, (B, 1, d). All tokens have type 0. In
        training mode there is dropout at the config's rates.
        """
        raise NotImplementedError

    def save(self, folder: Path) -> None:
        """Write config.json and model.safetensors (fp32), which transformers and sentence-transformers load."""
        raise NotImplementedError


class BertBackbone(Backbone):
    """BERT, RoBERTa, XLM-RoBERTa, DistilBERT, MPNet or ModernBERT."""

    takes_threads = True

    def __init__(self, config: dict[str, Any], bert: Bert) -> None:
        shape = bert.shape
        super().__init__(config, shape.width, shape.layers, shape.positions - shape.first_position, shape.vocab_size)
        self.bert = bert
        self.takes_int8 = not bert.family.pre_norm
        self.pooler: dict[str, Tensor] = {}
        """The published weights of a layer on CLS that no pooling here uses, but that other libraries look for."""

    @property
    def lacks_pooler(self) -> bool:
        """Whether transformers would make a pooler and find no weights for it; two classes have none."""
        return not self.pooler and self.config["model_type"] not in ("distilbert", "modernbert")

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None, first_token: bool = False) -> Hidden:
        hidden: Hidden = self.bert(input_ids, attention_mask, first_token)
        return hidden

    def save(self, folder: Path) -> None:
        # transformers 5 loads weights in the config's type, which may be that of weights published in fp16
        dtype = {key: "float32" for key in ("dtype", "torch_dtype") if key in self.config}
        # Servers tell by it whether a model embeds or classifies.
        kinds = [re.sub("For[A-Z].*", "Model", str(name)) for name in self.config.get("architectures") or ()]
        changed = dtype | ({"architectures": kinds} if kinds else {})
        (folder / CONFIG).write_bytes(json_bytes(self.config | changed))
        save_file({**self.bert.published_state(), **self.pooler}, folder / WEIGHTS, metadata={"format": "pt"})


class AutoBackbone(Backbone):
    """Any other encoder or decoder that transformers' AutoModel knows, and the encoder of an encoder-decoder."""

    def __init__(self, config: dict[str, Any], model: Any) -> None:
        sizes = model.config
        super().__init__(config, sizes.hidden_size, sizes.num_hidden_layers, positions_of(model), sizes.vocab_size)
        # Keys and values of earlier tokens are for writing texts.
        sizes.use_cache = False
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None, first_token: bool = False) -> Hidden:
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask.long()
        output = self.model(input_ids=input_ids, attention_mask=mask, output_hidden_states=True)
        return Hidden(output.hidden_states[0], output.hidden_states[-2], output.last_hidden_state)

    def bfloat16(self) -> Self:
        """Its weights in bfloat16, but not the frequencies of rotary positions, which would lose far ones."""
        for parameter in self.parameters():
            parameter.data = parameter.data.bfloat16()
        return self

    def save(self, folder: Path) -> None:
        self.model.save_pretrained(folder)


def load_backbone(folder: Path, attention: Attention | None = None) -> Backbone:
    """The encoder in a folder, in fp32 and in evaluation mode; a decoder may be given another attention than its own.

    Raises DataError if a file is missing, broken or pickled, or if the model is not a supported encoder.
    """
    config = read_config(folder)
    if fits(config):
        return _load_bert(folder, config).eval()
    # transformers and sentence-transformers read it.
    change = {} if attention in (None, attention_of(config)) else {"is_causal": attention == "causal"}
    return _load_auto(folder, config | change).eval()


def outline(folder: Path) -> Backbone | None:
    """The layers of a model of the BERT family, without memory for their weights; None for another model."""
    config = read_config(folder)
    if not fits(config):
        return None
    with torch.device("meta"):
        return BertBackbone(config, Bert(_shape(folder, config), FAMILIES[config["model_type"]]))


def load_language_model_head(folder: Path, backbone: Backbone) -> MaskedLMHead:
    """The masked-language-model head in a folder, tied to its backbone's word embeddings. Raises DataError without."""
    if not isinstance(backbone, BertBackbone) or not backbone.config.get("tie_word_embeddings", True):
        what = f"the language-model head of '{backbone.config.get('model_type')}' models is not supported"
        raise DataError(what, [_NO_HEAD, "use a BERT, RoBERTa, DistilBERT, MPNet or ModernBERT backbone"])
    head, published = MaskedLMHead(backbone.bert), canonical(read_weights(folder), backbone.bert.family)
    if head.published_names("dense.weight")[0] not in published:
        raise DataError("the backbone has no language-model head", _NO_HEAD)
    head.load(published)
    return head


def attention_of(config: Mapping[str, Any]) -> Attention:
    """Whether each token of the model with such a config.json sees all others, or those before it, as in a decoder."""
    if fits(config) or _is_opened(config):
        return "bidirectional"
    kinds = transformers().models.auto.modeling_auto
    writes = config["model_type"] in kinds.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.keys() - _SEE_ALL
    # Encoders that can also be made to write fill masks first of all.
    fills = config["model_type"] in kinds.MODEL_FOR_MASKED_LM_MAPPING_NAMES
    return "causal" if writes and not fills and not config.get("is_encoder_decoder") else "bidirectional"


def _is_opened(config: Mapping[str, Any]) -> bool:
    """Whether it is a decoder whose tokens see all others, as published (EmbeddingGemma) or as we trained it."""
    return config.get("is_causal") is False or config.get("use_bidirectional_attention") is True


def read_config(folder: Path) -> dict[str, Any]:
    """The config.json of a model folder. Raises DataError."""
    file = config_file(folder)
    config = read_json(file, dict[str, Any], DOWNLOAD)
    if config is None:
        raise no_model(folder)
    if not isinstance(config.get("model_type"), str):
        raise DataError(f"{file} does not say its model_type", "use a folder that transformers has saved")
    # Where some machine had it once.
    config.pop("_name_or_path", None)
    return config


def is_classifier(config: Mapping[str, Any]) -> bool:
    """Whether a config.json is that of a classifier, such as a cross-encoder: its backbone has scores on top."""
    return any(str(name).endswith("ForSequenceClassification") for name in config.get("architectures") or ())


def longest_of(folder: Path, config: Mapping[str, Any]) -> int:
    """The most tokens of a text that the model in a folder with that config.json reads. Raises DataError."""
    if fits(config):
        shape = _shape(folder, config)
        return shape.positions - shape.first_position
    positions = int(config.get("max_position_embeddings") or _USUAL_MAX_LENGTH)
    return positions - (int(config.get("pad_token_id", 1)) + 1 if config.get("model_type") in _FROM_PADDING else 0)


def positions_of(model: Any) -> int:
    """The most tokens of a text that a model of transformers reads."""
    positions = getattr(getattr(model.base_model, "embeddings", None), "position_embeddings", None)
    # As of the types that count from behind the padding.
    unused = getattr(positions, "padding_idx", None)
    limit = int(getattr(model.config, "max_position_embeddings", 0) or 0)
    return limit - (0 if unused is None else unused + 1) if limit > 0 else _USUAL_MAX_LENGTH


def _shape(folder: Path, config: Mapping[str, Any]) -> Shape:
    try:
        return Shape.of(config)
    except (KeyError, msgspec.ValidationError, UnicodeError) as error:
        what = f"{folder / CONFIG} is not understood: {error_text(error)}"
        raise DataError(what, "use a folder that transformers has saved") from None


def _load_bert(folder: Path, config: dict[str, Any]) -> BertBackbone:
    bert = Bert(_shape(folder, config), FAMILIES[config["model_type"]])
    published = canonical(read_weights(folder), bert.family)
    try:
        bert.load(published)
    except DataError as error:
        raise DataError(f"{folder / WEIGHTS}: {error.what}", error.hint) from None
    _tell_unused(folder, published, bert.published_state())
    backbone = BertBackbone(config, bert)
    backbone.pooler = {name: published[name].float().clone() for name in POOLER if name in published}
    return backbone


def _load_auto(folder: Path, config: dict[str, Any]) -> AutoBackbone:
    with failing_as(DataError, f"transformers cannot load {folder} as a text encoder", "use another model"):
        model = load_pretrained(folder, config)
        if _is_opened(config) and not _sees_ahead(model):
            version = transformers().__version__
            what = f"transformers {version} has no bidirectional attention for '{config['model_type']}' models"
            raise DataError(what, ["pip install -U transformers", Use("--attention", "causal", "use")])
        return AutoBackbone(config, model)


def load_pretrained(folder: Path, config: Mapping[str, Any], kind: Any = None) -> Any:
    """A model of a class of transformers, else of that of its encoder, in fp32 and in evaluation mode.

    Raises DataError if it needs code of its own or lacks weights, and errors of any kind if it cannot be read.
    """
    library = transformers()
    if config["model_type"] not in library.CONFIG_MAPPING:
        reason = "needs its own code" if "auto_map" in config else f"is of an unknown type, '{config['model_type']}'"
        raise DataError(f"the model in {folder} {reason}", "use a model that transformers itself implements")
    files = list(folder.glob("model*.safetensors"))
    if not files:
        # Raises DataError unless these are tensors alone.
        read_weights(folder)
    settings = library.AutoConfig.from_pretrained(folder, local_files_only=True)
    if "is_causal" in config:
        settings.is_causal = config["is_causal"]
    kind = kind or _encoder_class(folder, settings)
    _check_size(files or [folder / PICKLED], config, settings)
    model, report = kind.from_pretrained(
        folder,
        config=settings,
        use_safetensors=bool(files),
        weights_only=True,
        local_files_only=True,
        output_loading_info=True,
        # The report has them.
        ignore_mismatched_sizes=True,
    )
    # transformers makes them up at random.
    names = [*report["missing_keys"], *(name for name, *_ in report["mismatched_keys"])]
    if wrong := sorted(name for name in names if not name.startswith("pooler.")):
        what = f"the weights in {folder} lack '{wrong[0]}', or have another shape of it"
        raise DataError(what, DOWNLOAD)
    own = f"{model.base_model_prefix}."
    _tell_unused(folder, [name.removeprefix(own) for name in report["unexpected_keys"]], model.state_dict())
    return model.float().eval()


def _tell_unused(folder: Path, names: Iterable[str], used: Iterable[str]) -> None:
    """Tell of weights that are like `used` ones of another layer: layers that the config.json does not count."""
    alike = {re.sub(r"\.\d+\.", ".#.", name) for name in used}
    if left := sorted(name for name in {*names} - {*used} if re.sub(r"\.\d+\.", ".#.", name) in alike):
        narrate(f"note: {folder} has {len(left)} tensors of layers that its {CONFIG} does not count: {left[0]}")


def _encoder_class(folder: Path, settings: Any) -> Any:
    """The class of transformers for a config: of an encoder-decoder that of its encoder. Raises DataError."""
    library, name = transformers(), type(settings).__name__.removesuffix("Config")
    if hasattr(settings, "text_config"):
        what = f"{folder} holds a '{settings.model_type}' model, which is not of texts alone"
        raise DataError(what, "use a model of texts, as its text part is where that is saved alone")
    # T5 and its kin; once saved, such an encoder no longer says what it was a part of.
    encoder = getattr(library, f"{name}EncoderModel", None)
    if encoder is None and settings.is_encoder_decoder:
        what = f"{folder} holds an encoder-decoder, and transformers cannot load the encoder of '{name}' alone"
        raise DataError(what, "use an encoder: BERT, RoBERTa, MPNet, T5 …")
    return encoder or library.AutoModel


def _sees_ahead(model: Any) -> bool:
    """Whether a token's vector depends on the next one: some versions of transformers ignore what a config asks for."""
    with torch.inference_mode():
        first, other = model(input_ids=torch.tensor([[1, 1], [1, 2]])).last_hidden_state[:, 0]
    return not torch.allclose(first, other, rtol=1e-4, atol=1e-6)


def _check_size(files: Sequence[Path], config: Mapping[str, Any], settings: Any) -> None:
    """Raises ValueError for a config of far more than the files hold, which transformers would make and fill."""
    library, size = transformers(), sum(file.stat().st_size for file in files)
    if max((n for key, n in config.items() if "layer" in key and isinstance(n, int)), default=0) > _MOST_LAYERS:
        raise ValueError(f"its {CONFIG} has more than {_MOST_LAYERS:,} layers")
    with torch.device("meta"):  # takes no memory
        empty = library.AutoModel.from_config(settings)
    count = sum(parameter.numel() for parameter in empty.parameters())
    # A parameter may be packed into less than a byte.
    if count > 8 * size:
        raise ValueError(f"its weights are far fewer than the {count:,} of its {CONFIG}")
