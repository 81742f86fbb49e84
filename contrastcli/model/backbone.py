"""A pretrained encoder from a local folder: the BERT family by our own forward, anything else by transformers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from contrastcli.errors import DataError
from contrastcli.model.bert import Bert, Hidden, MaskedLMHead
from contrastcli.model.families import FAMILIES, Shape, fits

__all__ = ["Backbone", "Hidden", "MaskedLMHead", "load_backbone", "load_language_model_head"]

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
_UNLIMITED = 512  # relative positions know no limit; this is what published sentence encoders read


class Backbone(nn.Module):
    """Token ids to hidden states, whichever implementation computes them."""

    def __init__(self, config: dict[str, Any], *, width: int, layers: int, max_length: int, vocab_size: int) -> None:
        super().__init__()
        self.config = config
        """The published config.json."""
        self.width = width
        """d of the hidden states."""
        self.layers = layers
        self.max_length = max_length
        """The most tokens that a text may have, special tokens included."""
        self.vocab_size = vocab_size

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None) -> Hidden:
        """(B, T) token ids, padded on the right, and a (B, T) bool mask, false on padding (None: no padding).

        Every token is of type 0. Dropout acts in training mode, at the config's rates.
        """
        raise NotImplementedError

    def published_state(self) -> dict[str, Tensor]:
        """The weights under the names of transformers' AutoModel, sharing memory with the parameters."""
        raise NotImplementedError

    def save(self, folder: Path) -> None:
        """Write config.json and model.safetensors (fp32), which transformers and sentence-transformers load."""
        raise NotImplementedError


class BertBackbone(Backbone):
    """BERT, RoBERTa, XLM-RoBERTa or DistilBERT, computed without transformers."""

    def __init__(self, config: dict[str, Any], bert: Bert) -> None:
        shape = bert.shape
        super().__init__(
            config,
            width=shape.width,
            layers=shape.layers,
            max_length=shape.positions - shape.first_position,
            vocab_size=shape.vocab_size,
        )
        self.bert = bert

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None) -> Hidden:
        hidden: Hidden = self.bert(input_ids, attention_mask)
        return hidden

    def published_state(self) -> dict[str, Tensor]:
        return self.bert.published_state()

    def save(self, folder: Path) -> None:
        # transformers 5 loads weights in the type that the config names: a backbone published in fp16 is fp32 now
        dtype = {key: "float32" for key in ("dtype", "torch_dtype") if key in self.config}
        text = json.dumps(self.config | dtype, indent=2, ensure_ascii=False) + "\n"
        (folder / CONFIG).write_text(text, encoding="utf-8")
        save_file(self.published_state(), folder / WEIGHTS, metadata={"format": "pt"})


class AutoBackbone(Backbone):
    """Any other encoder that transformers' AutoModel knows."""

    def __init__(self, config: dict[str, Any], model: Any) -> None:
        super().__init__(
            config,
            width=model.config.hidden_size,
            layers=model.config.num_hidden_layers,
            max_length=_longest(model),
            vocab_size=model.config.vocab_size,
        )
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None) -> Hidden:
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask.long()
        output = self.model(input_ids=input_ids, attention_mask=mask, output_hidden_states=True)
        return Hidden(output.hidden_states[0], output.hidden_states[-2], output.last_hidden_state)

    def published_state(self) -> dict[str, Tensor]:
        state: dict[str, Tensor] = self.model.state_dict()
        return state

    def save(self, folder: Path) -> None:
        self.model.save_pretrained(folder)


def load_backbone(folder: Path) -> Backbone:
    """The encoder in a folder, in fp32 and in evaluation mode.

    Raises DataError where a file is missing, broken or pickled, or where the model is no encoder that this project
    can run.
    """
    config = read_config(folder)
    if fits(config):
        return _load_bert(folder, config).eval()
    return _load_auto(folder, config).eval()


def load_language_model_head(folder: Path, backbone: Backbone) -> MaskedLMHead:
    """The masked-language-model head stored beside a backbone, tied to that backbone's word embeddings.

    Raises DataError where there is none.
    """
    if not isinstance(backbone, BertBackbone) or not backbone.config.get("tie_word_embeddings", True):
        raise DataError(
            f"the language-model head of '{backbone.config.get('model_type')}' models is not supported",
            "set the weight of the masked-language-model term to 0, or use a BERT, RoBERTa or DistilBERT backbone",
        )
    head = MaskedLMHead(backbone.bert)
    head.load(read_weights(folder))
    return head


def read_config(folder: Path) -> dict[str, Any]:
    """The config.json of a model folder. Raises DataError."""
    file = folder / CONFIG
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"{folder} has no {CONFIG}", "name a folder that holds a model, or a name on the hub") from None
    except (OSError, ValueError) as error:
        raise DataError(f"{file} cannot be read: {error}", "fetch the model folder again") from None
    if not isinstance(config, dict) or not isinstance(config.get("model_type"), str):
        raise DataError(f"{file} does not say its model_type", "use a folder that transformers has saved")
    return config


def read_weights(folder: Path) -> dict[str, Tensor]:
    """The tensors of a folder's model.safetensors, mapped into memory rather than read. Raises DataError."""
    file = folder / WEIGHTS
    if not file.is_file():
        raise _no_weights(folder)
    try:
        with safe_open(file, framework="pt") as tensors:
            return {name: tensors.get_tensor(name) for name in tensors.keys()}  # noqa: SIM118  not a mapping
    except (SafetensorError, OSError) as error:
        raise DataError(f"{file} is truncated or corrupt: {error}", "fetch the model folder again") from None


def _no_weights(folder: Path) -> DataError:
    if any(folder.glob("pytorch_model*.bin")):
        return DataError(
            f"{folder} has pickled weights only, and reading a pickle can run code",
            "convert them: load the model in transformers and call save_pretrained, which writes safetensors",
        )
    return DataError(f"{folder} has no {WEIGHTS}", "fetch the model folder again")


def _load_bert(folder: Path, config: dict[str, Any]) -> BertBackbone:
    try:
        shape = Shape.of(config)
    except KeyError as error:
        raise DataError(f"{folder / CONFIG} lacks {error}", "use a folder that transformers has saved") from None
    bert = Bert(shape, FAMILIES[config["model_type"]])
    try:
        bert.load(read_weights(folder))
    except DataError as error:
        raise DataError(f"{folder / WEIGHTS}: {error.what}", error.hint) from None
    return BertBackbone(config, bert)


def _load_auto(folder: Path, config: dict[str, Any]) -> AutoBackbone:
    if config.get("is_encoder_decoder"):
        raise DataError(f"{folder} holds an encoder-decoder, not an encoder", "use an encoder: BERT, RoBERTa, MPNet …")
    if not any(folder.glob("model*.safetensors")):
        raise _no_weights(folder)
    from transformers import CONFIG_MAPPING, AutoModel  # seconds to import, and only these models need it

    if config["model_type"] not in CONFIG_MAPPING:
        needs = "runs code of its own" if "auto_map" in config else f"is of an unknown type, '{config['model_type']}'"
        raise DataError(f"the model in {folder} {needs}", "use a model that transformers itself implements")
    try:
        model, report = AutoModel.from_pretrained(
            folder, use_safetensors=True, trust_remote_code=False, local_files_only=True, output_loading_info=True
        )
        backbone = AutoBackbone(config, model.float())
    except (OSError, ValueError, RuntimeError, AttributeError, SafetensorError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise DataError(f"transformers cannot load {folder} as a text encoder: {reason}", "use another model") from None
    missing = sorted(name for name in report["missing_keys"] if not name.startswith("pooler."))
    if missing:  # transformers has drawn them at random
        raise DataError(f"the weights in {folder} lack '{missing[0]}'", "fetch the model folder again")
    return backbone


def _longest(model: Any) -> int:
    """Positions of the model, less those that RoBERTa and its kin leave unused before the first."""
    limit = int(getattr(model.config, "max_position_embeddings", 0) or 0)
    positions = getattr(getattr(model, "embeddings", None), "position_embeddings", None)
    unused = getattr(positions, "padding_idx", None)
    return (limit if unused is None else limit - unused - 1) if limit > 0 else _UNLIMITED
