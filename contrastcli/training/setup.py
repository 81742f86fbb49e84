"""From a plan to a trainer: weights, tokens, heads and optimiser, fresh or as a checkpoint left them."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import torch
from torch import nn

from contrastcli.data.tokens import tokenise
from contrastcli.errors import DataError
from contrastcli.files import writing_to
from contrastcli.model.devices import choose_precision, default_budget
from contrastcli.model.encoder import Dense, SentenceEncoder
from contrastcli.model.folder import load_encoder
from contrastcli.model.locate import resolve
from contrastcli.runs.events import Note, Progress
from contrastcli.settings.config import Config
from contrastcli.training import checkpoint
from contrastcli.training.batch import Batcher
from contrastcli.training.checkpoint import Position
from contrastcli.training.dev import DevSet
from contrastcli.training.distributed import World
from contrastcli.training.loop import Emit, Trainer
from contrastcli.training.mlm import MaskedLanguageModel, load_mlm
from contrastcli.training.objective import make_heads, make_loss
from contrastcli.training.optim import make_optimizer
from contrastcli.training.plan import Plan
from contrastcli.training.seeds import FRESH, set_seed
from contrastcli.training.step import Stepper
from contrastcli.training.teachers import Teachers
from contrastcli.training.views import Perturber


def make_trainer(
    run: Path, plan: Plan, device: torch.device, emit: Emit, should_stop: Callable[[], bool], world: World
) -> Trainer:
    """Load or restore everything that the run needs. Raises DataError and UsageError."""
    config = plan.config
    folder = _last_checkpoint(run, world)
    set_seed(config.train.seed, 0, FRESH)
    encoder = _encoder(config, folder).to(device)
    mlm = load_mlm(resolve(config.model.backbone).folder(), encoder, config.objective)
    peer = make_peer(encoder) if config.spec.peer else None
    extras = _extras(config, encoder, mlm, peer).to(device)
    optimizer = make_optimizer(config.train, encoder, extras)
    position = checkpoint.restore(folder, extras, optimizer) if folder else Position()
    stepper = Stepper(
        encoder=encoder,
        peer=peer,
        teachers=_teachers(plan, device, emit),
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
    batcher = _batcher(plan, encoder, emit)
    return Trainer(run, plan, encoder, extras, optimizer, batcher, stepper, dev, emit, should_stop, world, position)


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
    encoder = load_encoder(resolve(config.model.backbone).folder(), config.model.pooling)
    encoder.dense, encoder.normalize, encoder.prompt = None, False, ""
    encoder.max_length = encoder.backbone.max_length
    if config.model.head == "keep":
        encoder.dense = Dense(encoder.backbone.width, encoder.backbone.width)
    return encoder


def make_peer(encoder: SentenceEncoder) -> SentenceEncoder:
    """A second encoder that begins as the first one's backbone, in training mode. Both share one projection."""
    return SentenceEncoder(deepcopy(encoder.backbone), encoder.tokenizer, encoder.pooling).train()


def _extras(
    config: Config, encoder: SentenceEncoder, mlm: MaskedLanguageModel | None, peer: SentenceEncoder | None
) -> nn.ModuleDict:
    """What is trained beside the encoder and dropped after training."""
    width = encoder.backbone.width
    extras = nn.ModuleDict({"heads": make_heads(config.spec, encoder.width)})
    extras["projection"] = Dense(width, width) if config.model.head == "train-only" else nn.Identity()
    if mlm:
        extras["mlm"] = mlm
    if peer:
        extras["peer"] = peer
    return extras


def _dict(module: nn.Module) -> nn.ModuleDict:
    assert isinstance(module, nn.ModuleDict)
    return module


def _teachers(plan: Plan, device: torch.device, emit: Emit) -> Teachers | None:
    """What the teachers make of the corpus, from the cache where they have seen it before."""
    if not plan.teachers:
        return None
    return Teachers.of(plan.teachers, plan.corpus.texts, device, _progress("encoding by a teacher", emit))


def _batcher(plan: Plan, encoder: SentenceEncoder, emit: Emit) -> Batcher:
    """The corpus as tokens, and the views that the objective wants of them."""
    config = plan.config
    length = min(config.model.max_length, encoder.backbone.max_length)
    if length < config.model.max_length:
        emit(Note(step=0, text=f"model.max_length is {length}, the most that this backbone reads"))
    table = tokenise(plan.corpus.texts, encoder.tokenizer, length, _progress("tokenising", emit))
    kinds = config.spec.perturbations
    perturber = Perturber.of(kinds, encoder.tokenizer, length, config.train.seed) if kinds else None
    return Batcher(plan.corpus, table, config.data.mask_duplicates, perturber, config.spec.peer)


def _progress(what: str, emit: Emit) -> Callable[[int, int], None]:
    return lambda done, total: emit(Progress(step=0, what=what, done=done, total=total))
