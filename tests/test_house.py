"""The house: imports point down, files are small, no prose is read back, and the first word loads nothing heavy."""

import ast
import json
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse.csgraph import connected_components

import contrastcli
from support.tiny import Tiny

PACKAGE = Path(contrastcli.__file__).parent
HEAVY = {"torch", "numpy", "transformers", "datasets", "scipy", "sklearn"}
TERMINAL = {"textual", "rich", "click"}

ROOMS: tuple[tuple[str, ...], ...] = (
    ("__init__", "__main__"),
    ("cli",),
    ("tui", "options"),
    ("parsing",),
    ("commands",),
    ("api",),
    ("training", "show"),
    ("evaluation",),
    ("model",),
    ("data", "objectives", "runs"),
    ("settings",),
    ("boundary", "files"),
    ("errors",),
)
"""From the top down. A room may import those below it; rooms of one line do not know each other."""

LIGHT = {"settings", "runs", "show", "tui", "cli", "options", "boundary", "files", "errors"}
"""Rooms that load no library of numbers when they are imported."""

DEAF = {"commands", "training", "evaluation", "model", "data", "objectives", "runs", "settings"}
DEAF |= {"boundary", "files", "errors"}
"""Rooms that never import the terminal."""

KNOWN_TO_THE_APP = {"tui", "show", "runs", "settings", "boundary", "files", "errors"}
"""Rooms that the app imports whatever it likes of; of others, only files that compute nothing."""


LIMITS = {"file": 450, "function": 50, "class": 200, "folder": 18, "root": 8}
"""Most lines of a file, a function and a class; most files of a folder and of the package's root."""

PROSE = {"what", "fault", "hint", "remedies", "message", "stderr"}
"""Names and attributes of texts for people: what an error says, what a process printed."""

SEARCHES = {
    *("split", "rsplit", "partition", "rpartition", "startswith", "endswith", "removeprefix", "removesuffix"),
    *("find", "rfind", "index", "rindex", "count", "splitlines", "search", "match", "fullmatch", "findall", "finditer"),
}
"""Methods that look for something in a text."""

SEARCHED = {
    "evaluation.mteb._score": "MTEB hands an exception over as its text",
    "files.system_error": "a library in Rust tells the system's number in its text alone",
    "model.devices.is_out_of_memory": "torch has no class of its own for a full memory of a CPU or of Apple's GPU",
}
"""Functions that search a text for people, each with its reason."""


@dataclass(frozen=True)
class Import:
    """One import of another file of the package: both as dotted names below the package."""

    file: str
    target: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line} imports {self.target}"


def room(name: str) -> str:
    """The room of a dotted name below the package."""
    return name.partition(".")[0]


def files(package: Path) -> dict[str, Path]:
    """Every file by its dotted name below the package; the package's own is `__init__`."""
    named = {".".join(p.relative_to(package).with_suffix("").parts): p for p in sorted(package.rglob("*.py"))}
    return {name.removesuffix(".__init__"): path for name, path in named.items()}


@cache
def parsed(text: str) -> ast.Module:
    return ast.parse(text)


@cache
def statements(path: Path) -> list[ast.Import | ast.ImportFrom]:
    """Every import of a file, wherever it stands."""
    nodes = ast.walk(parsed(path.read_text(encoding="utf-8")))
    return [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]


@cache
def imports(package: Path) -> list[Import]:
    """Every import of one file of the package by another, in functions and for the type checker too."""
    known, listed = files(package), []
    for name, path in known.items():
        for node in statements(path):
            for target in targets(node):
                package_name, _, own = target.partition(".")
                while own and own not in known:  # the name of something inside a file
                    own = own.rpartition(".")[0]
                if package_name == "contrastcli" and (own or "__init__") != name:
                    listed.append(Import(name, own or "__init__", node.lineno))
    return listed


def targets(node: ast.Import | ast.ImportFrom) -> list[str]:
    """The dotted names that an import may mean."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [f"{node.module}.{alias.name}" for alias in node.names]


def upward(package: Path) -> list[str]:
    """The imports that do not point down the list of rooms."""
    rank = {name: n for n, line in enumerate(ROOMS) for name in line}
    between = [i for i in imports(package) if room(i.file) != room(i.target) and room(i.file) in rank]
    return [str(i) for i in between if rank[room(i.target)] <= rank[room(i.file)]]


def circles(package: Path) -> list[set[str]]:
    """Files that import each other, directly or through others."""
    names = [*files(package)]
    graph = np.zeros((len(names), len(names)), dtype=bool)
    for one in imports(package):
        graph[names.index(one.file), names.index(one.target)] = True
    count, labels = connected_components(graph, connection="strong")
    sets = [{name for name, label in zip(names, labels, strict=True) if label == number} for number in range(count)]
    return [circle for circle in sets if len(circle) > 1]


def too_large(package: Path) -> set[str]:
    """Files, functions, classes and folders beyond the limits, by their dotted name."""
    sizes = []
    for name, path in files(package).items():
        text = path.read_text(encoding="utf-8")
        sizes.append(("file", name, len(text.splitlines())))
        for node in ast.walk(parsed(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                kind = "class" if isinstance(node, ast.ClassDef) else "function"
                sizes.append((kind, f"{name}.{node.name}", (node.end_lineno or 0) - node.lineno + 1))
    for folder in {path.parent for path in files(package).values()}:
        kind = "root" if folder == package else "folder"
        sizes.append((kind, str(folder.relative_to(package)), len(list(folder.glob("*.py")))))
    return {name for kind, name, size in sizes if size > LIMITS[kind]}


def searches(package: Path) -> set[str]:
    """The functions that search a text for people, or a row that is drawn."""
    found = set()
    for name, path in files(package).items():
        for outer in ast.walk(parsed(path.read_text(encoding="utf-8"))):
            if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef):
                caught = exceptions(outer)
                if any(is_search(node, caught) for node in ast.walk(outer)):
                    found.add(f"{name}.{outer.name}")
    return found


def exceptions(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """The names of exceptions in a function: those that it catches or is given."""
    names = {node.name for node in ast.walk(function) if isinstance(node, ast.ExceptHandler) and node.name}
    given = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    kinds = {arg.arg: ast.unparse(arg.annotation) for arg in given if arg.annotation}
    return names | {name for name, kind in kinds.items() if kind.endswith(("Exception", "Error"))}


def is_search(node: ast.AST, caught: set[str]) -> bool:
    """Whether a node looks for something in prose, or for a character of a drawing."""
    if isinstance(node, ast.Compare):
        sought, place = node.left, node.comparators[0]
        return isinstance(node.ops[0], ast.In | ast.NotIn) and (is_prose(place, caught) or is_drawn(sought))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in SEARCHES:
        return is_prose(node.func.value, caught) or any(is_prose(arg, caught) or is_drawn(arg) for arg in node.args)
    return False


def is_prose(node: ast.AST, caught: set[str]) -> bool:
    """Whether an expression is a text for people."""
    if isinstance(node, ast.Attribute):
        return node.attr in PROSE
    if isinstance(node, ast.Name):
        return node.id in PROSE
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        texts = {arg.id for arg in node.args if isinstance(arg, ast.Name)}
        return node.func.id == "error_text" or (node.func.id == "str" and bool(texts & caught))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return is_prose(node.func.value, caught)
    return isinstance(node, ast.Subscript) and is_prose(node.value, caught)


def is_drawn(node: ast.AST) -> bool:
    """Whether an expression is a character of boxes, blocks or braille."""
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and bool(re.search("[─-⣿]", node.value))


@pytest.mark.skipif(not shutil.which("git"), reason="what is part of the project is known to git")
def test_nothing_else_lies_in_the_root() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=PACKAGE.parent, capture_output=True, text=True)
    folders = {"contrastcli", "presets", "tests", ".ci", ".github"}
    files = {"pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE", ".gitignore"}
    assert {path.partition("/")[0] for path in listed.stdout.splitlines()} <= folders | files


def test_imports_point_down_the_list_of_rooms_inside_functions_too() -> None:
    assert upward(PACKAGE) == []


def test_every_room_is_in_the_list() -> None:
    listed = {name for line in ROOMS for name in line}
    assert {room(name) for name in files(PACKAGE)} == listed


def test_no_files_import_each_other_but_the_app_and_its_screens() -> None:
    assert [c for c in circles(PACKAGE) if not all(n == "tui.app" or n.endswith("screen") for n in c)] == []


def test_nothing_is_too_large() -> None:
    assert too_large(PACKAGE) == set()


def test_no_text_for_people_and_no_drawing_is_searched() -> None:
    assert searches(PACKAGE) == SEARCHED.keys()


BAD = {
    "__init__.py": "",
    "data/formats.py": "from contrastcli.model import pooling\n",
    "files.py": "",
    "model/pooling.py": "def late():\n    from contrastcli.training import loop\n",
    "runs/events.py": "from contrastcli.data import formats\n",
    "runs/status.py": "from contrastcli.runs import long\n",
    "runs/long.py": "def late():\n    from contrastcli.runs import status\n" + "# A line.\n" * 449,
    "runs/large.py": "def f() -> None:\n" + "    print()\n" * 50 + "\n\nclass C:\n" + "    a = 1\n" * 200,
    "training/loop.py": "import contrastcli\n",
    **{f"show/file_{n}.py": "" for n in range(19)},
}
"""Files of a package that does all that a house must not."""

SOUGHT = (
    'return "full" in str(error)',
    'return error.what.startswith("no ")',
    'return re.findall("--[a-z]+", error.hint)',
    "return done.stderr.splitlines()[-2:]",
    'return error_text(error).partition(": ")',
    'return row.index("│")',
    'return "│" in row',
)


def test_what_a_house_must_not_do_is_found(tmp_path: Path) -> None:
    files = BAD | {f"tui/s{n}.py": f"def s(error: OSError, done, row):\n    {x}\n" for n, x in enumerate(SOUGHT)}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    refused = ["data.formats", "model.pooling", "runs.events", "training.loop"]
    assert [line.partition(":")[0] for line in upward(tmp_path)] == refused
    assert circles(tmp_path) == [{"runs.long", "runs.status"}]
    assert too_large(tmp_path) == {"runs.long", "runs.large.f", "runs.large.C", "show"}
    assert searches(tmp_path) == {f"tui.s{n}.s" for n in range(len(SOUGHT))}


def loaded(code: str, *words: str) -> set[str]:
    """The packages that a fresh interpreter has loaded after some code."""
    report = "\nimport sys, json; print(json.dumps(sorted(sys.modules)), file=sys.__stdout__)"
    done = subprocess.run([sys.executable, "-c", code + report, *words], capture_output=True, text=True, check=True)
    modules = set(json.loads(done.stdout.splitlines()[-1]))
    return modules | {name.partition(".")[0] for name in modules}


def after(*lines: str) -> set[str]:
    """The packages that commands have loaded by their end."""
    code = "import sys; from contrastcli.__main__ import main"
    return loaded(code + "".join(f"\nsys.argv = {['contrast', *line.split()]}; assert main() == 0" for line in lines))


LOOKS = ("--help", "train --help", "presets", "presets show starter", "runs", "config", "config path", "help")
TOPICS = ("data", "objectives", "presets", "runs", "settings", "suites", "train")


def test_commands_that_compute_nothing_load_nothing_heavy() -> None:
    assert not (HEAVY | {"textual"}) & after(*LOOKS, *(f"help {topic}" for topic in TOPICS))


def loading(*modules: str) -> str:
    """The code that imports files of the package."""
    return "".join(f"import contrastcli.{module}\n" for module in modules)


def test_light_rooms_and_commands_that_start_others_load_nothing_heavy() -> None:
    modules = [module for module in files(PACKAGE) if room(module) in LIGHT - {"tui"}]
    starters = [f"commands.{name}" for name in ("compare", "sweep", "watch")]
    assert not (HEAVY | {"textual", "rich"}) & loaded(loading(*modules, *starters))


def test_the_first_word_loads_no_package_metadata() -> None:
    """Importing it costs a tenth of what `contrast --help` takes."""
    assert not {"importlib.metadata", "email", "psutil", "rich", "tokenizers"} & after("--help")


@pytest.mark.parametrize("name", sorted(DEAF))
def test_what_computes_knows_no_terminal(name: str) -> None:
    for module, path in files(PACKAGE).items():
        if room(module) == name:
            assert not TERMINAL & {t.partition(".")[0] for node in statements(path) for t in targets(node)}, module


def test_the_app_knows_nothing_that_computes() -> None:
    known = {one.target for one in imports(PACKAGE) if room(one.file) == "tui"}
    others = {name for name in known if room(name) not in KNOWN_TO_THE_APP}
    assert others == {"data.forms", "evaluation.run_scores", "evaluation.suites", "model.locate"}


def test_the_app_starts_without_libraries_of_numbers(tmp_path: Path) -> None:
    """Whatever of it is loaded, and its first screen painted on a terminal of its own."""
    code = f"""
import asyncio
from pathlib import Path
from contrastcli.tui.app import ContrastApp
async def look():
    async with ContrastApp(Path({str(tmp_path)!r})).run_test() as pilot:
        await pilot.pause()
asyncio.run(look())
"""
    assert not HEAVY & loaded(loading(*(name for name in files(PACKAGE) if room(name) == "tui")) + code)


def test_a_query_loads_no_more_than_it_needs(tiny: Tiny) -> None:
    loaded = after(f"query dog puppy --model {tiny.backbone}")
    assert "torch" in loaded and "tokenizers" in loaded
    assert not {"transformers", "datasets", "scipy", "sklearn", "huggingface_hub", "psutil", "pyarrow", "rich"} & loaded


def test_training_needs_no_scipy() -> None:
    """Loading its statistics would take longer than a small training."""
    users = {
        m for m, path in files(PACKAGE).items() for node in statements(path) for t in targets(node) if "scipy" in t
    }
    assert users == {"evaluation.clustering", "evaluation.significance"}


@pytest.mark.parametrize("path", sorted((PACKAGE / "objectives").glob("*.py")), ids=lambda p: p.name)
def test_objectives_know_tensors_only(path: Path) -> None:
    libraries = {t.partition(".")[0] for node in statements(path) for t in targets(node)} - sys.stdlib_module_names
    assert libraries <= {"torch", "contrastcli"}
