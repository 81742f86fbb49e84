"""What only a GPU can show; without one, the same code on a CPU with toy shapes.

`.ci/gpu` runs these tests. Each puts what it measures into pytest's `record_property`; all of it goes into the file
CONTRAST_GPU_REPORT, next to what is there of earlier steps, and at the end into a table.
"""

import json
import os
import platform
from pathlib import Path
from typing import Any

import pytest
import torch

from contrastcli.model.devices import device_name
from support.gpu import DEVICE, Base, write_base

# Read before a fixture clears the environment; of several processes the one that started the others writes it.
REPORT = None if "PYTEST_XDIST_WORKER" in os.environ else os.environ.get("CONTRAST_GPU_REPORT")

MOST_CASES = 8
"""Of a test that has a line for each in the table."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.gpu)
            item.add_marker(pytest.mark.filterwarnings("ignore"))  # of other libraries about themselves


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Base:
    """A random encoder of BERT-base's shape and rows for it; no test may change them."""
    return write_base(tmp_path_factory.mktemp("base"))


def _read() -> dict[str, Any]:
    return json.loads(Path(REPORT).read_text()) if REPORT and Path(REPORT).exists() else {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if REPORT is None or not (report.when == "call" or report.outcome != "passed"):
        return
    results = _read()
    results["machine"] = {
        "device": device_name(DEVICE) or platform.machine(),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
    told = {"outcome": report.outcome, "seconds": round(report.duration, 2), **dict(report.user_properties)}
    if report.outcome != "passed":
        told["why"] = str(report.longrepr)[-500:]
    results[report.nodeid.partition("tests/gpu/test_")[2]] = told
    Path(REPORT).write_text(json.dumps(results, indent=1, default=str) + "\n")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """A line for each test; one of many cases has a line for all of them, and one for each that failed."""
    results = _read()
    lines: dict[str, list[dict[str, Any]]] = {}
    for name, told in results.items():
        function = name.partition("[")[0]
        has_many = sum(other.startswith(f"{function}[") for other in results) > MOST_CASES
        lines.setdefault(function if has_many and told.get("outcome") == "passed" else name, []).append(told)
    for name, cases in lines.items():
        terminalreporter.write_line(f"{name:<70} {len(cases):>3} {summary(cases)}")


def summary(cases: list[dict[str, Any]]) -> str:
    """Their words, the sum of their seconds, and of other numbers the range."""
    words = []
    for key in dict.fromkeys(key for case in cases for key in case if key != "why"):
        values = [case[key] for case in cases if key in case]
        if key == "seconds":
            values = [round(sum(values), 1)]
        ends = [min(values), max(values)] if isinstance(values[0], float) else values
        shown = dict.fromkeys(f"{value:.4g}" if isinstance(value, float) else str(value) for value in ends)
        words.append(f"{key} {' to '.join(shown)}")
    return ", ".join(words)
