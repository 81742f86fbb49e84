"""From a plan to a trainer: weights, tokens, heads and optimiser, fresh or as a checkpoint left them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from contrastcli.config import Config
from contrastcli.data.tokens import TokenTable, tokenise
from contrastcli.errors import DataError
from contrastcli.events import Note, Progress
from contrastcli.files import writing_to
from contrastcli.model.encoder import Dense, SentenceEncoder
from contrastcli.model.folder import load_encoder
from contrastcli.model.locate import locate
from contrastcli.training import checkpoint
from contrastcli.training.checkpoint import Position
from contrastcli.training.dev import DevSet
from contrastcli.training.devices import choose_precision, default_budget
from contrastcli.training.distributed import World
from contrastcli.training.loop import Emit, Trainer
from contrastcli.training.mlm import MaskedLanguageModel, load_mlm
from contrastcli.training.objective import make_heads, make_loss
from contrastcli.training.optim import make_optimizer
from contrastcli.training.plan import Plan
from contrastcli.training.seeds import FRESH, set_seed
from contrastcli.training.step import Stepper


def make_trainer(
    run: Path, plan: Plan, device: torch.device, emit: Emit, should_stop: Callable[[], bool], world: World
) -> Trainer:
    """Load or restore everything that the run needs. Raises DataError and UsageError."""
    config = plan.config
    folder = _last_checkpoint(run, world)
    set_seed(config.train.seed, 0, FRESH)
    encoder = _encoder(config, folder).to(device)
    mlm = load_mlm(locate(config.model.backbone), encoder, config.objective)
    extras = _extras(config, encoder, mlm).to(device)
    optimizer = make_optimizer(config.train, encoder, extras)
    position = checkpoint.restore(folder, extras, optimizer) if folder else Position()
    stepper = Stepper(
        encoder=encoder,
        table=_tokens(plan, encoder, emit),
        loss=make_loss(config.spec, config.objective),
        heads=_dict(extras["heads"]),
        projection=encoder.dense or extras["projection"],
        mlm=mlm,
        precision=choose_precision(config.train.precision, device),
        run_seed=config.train.seed,
        token_budget=config.train.token_budget or default_budget(device),
        world=world,
    )
    dev = DevSet.of(plan.dev, encoder) if plan.dev else None
    return Trainer(run, plan, encoder, extras, optimizer, stepper, dev, emit, should_stop, world, position)


def _last_checkpoint(run: Path, world: World) -> Path | None:
    """Where to go on from; what a killed process had begun beside it is removed."""
    last = checkpoint.pointers(run).get("last")
    folder = run / "checkpoints" / last if last else None
    if folder and not folder.is_dir():
        raise DataError(f"the checkpoint {folder} is missing", f"restore it: {run / 'checkpoints.json'} names it")
    if world.leads:
        with writing_to(run):
            checkpoint.prune(run)
    return folder


def _encoder(config: Config, checkpoint_folder: Path | None) -> SentenceEncoder:
    """The encoder of the checkpoint, else the backbone with the pooling and head that the settings ask for."""
    if checkpoint_folder:
        return load_encoder(checkpoint_folder)
    encoder = load_encoder(locate(config.model.backbone), config.model.pooling)
    encoder.dense, encoder.normalize, encoder.prompt = None, False, ""
    encoder.max_length = encoder.backbone.max_length
    if config.model.head == "keep":
        encoder.dense = Dense(encoder.backbone.width, encoder.backbone.width)
    return encoder


def _extras(config: Config, encoder: SentenceEncoder, mlm: MaskedLanguageModel | None) -> nn.ModuleDict:
    """What is trained beside the encoder and dropped after training."""
    width = encoder.backbone.width
    extras = nn.ModuleDict({"heads": make_heads(config.spec, encoder.width)})
    extras["projection"] = Dense(width, width) if config.model.head == "train-only" else nn.Identity()
    if mlm:
        extras["mlm"] = mlm
    return extras


def _dict(module: nn.Module) -> nn.ModuleDict:
    assert isinstance(module, nn.ModuleDict)
    return module


def _tokens(plan: Plan, encoder: SentenceEncoder, emit: Emit) -> TokenTable:
    length = min(plan.config.model.max_length, encoder.backbone.max_length)
    if length < plan.config.model.max_length:
        emit(Note(step=0, text=f"model.max_length is {length}, the most that this backbone reads"))

    def progress(done: int, total: int) -> None:
        emit(Progress(step=0, what="tokenising", done=done, total=total))

    return tokenise(plan.corpus.texts, encoder.tokenizer, length, progress)
