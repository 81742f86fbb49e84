"""Two processes that share a batch take the steps that one process takes."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file

from contrastcli.errors import UsageError
from contrastcli.runs.directory import Run
from contrastcli.runs.events import Done, Note, Started
from contrastcli.runs.measured import Probed, Step, Violated
from contrastcli.runs.process import exclude
from contrastcli.training import distributed, process
from contrastcli.training.distributed import World
from contrastcli.training.plan import make_plan
from support import train_runs
from support.tiny import Tiny, on_step, told, train
from support.waiting import wait_until

CASES: dict[str, tuple[str, str, dict[str, object]]] = {
    "pairs": ("simcse", "pairs", {"dev__probes": "ba | da; ba da | den"}),
    "hard-negatives": ("simcse", "triplets", {"train__token_budget": 240, "model__head": "keep"}),
    "several-negatives": ("simcse", "negatives", {"train__token_budget": 240, "model__head": "train-only"}),
    "mined": ("simcse", "pairs", {"data__mine_every": 2, "data__mine_below": 0}),
    "excluded": ("simcse", "triplets", {"data__limit": 8, "train__epochs": 3, "train__log_every": 2}),
    "scored": ("aoe", "scored", {"train__token_budget": 400}),
    "masked-tokens": ("simcse", "triplets", {"objective__mlm_weight": 0.5, "train__token_budget": 400}),
    "labelled": ("pairsupcon", "labelled", {"train__weight_decay": 0.1, "model__head": "train-only"}),
    "peer": ("pcl", "sentences", {"train__token_budget": 2400, "model__head": "train-only"}),
    "teacher": ("rankcse", "pairs", {"objective__distillation": "listnet"}),
    "adapter": ("simcse", "pairs", {"model__lora": 4, "model__lora_dropout": 0.1}),
    "one-chunk": ("simcse", "pairs", {"train__token_budget": 4000, "train__batch_size": 2}),
    "stopped-early": ("simace", "sentences", {"dev__every": 1, "dev__patience": 1, "train__lr": 1e-9}),
}
EXACT = 1e-6
"""A hundredth of the length of a step. Two processes multiply the same chunks: only sums of gradients differ."""


def settings(case: str) -> dict[str, object]:
    """Three steps; the rate is small, because Adam takes a whole step even where the gradient is only rounding."""
    return {"train__max_steps": 3, "train__lr": 1e-4, "train__token_budget": 600, "dev__every": 3} | CASES[case][2]


def run_of(tiny: Tiny, folder: Path, case: str) -> Run:
    objective, form, _ = CASES[case]
    run = tiny.run(folder / case, objective, form, **settings(case))
    if case == "excluded":  # one batch of eight rows has both texts
        first, second = map(json.loads, tiny.data[form].read_text().splitlines()[:2])
        exclude(run, first["anchor"], second["negative"])
    return run


def start(
    *runs: Run, by: str = "torchrun", size: int = 2, program: tuple[str, ...] = (train_runs.__file__,), **variables: str
) -> list[subprocess.Popen[str]]:
    """The processes of a world, as torchrun or srun starts them."""
    names = ["RANK", "LOCAL_RANK", "WORLD_SIZE"]
    if by == "srun":
        names = ["SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS"]
        variables["SLURM_STEP_ID"] = "0"
    command = [sys.executable, *program, *(str(run.path) for run in runs)]
    environment = os.environ | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())} | variables
    ranks = [dict(zip(names, (str(rank), str(rank), str(size)), strict=True)) for rank in range(size)]
    return [subprocess.Popen(command, env=environment | one, stderr=subprocess.PIPE, text=True) for one in ranks]


def free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])


RESUMED = "hard-negatives"
"""The case that one process begins and two continue."""


def by_two(tiny: Tiny, folder: Path) -> dict[str, Run]:
    """Every case, trained by one pair of processes."""
    runs = {case: run_of(tiny, folder, case) for case in CASES}
    train(runs[RESUMED], on_step(1, runs[RESUMED].stop_path.touch))
    processes = start(*runs.values(), by="srun")
    errors = [process.communicate(timeout=600)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], errors
    return runs


@pytest.mark.slow
def test_two_processes_equal_one(tiny: Tiny, tmp_path: Path) -> None:
    """One test of all cases, so that one pair of processes trains them; another that resumes says so."""
    runs = by_two(tiny, tmp_path / "two")
    for case, two in runs.items():
        one = run_of(tiny, tmp_path / "one", case)
        train(one)
        check_steps(one, two, case)
        check_weights(one, two, case)
    assert [event.resumed_from for event in told(runs[RESUMED], Started)] == [None, 1]
    assert [event.text for event in told(runs[RESUMED], Note)] == ["resumed with processes 2 (was 1)"]
    # Training moved the weights far beyond that tolerance.
    before = load_file(tiny.backbone / "model.safetensors")
    after = load_file(runs["pairs"].checkpoint("last") / "model.safetensors")
    assert all(float((after[name] - before[name]).abs().max()) > 10 * EXACT for name in after)


def check_steps(one: Run, two: Run, case: str) -> None:
    steps = [[event for event in run.events() if isinstance(event, Step)] for run in (one, two)]
    assert len(steps[0]) == len(steps[1]) > 0 and two.status().state == "finished", case
    for expected, shared in zip(*steps, strict=True):
        assert shared.loss == pytest.approx(expected.loss, rel=EXACT), case
        assert shared.parts == pytest.approx(expected.parts, rel=10 * EXACT), case
        assert shared.grad_norm == pytest.approx(expected.grad_norm, rel=10 * EXACT), case
    left_out = [[event.text for event in told(run, Note) if "left out" in event.text] for run in (one, two)]
    assert left_out == [["pairs left out of the negatives: 1"] * (case == "excluded")] * 2, case
    probed = [[list(event.angles.values()) for event in told(run, Probed)] for run in (one, two)]
    assert len(probed[0]) == 2 * (case == "pairs"), case
    violated = [[(event.step, len(event.anchors)) for event in told(run, Violated)] for run in (one, two)]
    assert violated[0] == violated[1] and bool(violated[0]) == (case == "excluded"), case
    for angles, shared_angles in zip(*probed, strict=True):
        assert shared_angles == pytest.approx(angles, abs=1e-2), case


def check_weights(one: Run, two: Run, case: str) -> None:
    model = "adapter_model.safetensors" if case == "adapter" else "model.safetensors"
    for name in (model, "training/heads.safetensors"):
        expected_weights, shared_weights = (load_file(run.checkpoint("last") / name) for run in (one, two))
        assert expected_weights.keys() == shared_weights.keys(), case
        for key, weight in expected_weights.items():
            shared = shared_weights[key]
            if key.endswith("qkv.bias"):
                (query, _, value), (shared_query, _, shared_value) = weight.chunk(3), shared.chunk(3)
                weight, shared = torch.cat([query, value]), torch.cat([shared_query, shared_value])
            if not key.endswith("key.bias"):  # no score depends on it: its gradient is rounding
                exact = 1e-2 if key == "violations_angles" else EXACT
                torch.testing.assert_close(shared, weight, rtol=0, atol=exact, msg=f"{case}: {name} {key}")


@pytest.mark.slow
def test_memory_that_runs_out_in_one_process_makes_both_continue_with_smaller_chunks(
    tiny: Tiny, tmp_path: Path
) -> None:
    """In either of the two, as in one that is alone."""
    settings = {"train__max_steps": 4, "train__lr": 1e-4, "train__token_budget": 800, "dev__data": "none"}
    one, *two = (tiny.run(tmp_path / name, "simcse", "triplets", **settings) for name in ("one", "first", "second"))
    processes = start(one, size=1, OUT_OF_MEMORY_RANK="0")
    for full, run in enumerate(two):
        processes += start(run, OUT_OF_MEMORY_RANK=str(full))
    errors = [process.communicate(timeout=600)[1] for process in processes]
    assert [process.returncode for process in processes] == [0] * 5, errors
    text = "memory ran out: the step starts again with at most {} tokens at once"
    for run in (one, *two):
        notes = [(note.step, note.text) for note in told(run, Note)]
        assert notes == [(2, text.format(400)), (3, text.format(200))]
        losses = [step.loss for step in told(run, Step)]
        assert losses == pytest.approx([step.loss for step in told(one, Step)], rel=EXACT)


def test_one_device_for_all_processes_is_refused(tiny: Tiny, tmp_path: Path) -> None:
    run = tiny.run(tmp_path, "simcse", "triplets", train__device="cpu:0")
    with pytest.raises(UsageError, match="is 'cpu:0', for all of 2 processes") as refused:
        process.supervise(run, make_plan(run.config()), lambda event: None, World(rank=1, size=2))
    assert refused.value.hint == "use --device cpu"


def test_two_processes_on_one_gpu_are_refused_with_the_command_for_as_many_as_it_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def gather(uuids: list[str], uuid: str) -> None:
        uuids[:] = ["GPU-0", uuid]

    monkeypatch.setattr(sys, "argv", ["contrast", "train", "--name", "my run"])
    monkeypatch.setattr(distributed, "choose_device", torch.device)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(uuid=f"GPU-{device}"))
    monkeypatch.setattr(torch.distributed, "all_gather_object", gather)
    with pytest.raises(UsageError, match="2 processes have 1 of the GPUs") as refused:
        World(rank=1, size=2).choose_device("cuda")
    assert refused.value.hint.endswith("torchrun --nproc-per-node 1 -m contrastcli train --name 'my run'")
    assert World(rank=1, size=2).choose_device("cpu") == torch.device("cpu")


def test_a_process_says_that_it_waits_for_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    said = SimpleQueue[str]()

    def join(*_: object, **__: object) -> None:
        raise ValueError(said.get(timeout=60))

    monkeypatch.setattr(distributed, "narrate", said.put)
    monkeypatch.setattr(distributed, "PATIENCE_SECONDS", 0)
    monkeypatch.setattr(torch.distributed, "init_process_group", join)
    for name, value in {"SLURM_PROCID": "0", "SLURM_NTASKS": "2", "SLURM_STEP_ID": "3", "SLURM_JOB_ID": "7"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("SLURM_STEP_NODELIST", "node[07-09],other")
    for name in ("WORLD_SIZE", "RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    with pytest.raises(UsageError, match="waiting for the other 1 of 2 processes"):
        distributed.world()
    assert (os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"], os.environ["RANK"]) == ("node07", "20220", "0")


@pytest.mark.slow
@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 75)])
@pytest.mark.parametrize("rank", ["0", "1"])
def test_a_signal_ends_a_process_that_waits_for_the_others(sent: signal.Signals, code: int, rank: str) -> None:
    place = {"WORLD_SIZE": "2", "RANK": rank, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    command = [sys.executable, "-m", "contrastcli", "train", "--preset", "starter", "--no-ui"]
    with subprocess.Popen(command, env=os.environ | place, stderr=subprocess.PIPE, text=True) as waiting:
        assert waiting.stderr and "Ctrl-C ends this one" in waiting.stderr.readline()
        waiting.send_signal(sent)
        assert "nothing was changed" in waiting.communicate(timeout=30)[1] and waiting.returncode == code


def test_the_script_of_a_job_of_several_tasks_is_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_NTASKS", "2")
    monkeypatch.setenv("SLURM_PROCID", "0")
    assert distributed.world() == World()


@pytest.mark.slow
def test_a_lost_process_ends_the_run_with_its_reason(tiny: Tiny, tmp_path: Path) -> None:
    run = tiny.run(tmp_path, "simcse", "triplets", train__max_steps=10_000, train__epochs=10_000, dev__every=20_000)
    main, other = start(run)
    wait_until(lambda: bool(told(run, Step)) or other.poll() is not None)
    other.kill()
    errors = main.communicate(timeout=600)[1]
    other.communicate()
    end = told(run, Done)[-1]
    assert (main.returncode, end.status, end.code) == (1, "failed", 1), errors
    assert end.message.startswith("process 0 of 2 lost another one") and "resume" in end.hint
    assert not re.search(r"\.(cc|cpp|h)\b|\. [A-Z]", end.message), end.message


@pytest.mark.slow
@pytest.mark.parametrize("stopped", [0, 1])
def test_a_process_that_stands_still_ends_the_others_with_its_name(tiny: Tiny, tmp_path: Path, stopped: int) -> None:
    run = tiny.run(tmp_path, "simcse", "triplets", train__max_steps=10_000, train__epochs=10_000, dev__every=20_000)
    processes = start(run, BEAT_SECONDS="0.1")
    still, other = processes[stopped], processes[1 - stopped]
    wait_until(lambda: bool(told(run, Step)) or other.poll() is not None)
    still.send_signal(signal.SIGSTOP)
    errors = other.communicate(timeout=60)[1]
    still.kill()
    still.communicate()
    what = f"process {stopped} of 2 has not responded for 4 s: pid {still.pid} on {socket.gethostname()}"
    assert other.returncode == 1 and what in errors, errors
    if stopped:
        assert (told(run, Done)[-1].message, told(run, Done)[-1].status) == (what, "failed")
        assert told(run, Done)[-1].hint == f"end it there: kill -KILL {still.pid}, then resume the run"


@pytest.mark.slow
def test_the_main_process_may_mine_for_as_long_as_it_takes(tiny: Tiny, tmp_path: Path) -> None:
    run = run_of(tiny, tmp_path, "mined")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    environment = os.environ | {"BEAT_SECONDS": "0.1", "MINING_SECONDS": "5"}
    subprocess.run([*command, train_runs.__file__, str(run.path)], env=environment, check=True, timeout=120)
    assert run.status().state == "finished"


ENDS_FIRST = """
import os, signal, time
from contrastcli.training import distributed

class Late:
    def __del__(self, sleep=time.sleep):
        sleep(2)

distributed.BEAT_SECONDS = 0.1
late = Late()
distributed.world().any(False)
if os.environ["RANK"] == "0":
    os.kill(os.getpid(), signal.SIGSTOP)
time.sleep(0.5)
"""
"""Process 0, which has the store, stands still, while the other one ends, for which Python takes two seconds."""


@pytest.mark.slow
def test_a_process_ends_well_where_the_store_answers_late() -> None:
    first, other = start(program=("-c", ENDS_FIRST))
    os.waitid(os.P_PID, first.pid, os.WSTOPPED | os.WNOWAIT)
    time.sleep(1.5)
    first.send_signal(signal.SIGCONT)
    errors = [process.communicate(timeout=60)[1] for process in (first, other)]
    assert [first.returncode, other.returncode] == [0, 0], errors


OPTIMIZES = """
import atexit, sys
from pathlib import Path
from queue import SimpleQueue

atexit.register(lambda: sys.stderr.writelines(path.read_text() for path in Path("/proc/self/task").glob("*/comm")))
import torch
from contrastcli.training import distributed
world = distributed.world()
torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))])
world.any(False)
"""
"""Prints the names of the threads that are left when Python ends."""


@pytest.mark.slow
def test_no_thread_of_the_processes_is_left_to_be_ended_with_python() -> None:
    threads = [process.communicate(timeout=60)[1] for process in start(program=("-c", OPTIMIZES))]
    assert all("python" in names and "gloo" not in names for names in threads), threads
