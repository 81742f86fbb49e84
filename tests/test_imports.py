"""What imports what: the first word of the command line is instant, and nothing but it knows the terminal."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tiny import Tiny

import contrastcli

PACKAGE = Path(contrastcli.__file__).parent
HEAVY = {"torch", "numpy", "transformers", "datasets", "scipy", "sklearn", "textual"}
TERMINAL = {"textual", "rich", "click"}

LEFT = {"cli", "options", "start", "render", "console", "control", "runs", "status", "events", "catalogue"}
LEFT |= {"config", "settings", "files", "errors", "tui", "chart", "curve", "grid", "groups"}
LEFT |= {"sweep", "compare", "measure", "tables", "published", "__init__", "__main__"}
"""Modules that load no library of numbers when they are imported."""

APP = LEFT - {"cli", "start", "__init__", "__main__"}
"""What the app may know: it reads runs, and asks the command line for all else."""

BASE = {"events", "catalogue", "config", "settings", "files", "errors"}
"""What every other module may know."""

MAY_KNOW: dict[str, set[str]] = {
    "errors": set(),
    "quiet": set(),
    "files": {"errors"},
    "settings": {"errors"},
    "catalogue": {"settings", "errors"},
    "config": {"catalogue", "settings", "errors"},
    "events": {"errors", "files"},
    "objectives": BASE,
    "data": BASE,
    "model": BASE | {"data"},
    "training": BASE | {"data", "model", "objectives", "evaluation", "runs", "control", "status"},
    "evaluation": BASE | {"chart", "data", "model", "objectives", "query", "quiet", "runs"},
    "query": BASE | {"data", "model", "objectives", "training", "runs"},
    "encode": BASE | {"data", "model"},
    "export": BASE | {"data", "model", "objectives", "runs"},
}
"""Parts of the house, and those that they may import: imports point one way."""


def loaded(code: str, *words: str) -> set[str]:
    """The packages that a fresh interpreter has loaded after some code."""
    report = "\nimport sys, json; print(json.dumps(sorted(sys.modules)), file=sys.__stdout__)"
    done = subprocess.run([sys.executable, "-c", code + report, *words], capture_output=True, text=True, check=True)
    modules = set(json.loads(done.stdout.splitlines()[-1]))
    return modules | {name.partition(".")[0] for name in modules}


def after(*words: str) -> set[str]:
    """The packages that a command has loaded by its end."""
    return loaded("import sys; sys.argv[0] = 'contrast'\nfrom contrastcli.cli import main\nassert main() == 0", *words)


@pytest.mark.parametrize(
    "words",
    [
        ("--help",),
        ("train", "--help"),
        ("presets",),
        ("presets", "show", "starter"),
        ("runs",),
        ("config",),
        ("config", "path"),
    ],
)
def test_commands_that_compute_nothing_load_nothing_heavy(words: tuple[str, ...]) -> None:
    assert not HEAVY & after(*words)


@pytest.mark.parametrize("module", ["cli", "console", "runs", "start", "control", "chart"])
def test_the_command_line_loads_nothing_heavy(module: str) -> None:
    assert not HEAVY & loaded(f"import contrastcli.{module}")


def test_the_first_word_loads_no_package_metadata() -> None:
    """Importing it costs a tenth of what `contrast --help` takes."""
    assert not {"importlib.metadata", "email", "psutil", "rich", "tokenizers"} & after("--help")


def test_what_computes_knows_no_terminal() -> None:
    parts = ["training.process", "evaluation.suites", "query", "encode", "export", "data.sources", "model.folder"]
    code = "\n".join(f"import contrastcli.{part}" for part in [*parts, "objectives.infonce", "training.setup"])
    assert not TERMINAL & loaded(code)


def test_the_app_starts_without_libraries_of_numbers(tmp_path: Path) -> None:
    """Its first screen is painted, on a terminal of its own."""
    code = f"""
import asyncio
from pathlib import Path
from contrastcli.tui.app import ContrastApp
async def look():
    async with ContrastApp(Path({str(tmp_path)!r})).run_test() as pilot:
        await pilot.pause()
asyncio.run(look())
"""
    assert not (HEAVY - {"textual"}) & loaded(code)


def test_a_query_loads_no_more_than_it_needs(tiny: Tiny) -> None:
    found = after("query", "a dog runs", "a puppy sprints", "--model", str(tiny.backbone))
    assert "torch" in found and "tokenizers" in found
    assert not {"transformers", "datasets", "scipy", "sklearn", "huggingface_hub", "psutil", "pyarrow", "rich"} & found


def test_the_package_loads_nothing_until_a_model_is_asked_for() -> None:
    assert not HEAVY & loaded("import contrastcli")


def files() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def part_of(path: Path) -> str:
    """The module or folder of the package that a file belongs to."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def at_import(nodes: list[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    """Imports that run when the module is imported: not those in functions, nor those for the type checker."""
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If) and ast.unparse(node.test) != "TYPE_CHECKING":
            yield from at_import(node.body + node.orelse)
        elif isinstance(node, ast.Try):
            yield from at_import(node.body + [s for handler in node.handlers for s in handler.body] + node.orelse)
        elif isinstance(node, ast.ClassDef | ast.With):
            yield from at_import(node.body)


def names(node: ast.Import | ast.ImportFrom) -> list[str]:
    """Dotted names; of `from contrastcli import runs` that of the module."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if node.module == "contrastcli":
        return [f"contrastcli.{alias.name}" for alias in node.names]
    return [node.module or ""]


def imports(path: Path, *, anywhere: bool) -> list[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = (n for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom))
    return [name for node in (found if anywhere else at_import(tree.body)) for name in names(node)]


@pytest.mark.parametrize("path", [p for p in files() if part_of(p) in LEFT], ids=lambda p: p.name)
def test_the_left_group_imports_nothing_heavy(path: Path) -> None:
    allowed = {"textual"} if part_of(path) == "tui" else set()
    assert not (HEAVY - allowed) & {name.partition(".")[0] for name in imports(path, anywhere=False)}


@pytest.mark.parametrize("path", [p for p in files() if part_of(p) == "tui"], ids=lambda p: p.name)
def test_the_app_knows_runs_and_the_command_line_only(path: Path) -> None:
    ours = {name.split(".")[1] for name in imports(path, anywhere=True) if name.startswith("contrastcli.")}
    assert ours <= APP


@pytest.mark.parametrize("path", [p for p in files() if part_of(p) in MAY_KNOW], ids=lambda p: p.name)
def test_the_right_group_never_imports_the_terminal(path: Path) -> None:
    assert not TERMINAL & {name.partition(".")[0] for name in imports(path, anywhere=True)}


@pytest.mark.parametrize("path", [p for p in files() if part_of(p) in MAY_KNOW], ids=lambda p: p.name)
def test_imports_point_one_way(path: Path) -> None:
    part = part_of(path)
    ours = {name.split(".")[1] for name in imports(path, anywhere=True) if name.startswith("contrastcli.")}
    assert ours - {"__version__", part} <= MAY_KNOW[part]


@pytest.mark.parametrize("path", [p for p in files() if part_of(p) == "objectives"], ids=lambda p: p.name)
def test_objectives_know_tensors_only(path: Path) -> None:
    libraries = {name.partition(".")[0] for name in imports(path, anywhere=True)} - sys.stdlib_module_names
    assert libraries <= {"torch", "contrastcli"}


@pytest.mark.parametrize("library", ["transformers", "datasets", "scipy", "sklearn"])
def test_slow_libraries_are_imported_where_they_are_needed(library: str) -> None:
    at_once = [p.name for p in files() if library in {n.partition(".")[0] for n in imports(p, anywhere=False)}]
    assert at_once == []
