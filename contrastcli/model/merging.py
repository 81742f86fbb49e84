"""Merged models: weights between those of a base and of runs that began from it.

(1 − α)·base + α·run is WiSE-FT (Wortsman et al. 2022, "Robust fine-tuning of zero-shot models"), of embeddings
LM-Cocktail (Xiao et al. 2023). Of several runs the mean takes part: a model soup (Wortsman et al. 2022, "Model soups").
"""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from contrastcli.errors import UsageError
from contrastcli.model.contract import Contract
from contrastcli.model.devices import choose_device
from contrastcli.model.encoder import SentenceEncoder
from contrastcli.model.folder import load_encoder
from contrastcli.model.locate import ModelRef
from contrastcli.model.prompts import PROMPT_NAMES

Weights = Mapping[str, Tensor]
"""The tensors of an encoder by name, those of layers after the pooling too; in float32, or whole numbers."""


@dataclass(frozen=True)
class Mixture:
    """The weights of a base, the mean of those of runs, and an encoder, else as the first run, for what is between."""

    encoder: SentenceEncoder
    base: Weights
    run: Weights

    def at(self, alpha: float) -> SentenceEncoder:
        """The encoder with the weights (1 − alpha)·base + alpha·run: at 0 and 1 those of the one, to the bit."""
        for name, tensor in self.encoder.state_dict().items():
            base, run = self.base[name], self.run[name]
            if 0 < alpha < 1 and run.is_floating_point():
                run = (1 - alpha) * base + alpha * run
            tensor.copy_(run if alpha else base)
        return self.encoder


def load_mixture(base: ModelRef, runs: Sequence[ModelRef]) -> Mixture:
    """Load the models, an adapter added to the weights that it is of.

    Raises DataError where one cannot be loaded, UsageError where tensors, vocabularies or contracts differ.
    """
    encoder = load_encoder(runs[0].folder()).eval()
    mean = {name: tensor.clone() for name, tensor in encoder.state_dict().items()}
    floating = [tensor for tensor in mean.items() if tensor[1].is_floating_point()]
    for run in runs[1:]:
        weights = _load_alike(run, encoder, runs[0])
        for name, tensor in floating:
            tensor += weights[name]
    for _, tensor in floating:
        tensor /= len(runs)
    return Mixture(encoder.to(choose_device("auto")), _load_alike(base, encoder, runs[0]), mean)


def _load_alike(model: ModelRef, first: SentenceEncoder, run: ModelRef) -> Weights:
    """The weights of a model. Raises UsageError where more than their values is not as in the first run."""
    other = load_encoder(model.folder())
    # A bare backbone gets its contract from training.
    contract = other.contract if other.contract.is_stated else first.contract
    facts, others = _facts(first, first.contract), _facts(other, contract)
    for name in [*facts, *others]:
        if facts.get(name) != others.get(name):
            differs = f"{others.get(name, 'missing')} in {model.name}, and {facts.get(name, 'missing')} in {run.name}"
            hint = "merge models of one backbone, trained without --head, --pooling, --prompts, --suffix or --attention"
            raise UsageError(f"models that differ cannot be merged: {name} is {differs}", hint)
    return other.state_dict()


def _facts(encoder: SentenceEncoder, contract: Contract) -> dict[str, object]:
    """What has to be equal, by name: the vocabulary, the contract, and the shapes of all tensors."""
    tokens = encoder.tokenizer.vocabulary()
    return {
        "the vocabulary": f"of {len(tokens):,} tokens ({zlib.crc32(' '.join(tokens).encode()):08x})",
        "the attention": contract.attention,
        "the pooling": " → ".join(contract.steps()),
        "what prompts add": [contract.prompt(kind) for kind in (None, *PROMPT_NAMES)],
        "pooling of prompts": contract.include_prompt,
        "the suffix": contract.suffix,
        **{name: "×".join(map(str, tensor.shape)) for name, tensor in encoder.state_dict().items()},
    }
