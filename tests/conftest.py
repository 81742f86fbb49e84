"""Every test runs offline, on one thread, and away from the user's own files."""

from __future__ import annotations

import os
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"  # sums depend on the number of threads; processes that tests start inherit it

import pytest
from tiny import Tiny, write_tiny


@pytest.fixture(autouse=True)
def own_folders(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Caches, runs and settings of this test alone."""
    home = tmp_path_factory.mktemp("home")
    for variable in [name for name in os.environ if name.startswith("CONTRAST_") and name != "CONTRAST_TEST_DATA"]:
        monkeypatch.delenv(variable)
    for variable, folder in {
        "HOME": ".",
        "XDG_CONFIG_HOME": "config",
        "XDG_CACHE_HOME": "cache",
        "CONTRAST_CACHE": "tokens",
        "CONTRAST_RUNS": "runs",
    }.items():
        monkeypatch.setenv(variable, str((home / folder).resolve()))


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """A random backbone of two layers and data of every form; nothing may change them."""
    return write_tiny(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def data_folder() -> Path:
    """Real data: CONTRAST_TEST_DATA, a folder with stsb/, nli/, wiki/, senteval/ and cluster/."""
    folder = os.environ.get("CONTRAST_TEST_DATA")
    if not folder:
        pytest.skip("CONTRAST_TEST_DATA is not set")
    return Path(folder)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where a new run may be."""
    return tmp_path / "runs" / "one"
