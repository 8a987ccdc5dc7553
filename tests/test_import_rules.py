"""The rules of the house: who may import whom, what runs without Qt, how long a module may be."""

from __future__ import annotations

import ast
import statistics
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
QT = ("PySide6", "pyqtgraph")
# What runs without a window, and without Qt being installed.
WITHOUT_QT = ("model", "decoder_gui.debugger", "decoder_gui.viewdata")
TESTS_WITHOUT_QT = ("tests.model", "tests.debugger")
# For each layer, what must not be reached from it, directly or through what it imports.
UPPER = ("decoder_gui.panels", "decoder_gui.workspace", "decoder_gui.main_window")
NOT_REACHED = {
    "model": ("decoder_gui",),
    "decoder_gui.debugger": (
        "decoder_gui.viewdata",
        "decoder_gui.context",
        "decoder_gui.worker",
        "decoder_gui.widgets",
        *UPPER,
    ),
    "decoder_gui.viewdata": (
        "decoder_gui.context",
        "decoder_gui.worker",
        "decoder_gui.widgets",
        "decoder_gui.theme",
        *UPPER,
    ),
    "decoder_gui.worker": ("decoder_gui.context", "decoder_gui.widgets", *UPPER),
    "decoder_gui.theme": ("decoder_gui.context", "decoder_gui.widgets", "model", *UPPER),
    "decoder_gui.widgets": ("decoder_gui.context", "decoder_gui.worker", *UPPER),
    "decoder_gui.context": ("decoder_gui.widgets", *UPPER),
    "decoder_gui.panels": ("decoder_gui.workspace", "decoder_gui.main_window", "decoder_gui.app"),
}
# Third-party packages of the arithmetic; files are read in few rooms, and nowhere else.
ARITHMETIC = {"numpy"}
READING_FILES = {
    "model.checkpoints": {"safetensors", "gguf", "tokenizers"},
    "model.fast_tokenizers": {"tokenizers"},
    "model.capture": {"safetensors"},
}
MOST_LINES = 600
LONG_LINES = 400  # nine modules in ten stay below
MEDIAN_LINES = 150
# The standard library is enough for these.
WITHOUT_NUMPY = ("model", "model.tiny", "model.plain")


def modules_of(*folders: str) -> dict[str, Path]:
    """Every module below folders of the checkout: dotted name to file."""
    found = {}
    for folder in folders:
        for path in sorted((REPOSITORY / folder).rglob("*.py")):
            parts = path.relative_to(REPOSITORY).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found[name] = path
    return found


SOURCES = modules_of("model", "decoder_gui", "tests")


def imports_of(source: str) -> Iterator[tuple[int, str]]:
    """Every import of a source text, wherever it stands: line number and dotted target.

    ``from a import b`` yields both ``a`` and ``a.b``, for ``b`` may be a module. A relative
    import yields its dots and all.
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            origin = "." * node.level + (node.module or "")
            yield node.lineno, origin
            for alias in node.names:
                yield node.lineno, f"{origin}.{alias.name}"


@cache
def imports() -> dict[str, list[tuple[int, str]]]:
    """The imports of every module; read once, and not by who only collects tests."""
    return {
        name: list(imports_of(path.read_text(encoding="utf-8"))) for name, path in SOURCES.items()
    }


def within(name: str, folder: str) -> bool:
    return name == folder or name.startswith(f"{folder}.")


def reached_from(layer: str) -> dict[str, str]:
    """Modules of the product that a layer imports, also indirectly, with who imports each."""
    found = {name: layer for name in SOURCES if within(name, layer)}
    waiting = list(found)
    while waiting:
        importer = waiting.pop()
        for _, target in imports()[importer]:
            if target in SOURCES and target not in found:
                found[target] = importer
                waiting.append(target)
    return found


def test_the_walk_sees_imports_wherever_they_stand() -> None:
    source = "import a.b\ndef f():\n    from c import d\nif TYPE_CHECKING:\n    from . import e\n"
    assert [target for _, target in imports_of(source)] == ["a.b", "c", "c.d", ".", "..e"]
    assert {"model.tiny", "decoder_gui.panels.base", "decoder_gui.context"} <= set(SOURCES)
    assert "model.errors" in reached_from("decoder_gui.panels")


def test_imports_are_absolute() -> None:
    relative = [
        f"{name}:{line}"
        for name, targets in imports().items()
        for line, target in targets
        if target.startswith(".")
    ]
    assert not relative


@pytest.mark.parametrize("layer", NOT_REACHED)
def test_imports_point_one_way(layer: str) -> None:
    reached = reached_from(layer)
    wrong = [
        f"{importer} imports {name}"
        for name, importer in reached.items()
        if any(within(name, upper) for upper in NOT_REACHED[layer])
    ]
    assert not wrong


@pytest.mark.parametrize("layer", [*WITHOUT_QT, *TESTS_WITHOUT_QT])
def test_what_runs_without_a_window_never_names_qt(layer: str) -> None:
    wrong = [
        f"{name}:{line} imports {target}"
        for name in reached_from(layer)
        for line, target in imports()[name]
        if any(within(target, package) for package in QT)
    ]
    assert not wrong


def test_the_arithmetic_needs_numpy_at_most_and_readers_their_reader() -> None:
    wrong = []
    for name in modules_of("model"):
        allowed = set(ARITHMETIC)
        for room, packages in READING_FILES.items():
            if within(name, room):
                allowed |= packages
        for line, target in imports()[name]:
            top = target.split(".")[0]
            if top != "model" and top not in sys.stdlib_module_names and top not in allowed:
                wrong.append(f"{name}:{line} imports {target}")
    assert not wrong


def loaded_after_importing(*names: str) -> set[str]:
    """Top-level packages in a fresh interpreter once these modules are imported."""
    code = (
        "import importlib, sys\n"
        "for name in sys.argv[1:]: importlib.import_module(name)\n"
        "print(*{name.split('.')[0] for name in sys.modules})"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, *names],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return set(run.stdout.split())


def test_no_module_that_runs_without_a_window_loads_qt() -> None:
    names = [name for name in SOURCES if any(within(name, layer) for layer in WITHOUT_QT)]
    loaded = loaded_after_importing(*names)
    assert {"model", "decoder_gui", "numpy"} <= loaded
    assert not loaded.intersection({*QT, "shiboken6"})


def test_the_decoders_to_be_read_need_no_numpy() -> None:
    loaded = loaded_after_importing(*WITHOUT_NUMPY)
    assert "model" in loaded
    assert not loaded.intersection({"numpy", "safetensors", "tokenizers", *QT})


def test_the_command_line_loads_nothing_heavy_before_it_is_needed() -> None:
    loaded = loaded_after_importing("decoder_gui.cli", "decoder_gui.arguments")
    assert not loaded.intersection({"numpy", "safetensors", "tokenizers", *QT})


def test_modules_are_short() -> None:
    lengths = {
        name: len(path.read_text(encoding="utf-8").splitlines())
        for name, path in modules_of("model", "decoder_gui").items()
    }
    too_long = {name: length for name, length in lengths.items() if length > MOST_LINES}
    assert not too_long
    assert statistics.median(lengths.values()) < MEDIAN_LINES
    assert statistics.quantiles(lengths.values(), n=10)[-1] < LONG_LINES
