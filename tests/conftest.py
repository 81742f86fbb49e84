"""Every test runs offline, on one thread or CONTRAST_TEST_THREADS, and does not touch the user's own files."""

import asyncio
import gc
import inspect
import io
import itertools
import os
import shutil
import signal
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
# Sums depend on the number of threads; processes that tests start inherit it.
os.environ["OMP_NUM_THREADS"] = os.environ.get("CONTRAST_TEST_THREADS", "1")
# Threads of torch that wait for each other leave the cores to others.
os.environ["OMP_WAIT_POLICY"] = "PASSIVE"

import pytest

from contrastcli import files
from contrastcli.data.tokens import TokenTable
from contrastcli.model.encoder import SentenceEncoder
from contrastcli.runs import event_file, process
from contrastcli.runs.directory import Run
from contrastcli.settings.sections import Kind
from contrastcli.training import environment
from support.command import Answer, Contrast
from support.hub import Hub, serving
from support.tiny import Tiny, train, write_tiny

NUMBERS = itertools.count()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fuzz-cases", type=int, default=100, help="how many damaged inputs")
    parser.addoption("--fuzz-seed", type=int, default=0, help="the seed of the damaged inputs")
    parser.addoption("--kills", type=int, default=8, help="how many SIGKILLs")
    parser.addoption("--failures", type=int, default=3, help="of the disk, in each command; 0: every one")
    parser.addoption("--kill-seed", type=int, default=0, help="the seed of their moments")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Most tests of a file run in one process, which imports its libraries and makes its fixtures once.

    What is compiled is kept, for the next run and for the processes that tests start.
    A GPU is for the tests of a GPU: the recorded numbers of others are a CPU's.
    Ctrl-C interrupts, also where a script started the tests in the background.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.getoption("dist", None) == "load":
        config.option.dist = "worksteal"
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    if config.getoption("markexpr") != "gpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The app's tests wait: beside others, which compute meanwhile, not beside each other at the end."""
    items.sort(key=lambda item: "tui" not in item.path.parts)


def pytest_collection_finish() -> None:
    """What is imported by now stays, and little else is garbage: searching both takes a fourteenth of the time."""
    gc.freeze()
    gc.set_threshold(20_000)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> None:
    """Tests of the app are coroutines: each has a loop of its own."""
    test = pyfuncitem.obj
    if inspect.iscoroutinefunction(test):
        pyfuncitem.obj = lambda **fixtures: asyncio.run(test(**fixtures))


@pytest.fixture(autouse=True, scope="session")
def without_waiting() -> Iterator[None]:
    """No test cuts the power, needs a lock that is held, or reads on another machine: waiting would take a third.

    Nor does one install another version of a package: to read them takes a twenty-fifth of a short training.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        patch.setattr(files, "LOCK_WAIT_SECONDS", 0.02)
        patch.setattr(event_file, "POLL_SECONDS", 0.01)
        patch.setattr(process, "POLL_SECONDS", 0.01)
        patch.setattr(environment, "version", cache(version))
        yield


@pytest.fixture(autouse=True)
def own_folders(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Caches, runs and settings for this test alone."""
    home = tmp_path_factory.getbasetemp() / "homes" / str(next(NUMBERS))
    for variable in [name for name in os.environ if name.startswith("CONTRAST_") and name != "CONTRAST_TEST_DATA"]:
        monkeypatch.delenv(variable)
    for variable, folder in {
        "HOME": ".",
        "XDG_CONFIG_HOME": "config",
        "XDG_CACHE_HOME": "cache",
        "CONTRAST_CACHE": "tokens",
        "CONTRAST_STATE": "state",
        "CONTRAST_RUNS": "runs",
    }.items():
        monkeypatch.setenv(variable, str(home / folder))


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """A random backbone of two layers and data of every form; no test may change them."""
    return write_tiny(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def data_folder() -> Path:
    """Real data: CONTRAST_TEST_DATA, a folder with stsb/, nli/, wiki/, senteval/ and cluster/."""
    folder = os.environ.get("CONTRAST_TEST_DATA")
    if not folder:
        pytest.skip("CONTRAST_TEST_DATA is not set")
    return Path(folder)


@pytest.fixture
def hub_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the hub with nothing in it, and no network."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    return tmp_path / "hub"


@pytest.fixture
def served_hub(hub_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub on this machine in place of the network."""
    import datasets
    from huggingface_hub import constants

    with serving(Hub()) as hub:
        monkeypatch.setattr(constants, "ENDPOINT", hub.url)
        template = hub.url + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(datasets.config, "HF_ENDPOINT", hub.url)
        monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", hub_cache / "datasets")
        yield hub


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The folder of a run that does not exist yet."""
    return tmp_path / "runs" / "one"


@pytest.fixture
def cwd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def contrast(tiny: Tiny, cwd: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Contrast:
    """Runs a command line in this process, in a folder that holds nothing but a link `tiny` to the tiny world."""
    monkeypatch.setenv("CONTRAST_RUNS", "runs")
    Path("tiny").symlink_to(tiny.backbone.parent)

    def run(*words: object, stdin: bytes = b"") -> Answer:
        from contrastcli.__main__ import main

        monkeypatch.setattr(sys, "argv", ["contrast", *map(str, words)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), "utf-8"))
        capsys.readouterr()
        code = main()
        return Answer(code, *capsys.readouterr())

    return run


@pytest.fixture(scope="session")
def trained(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A finished run of four steps; no test may change it."""
    return tiny.trained(tmp_path_factory.mktemp("runs") / "simple", train__max_steps=4)


@pytest.fixture
def run(trained: Run, contrast: Contrast) -> Run:
    """A copy of it in runs/simple, which a test may resume or damage."""
    shutil.copytree(trained.path, "runs/simple")
    return Run(Path("runs/simple"))


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the runs that a command starts, which train in this process."""
    names: list[str] = []

    def launch(run: Run, arguments: list[str]) -> int:
        names.append(run.name)
        train(run)
        return 0

    monkeypatch.setattr(process, "launch", launch)
    return names


@pytest.fixture
def quick_exports(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is exported is compared on two texts alone; commands/test_export_formats.py does it in full."""
    texts = ["ba den fir", "go lum"]
    monkeypatch.setattr("contrastcli.commands.export.export.sample", lambda run: (texts, []))
    monkeypatch.setattr("contrastcli.commands.export.export.usual_texts", lambda: texts)


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every text that any model embeds during the test, in order."""
    embedded: list[str] = []
    tokenise = SentenceEncoder.tokenise

    def counted(self: SentenceEncoder, texts: Sequence[str], kind: Kind | None = None) -> TokenTable:
        embedded.extend(texts)
        return tokenise(self, texts, kind)

    monkeypatch.setattr(SentenceEncoder, "tokenise", counted)
    return embedded


@pytest.fixture
def four_threads() -> Iterator[None]:
    """Torch may use four threads, in this process."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(threads)
