"""Several processes as one: `torchrun` starts them, and the result equals one process with the whole batch.

Each process runs its share of a batch's chunks; the embeddings are gathered, every process takes the same loss over
the whole batch, and carries the gradient back through its own chunks. Chunk seeds depend on the chunk's number, not
on the process; on a CPU the chunks are the same for any number of processes, so dropout is the same too.
"""

import atexit
import importlib
import itertools
import os
import re
import shlex
import socket
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache, partial
from threading import Event, Thread, Timer
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from contrastcli.boundary import narrate
from contrastcli.errors import RunError, UsageError, Use, error_text
from contrastcli.model.devices import choose_device, is_out_of_memory
from contrastcli.runs.process import slurm_tasks

T = TypeVar("T")

PATIENCE_SECONDS = 10.0
"""After which a process says that it is waiting for the others to start."""

BEAT_SECONDS = 5.0
"""Between two signs of life of a process, which it gives while it mines or waits too."""
PATIENT_BEATS = 36
"""Signs of life that a process gives without one of another, before it takes that for dead: three minutes."""

_LONGEST_WAIT = timedelta(hours=3)
"""The main process may mine for so long. One that is lost is noticed earlier."""
_LONGEST_STEP = timedelta(minutes=10)
"""GPUs wait for one another within a step only, without noticing that one is lost."""


@dataclass(frozen=True)
class World:
    """This process among all."""

    rank: int = 0
    size: int = 1
    silent: list[str] = field(default_factory=list, compare=False)
    """What is wrong with a process that does not respond, and the remedy; empty where all do."""

    @property
    def is_main(self) -> bool:
        """Whether this process writes events and checkpoints."""
        return self.rank == 0

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum over processes, in place. Raises RunError where a process is lost, as all methods do."""
        self._together(dist.all_reduce, tensor)
        return tensor

    def broadcast_tensors(self, tensors: Sequence[Tensor]) -> None:
        """The main process's values of tensors, in place, where each process has computed them and may have rounded."""
        for tensor in tensors:
            self._together(dist.broadcast, tensor, 0)

    def sum_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Add up the gradients that each process's chunks left; a parameter that has none anywhere keeps none.

        Many travel at once. A sparse one, the word embedding's on a CPU, travels as its rows.
        """
        self._together(_sum_gradients, list(parameters))

    def any(self, flag: bool) -> bool:
        return bool(self.sum(torch.tensor(float(flag))).item())

    def broadcast(self, value: T) -> T:
        """The main process's value, on every process."""
        values = [value]
        self._together(dist.broadcast_object_list, values)
        return values[0]

    @contextmanager
    def fail_together(self) -> Iterator[None]:
        """Raise OutOfMemoryError on every process where memory runs out in the body of one, so that none waits for it.

        Nothing in the body may wait for other processes.
        """
        try:
            yield
        except RuntimeError as error:
            if is_out_of_memory(error):
                self.any(True)
            raise
        if self.any(False):
            raise torch.OutOfMemoryError("memory ran out in another process")

    def choose_device(self, wanted: str) -> torch.device:
        """The device of that name for this process. Raises UsageError where it is not one for each."""
        device = choose_device(wanted)
        if self.size > 1 and device.index is not None:
            what = f"train.device is '{device}', for all of {self.size} processes"
            raise UsageError(what, Use("--device", device.type, "use"))
        if self.size > 1 and device.type == "cuda":
            self._connect_gpus()
        return device

    def _connect_gpus(self) -> None:
        """Let NCCL find the GPUs of all processes. Raises UsageError where it does not, or where two share one."""
        uuids = [""] * self.size
        uuid = torch.cuda.get_device_properties(torch.cuda.current_device()).uuid
        self._together(dist.all_gather_object, uuids, str(uuid))
        if len(set(uuids)) < self.size:
            words = ["torchrun", "--nproc-per-node", str(torch.cuda.device_count()), "-m", "contrastcli", *sys.argv[1:]]
            what = f"{self.size} processes have {len(set(uuids))} of the GPUs, and each needs one of its own"
            raise UsageError(what, f"start one for each GPU of a machine: {shlex.join(words)}")
        try:
            _nccl()._set_default_timeout(_LONGEST_STEP)
            dist.all_reduce(torch.zeros(1, device="cuda"))
        except RuntimeError as error:
            what = f"the GPUs of {self.size} processes cannot reach each other: {_reason(error)}"
            raise UsageError(what, "NCCL_DEBUG=INFO before the command shows why; one process needs no NCCL") from None

    def _together(self, function: Callable[..., object], *inputs: object) -> None:
        """Do what all processes do at the same time, unless this one is alone."""
        try:
            if self.size > 1:
                function(*inputs)
        except RuntimeError as error:
            if self.silent:
                raise RunError(*self.silent) from None
            if is_out_of_memory(error):
                what = f"memory ran out in process {self.rank} of {self.size}, while others wait for it"
                raise RunError(what, "resume the run with a smaller --token-budget") from None
            _release_gpu()
            what = f"process {self.rank} of {self.size} lost another one: {_reason(error)}"
            raise RunError(what, "the first error on stderr is the cause; fix it, then resume the run") from None


def _reason(error: Exception) -> str:
    """The first sentence of what torch or gloo says, without the place in its sources."""
    return re.sub(r"\[?\S+\.(cc|cpp|cu|h|hpp):\d+[\],:]* ?", "", error_text(error)).partition(". ")[0]


def _sum_gradients(parameters: Sequence[nn.Parameter]) -> None:
    kinds = torch.tensor([0 if p.grad is None else 1 if p.grad.is_sparse else 2 for p in parameters])
    dist.all_reduce(kinds, dist.ReduceOp.MAX)
    for parameter, kind in zip(parameters, kinds.tolist(), strict=True):
        if kind == 2:
            gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.to_dense()
            parameter.grad = gradient.contiguous()
        elif kind and parameter.grad is None:
            none = torch.zeros(1, 0, dtype=torch.int64), parameter.new_zeros(0, *parameter.shape[1:])
            parameter.grad = torch.sparse_coo_tensor(*none, parameter.shape)
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    travelling = [dist.all_reduce(dense, async_op=True) for dense in gradients if not dense.is_sparse]
    for sparse in [gradient for gradient in gradients if gradient.is_sparse]:
        dist.all_reduce(sparse)
    for work in travelling:
        work.wait()


def _nccl() -> Any:
    return dist.distributed_c10d._get_default_group()._get_backend(torch.device("cuda"))


def _release_gpu() -> None:
    """End the work of the GPU that waits for a lost process's: this one would wait for it, even at its end."""
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        _nccl().abort()


def world() -> World:
    """The processes that torchrun or srun started, or just this one. Raises UsageError where they cannot be joined."""
    if "WORLD_SIZE" not in os.environ:
        os.environ.update(_of_slurm(os.environ))
    if os.environ.get("WORLD_SIZE", "1") == "1":
        return World()
    try:
        return _join()
    except (ValueError, RuntimeError) as error:
        what = f"this process cannot join the others of WORLD_SIZE: {_reason(error)}"
        raise UsageError(what, "start all with torchrun, or unset WORLD_SIZE to train with one") from None


def _of_slurm(given: Mapping[str, str]) -> dict[str, str]:
    """Torchrun's variables for a task that srun started with others."""
    if (size := slurm_tasks(given)) == "1":
        return {}
    first = re.match(r"([^\[,]+)(?:\[(\d+))?", given.get("SLURM_STEP_NODELIST", ""))
    port = 20_000 + (31 * int(given.get("SLURM_JOB_ID", "0")) + int(given["SLURM_STEP_ID"])) % 20_000
    return {
        "WORLD_SIZE": size,
        "RANK": given["SLURM_PROCID"],
        "LOCAL_RANK": given.get("SLURM_LOCALID", "0"),
        "MASTER_ADDR": given.get("MASTER_ADDR", "".join(filter(None, first.groups())) if first else "127.0.0.1"),
        "MASTER_PORT": given.get("MASTER_PORT", str(port)),
    }


@cache
def _join() -> World:
    if torch.cuda.is_available():
        # "cuda" then means this process's own; a scheduler may show each process but one
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
        # NCCL's watchdog else aborts the process that lost another one, which then cannot say so.
        os.environ.setdefault("TORCH_NCCL_ASYNC_ERROR_HANDLING", "2")
    # gloo carries what stays on the CPU, nccl what lives on a GPU
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    # Otherwise torch warns of it, on each process.
    torch.sparse.check_sparse_tensor_invariants.disable()  # type: ignore[no-untyped-call]
    # Imported later, by an optimizer, its functions' defaults keep the group and its threads until Python has ended.
    importlib.import_module("torch.distributed.nn")
    size = int(os.environ["WORLD_SIZE"])
    rank = os.environ.get("RANK", "0")
    if int(rank) not in range(size):
        raise ValueError(f"RANK is {rank}, and {size} processes are numbered from 0")
    _call(partial(dist.init_process_group, backend, timeout=_LONGEST_WAIT), size)
    # Threads that it leaves running may abort the process at its end.
    atexit.register(dist.destroy_process_group)
    joined, ended = World(dist.get_rank(), dist.get_world_size()), Event()
    watch = Thread(target=_watch, args=(joined, ended), name="watch", daemon=True)
    watch.start()
    # A thread that waits for the store's answer while Python ends aborts the process.
    atexit.register(watch.join, PATIENT_BEATS * BEAT_SECONDS)
    atexit.register(ended.set)
    return joined


def _call(join: Callable[[], None], size: int) -> None:
    """Join the others, in a thread of its own, since no signal is seen where torch waits. Raises what `join` raises."""
    errors = list[Exception]()

    def attempt() -> None:
        try:
            join()
        except Exception as error:
            errors.append(error)

    joining = Thread(target=attempt, name="joining", daemon=True)
    joining.start()
    joining.join(PATIENCE_SECONDS)
    if joining.is_alive():
        narrate(f"waiting for the other {size - 1} of {size} processes; Ctrl-C ends this one")
        joining.join()
    for error in errors:
        raise error


def _watch(world: World, ended: Event) -> None:
    """Give signs of life, and end what this process waits for where another gives none.

    The main process watches all others, and these watch it. Beats are counted, not seconds: a whole group may be
    stopped for an hour and continued.
    """
    signs, missed = dict[int, str](), Counter[int]()
    patience = PATIENT_BEATS * BEAT_SECONDS
    # The store ends with its process.
    with suppress(dist.DistError):
        address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        store = TCPStore(*address, is_master=False, timeout=timedelta(seconds=2 * patience))
        for beat in itertools.count():
            store.set(f"sign {world.rank}", f"{socket.gethostname()} {os.getpid()} {beat}")
            for other in range(1, world.size) if world.is_main else range(1):
                # A store whose process stands still does not answer.
                overdue = Timer(patience, _disconnect, [world, other, signs.get(other, "")])
                overdue.daemon = True
                overdue.start()
                sign = store.get(f"sign {other}").decode()
                overdue.cancel()
                missed[other] = missed[other] + 1 if sign == signs.get(other) else 0
                signs[other] = sign
                if missed[other] > PATIENT_BEATS:
                    return _disconnect(world, other, sign)
            if ended.wait(BEAT_SECONDS):
                return


def _disconnect(world: World, other: int, sign: str) -> None:
    """Have all that waits for other processes fail, since one, with this last sign of life, does not respond."""
    import psutil

    host, pid, _ = sign.split() or ("its host", "PID", "")
    what = f"process {other} of {world.size} has not responded for {PATIENT_BEATS * BEAT_SECONDS:.0f} s"
    world.silent[:] = [f"{what}: pid {pid} on {host}", f"end it there: kill -KILL {pid}, then resume the run"]
    for one in psutil.Process().net_connections("tcp"):
        if one.status == psutil.CONN_ESTABLISHED:
            with suppress(OSError), socket.socket(fileno=os.dup(one.fd)) as own:
                own.shutdown(socket.SHUT_RDWR)
    _release_gpu()
