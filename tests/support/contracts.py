"""Encoders under another contract than their folder's."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from contrastcli.model.encoder import SentenceEncoder
from contrastcli.model.folder import load_encoder, save_encoder
from contrastcli.model.pooling import Dense, Normalize

SCALE = 4.0
"""Numbers on the way through the layers of `write_embedder`, as multiples of its embeddings of unit length: most
cancel, and the layer norm divides by what is left."""

PROMPTS = {"query": "den ba ", "document": "fir go lum ", "other": "bum "}


def under(encoder: SentenceEncoder, *after: nn.Module, prompt: str | None = None, **changes: Any) -> SentenceEncoder:
    """The encoder with other fields of its contract: layers after the pooling, a default prompt, and by name."""
    if after:
        changes["after"] = nn.Sequential(*after)
    if prompt is not None:
        changes |= {"prompts": dict.fromkeys(("default", "query", "document"), prompt), "default": "default"}
    encoder.put_under(replace(encoder.contract, **changes))
    return encoder


def dense(encoder: SentenceEncoder, width: int = 7, activation: nn.Module | None = None) -> Dense:
    """A layer of fixed weights that fits behind the pooling of an encoder."""
    layer = Dense(encoder.backbone.width, width, activation=activation)
    nn.init.normal_(layer.linear.weight, generator=torch.Generator().manual_seed(3))
    return layer


def norm(width: int) -> nn.LayerNorm:
    """A layer norm of fixed weights."""
    layer, draw = nn.LayerNorm(width), torch.Generator().manual_seed(4)
    for parameter in layer.parameters():
        nn.init.normal_(parameter, generator=draw)
    return layer


def write_embedder(backbone: Path, folder: Path) -> Path:
    """A model as people publish it: prompts by name, any layers after the pooling, a limit of 12 tokens."""
    encoder = load_encoder(backbone)
    wide, narrow = dense(encoder, 40, nn.Identity()), Dense(40, 6, bias=False, activation=nn.GELU())
    nn.init.normal_(narrow.linear.weight, generator=torch.Generator().manual_seed(5))
    save_encoder(under(encoder, Normalize(), wide, norm(40), narrow, Normalize(), prompts=PROMPTS), folder)
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 12, "do_lower_case": False}))
    return folder


def by_hand(encoder: SentenceEncoder, text: str) -> NDArray[np.float64]:
    """One text alone: its token vectors, pooled, through the layers one by one."""
    ids = torch.tensor(encoder.tokenizer.encode([encoder.contract.prompt() + text], encoder.max_length))
    with torch.no_grad():
        first, penultimate, last = (layer[0].double() for layer in encoder.backbone.eval()(ids, None))
        tokens = {
            "cls": last[:1],
            "mean": last,
            "mean-no-cls": last[1:],
            "first-last": torch.cat([first, last]),
            "last-mean": torch.cat([penultimate, last]),
            "last": last[-1:],
            "mask": last[ids[0] == encoder.tokenizer.mask_id],
        }[encoder.contract.pooling]
        vector = tokens.mean(dim=0)
        for layer in encoder.after:
            vector = vector / vector.norm() if isinstance(layer, Normalize) else layer.double()(vector)
            layer.float()
    return np.asarray(vector)
