"""Model folders: a backbone and its tokenizer, with the contract of contract.py, read and written.

config.json, model.safetensors, tokenizer files     the backbone, or its adapter, of adapters.py
modules.json and the files that it names            the contract
"""

import shlex
from dataclasses import replace
from pathlib import Path

from torch import nn

from contrastcli.data.tokens import Tokenizer
from contrastcli.errors import DataError, Use
from contrastcli.model.adapters import base_folder, load_with_adapter, save_adapter
from contrastcli.model.backbone import POOLER, BertBackbone
from contrastcli.model.contract import CLASSIFIER, Contract, read_contract, write_contract
from contrastcli.model.devices import choose_device
from contrastcli.model.encoder import SentenceEncoder
from contrastcli.model.locate import ModelRef
from contrastcli.model.pooling import Dense, Normalize
from contrastcli.model.prompts import MASK_SUFFIX
from contrastcli.model.static import StaticEncoder, load_static
from contrastcli.model.weights import DOWNLOAD, read_weights
from contrastcli.runs import checksums
from contrastcli.settings.sections import Pooling, Precision


def load_model(
    model: ModelRef,
    *,
    pooling: Pooling | None = None,
    precision: Precision = "fp32",
    dim: int | None = None,
    normalize: bool = False,
) -> SentenceEncoder:
    """A model ready to encode on this machine's device in some precision; `pooling` overrides the model's.

    Raises DataError if it does not exist or cannot be read, UsageError if its embeddings are shorter than `dim`.
    """
    folder = model.folder()
    try:
        loaded = load_encoder(folder, pooling)
    except DataError:
        # A run that trains may have replaced its checkpoint meanwhile.
        if (newer := model.folder()) == folder:
            raise
        loaded = load_encoder(newer, pooling)
    encoder = loaded.to(choose_device("auto")).eval()
    encoder.name, encoder.precision = model.name, precision
    if encoder.contract.is_classifier:
        what = CLASSIFIER.format(encoder.name)
        encoder.note(f"note: {what}; it scores pairs: contrast mine PAIRS --score-with {shlex.quote(encoder.name)}")
    if encoder.contract.similarity != "cosine" and not encoder.contract.normalizes:
        how = encoder.contract.similarity
        encoder.note(f"note: {encoder.name} compares by {how}, and its scores and answers here are by cosine")
    if dim is not None:
        encoder.set_dim(dim)
    if normalize and not encoder.contract.normalizes:
        encoder.put_under(replace(encoder.contract, after=nn.Sequential(*encoder.after, Normalize())))
    return encoder


def load_encoder(folder: Path, pooling: Pooling | None = None, *, merge: bool = True) -> SentenceEncoder:
    """The model in a folder; another `pooling` than its own drops the layers that follow, but for unit length.

    An adapter is added to the weights of its base, or with `merge` off kept apart from them, for training.

    Raises DataError for missing, damaged or broken files and for unsupported modules.
    """
    checksums.check(folder)
    contract = read_contract(folder)
    return make_encoder(contract if pooling is None else contract.with_pooling(pooling)[0], merge=merge)


def make_encoder(contract: Contract, *, merge: bool = True) -> SentenceEncoder:
    """The backbone of a contract under it. Raises DataError."""
    folder, takes_pooler = contract.backbone, contract.pooling == "pooler"
    # In memory and in a saved folder the pooler is CLS and a dense layer.
    if takes_pooler:
        contract = replace(contract, pooling="cls", after=nn.Sequential(_pooler(base_folder(folder)), *contract.after))
    if contract.is_static:
        backbone, tokenizer = load_static(contract)
    else:
        backbone = load_with_adapter(folder, merge=merge, attention=contract.attention)
        tokenizer = Tokenizer(folder, lowercase=contract.lowercase, suffix=contract.suffix)
    if takes_pooler and isinstance(backbone, BertBackbone):
        backbone.pooler = {}
    encoder = (StaticEncoder if contract.is_static else SentenceEncoder)(backbone, tokenizer, contract)
    if tokenizer.largest_id >= backbone.vocab_size:
        what = f"the tokenizer of {folder} has the id {tokenizer.largest_id}, the model {backbone.vocab_size} tokens"
        raise DataError(what, ["add its tokens to the model: resize_token_embeddings, then save_pretrained", DOWNLOAD])
    if len(tokenizer.added) >= encoder.max_length:
        limit = f"at most {encoder.max_length} tokens, of which its tokenizer adds {len(tokenizer.added)}"
        raise DataError(f"texts of {folder} have {limit}", DOWNLOAD)
    check_pooling(contract, tokenizer)
    width = _width(contract, backbone.width)
    if contract.truncate_dim and contract.truncate_dim < width:
        # As in sentence-transformers, where they are not of unit length.
        encoder.put_under(contract.shortened(contract.truncate_dim, width, rescale=False))
    return encoder


def _width(contract: Contract, width: int) -> int:
    """That of embeddings, given that of the pooled ones. Raises DataError for layers that do not fit."""
    for layer in contract.after:
        if isinstance(layer, Dense):
            if layer.linear.in_features != width:
                dense = f"a dense layer of {contract.backbone}"
                raise DataError(f"{dense} takes {layer.linear.in_features} numbers, and gets {width}", DOWNLOAD)
            width = layer.linear.out_features
    return width


def check_pooling(contract: Contract, tokenizer: Tokenizer) -> None:
    """Raises DataError where a tokenizer lacks the token that a pooling is about, or a static model has another."""
    if contract.is_static and contract.pooling != "mean":
        what = f"{contract.backbone} is a static model, and takes the mean of its tokens"
        raise DataError(what, Use("--pooling", verb="leave out"))
    if contract.pooling == "mean-no-cls" and tokenizer.cls_id < 0:
        what = f"the tokenizer of {contract.backbone} has no CLS token to leave out"
        raise DataError(what, Use("--pooling", "mean", "use"))
    if contract.pooling == "mask" and tokenizer.mask_id not in tokenizer.added:
        what = f"mask pooling has no mask token in what follows every text, '{contract.suffix}'"
        raise DataError(what, Use("--suffix", f"'{MASK_SUFFIX}'", "use"))


def _pooler(folder: Path) -> Dense:
    """BERT's own layer on CLS, which comes with some weights."""
    names = {name[name.find("pooler.dense.") :]: tensor for name, tensor in read_weights(folder).items()}
    weight, bias = (names.get(name) for name in POOLER)
    if weight is None or bias is None or weight.shape != (len(bias), len(bias)):
        raise DataError(f"{folder} has no weights of a pooler", Use("--pooling", "cls", "use"))
    dense = Dense(len(bias), len(bias))
    dense.linear.load_state_dict({"weight": weight, "bias": bias})
    return dense


def save_encoder(encoder: SentenceEncoder, folder: Path) -> None:
    """Write a new model folder, which sentence-transformers and transformers load too."""
    folder.mkdir(parents=True, exist_ok=True)
    backbone, tokenizer, limit = encoder.backbone, encoder.tokenizer, encoder.max_length
    if backbone.adapter:
        save_adapter(backbone, folder)
    else:
        backbone.save(folder)
    tokenizer.save(folder, limit)
    is_bare = isinstance(backbone, BertBackbone) and backbone.lacks_pooler
    options = {"model_args": {"add_pooling_layer": False}} if is_bare else {}
    write_contract(encoder.contract, folder, tokenizer, (backbone.width, backbone.layers), limit, options)
