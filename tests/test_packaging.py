"""What is installed: the content of the wheel, and the product run from it."""

from __future__ import annotations

import configparser
import json
import subprocess
import sys
import zipfile
from pathlib import Path, PurePosixPath

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
MOST_BYTES = 8_000_000
# A name of each kind that the product cannot do without; the rest is compared with the checkout.
NEEDED = (
    "stories/model.safetensors",
    "stories/config.json",
    "stories/tokenizer.json",
    "stories/MODEL_CARD.md",
    "fonts/Inter-Regular.otf",
    "fonts/JetBrainsMono-Regular.ttf",
    "fonts/LICENSE-Inter.txt",
    "fonts/LICENSE-JetBrainsMono.txt",
    "icons/tick-dark.svg",
)


def python(code: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run code apart from this process and away from the checkout."""
    return subprocess.run(
        [sys.executable, "-P", "-c", code, *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout, built with what is installed: nothing is downloaded."""
    folder = tmp_path_factory.mktemp("wheel")
    built = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="module")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unpacked")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def files_of(folder: str, suffix: str = "") -> set[str]:
    """Files of the checkout below a folder, as paths from its root, without caches."""
    found = set()
    for path in (REPOSITORY / folder).rglob(f"*{suffix}"):
        inside = path.relative_to(REPOSITORY)
        hidden = any(part.startswith(".") or part == "__pycache__" for part in inside.parts)
        if path.is_file() and not hidden:
            found.add(inside.as_posix())
    return found


def test_the_wheel_holds_both_packages_and_every_bundled_file(names: set[str]) -> None:
    modules = files_of("decoder_gui", ".py") | files_of("model", ".py")
    assert {"decoder_gui/cli.py", "model/tiny.py"} <= modules
    assert modules <= names
    shown = {"assets/window.png", *files_of("assets/pictures")}  # by the README
    assets = files_of("assets") - shown
    assert {f"assets/{name}" for name in NEEDED} <= assets
    assert {f"decoder_gui/{name}" for name in assets} <= names
    assert {"decoder_gui/py.typed", "model/py.typed"} <= names


def test_the_wheel_holds_nothing_else(names: set[str]) -> None:
    tops = {PurePosixPath(name).parts[0] for name in names}
    (metadata,) = tops - {"decoder_gui", "model"}
    assert metadata.endswith(".dist-info")
    for name in names:
        parts = PurePosixPath(name).parts
        assert not any(part.startswith(".") or part == "__pycache__" for part in parts), name
        assert parts[0] == metadata or "tests" not in parts, name
        assert PurePosixPath(name).suffix not in {".pyc", ".pt", ".bin", ".log"}, name


def test_the_wheel_is_small(wheel: Path) -> None:
    assert wheel.stat().st_size < MOST_BYTES


def test_the_command_and_the_refused_versions_are_in_the_metadata(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (entry,) = [name for name in archive.namelist() if name.endswith("entry_points.txt")]
        commands = configparser.ConfigParser()
        commands.read_string(archive.read(entry).decode())
        metadata = archive.read(entry.replace("entry_points.txt", "METADATA")).decode()
    assert commands["console_scripts"]["decoder-gui"] == "decoder_gui.cli:main"
    (qt,) = [
        line
        for line in metadata.splitlines()
        if line.lower().replace("_", "-").startswith("requires-dist: pyside6-essentials")
    ]
    for refused in ("6.11.0", "6.11.1", "6.12.0"):
        assert f"!={refused}" in qt


RUN = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from decoder_gui.cli import main; sys.exit(main(sys.argv[2:]))"
)


def test_the_unpacked_wheel_lists_its_own_models(unpacked: Path, tmp_path: Path) -> None:
    run = python(RUN, str(unpacked), "models", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""
    assert str(unpacked / "decoder_gui" / "assets" / "stories") in run.stdout


def test_the_unpacked_wheel_runs_the_bundled_model(unpacked: Path, tmp_path: Path) -> None:
    run = python(
        RUN, str(unpacked), "trace", "stories", "--tokens", "1", "--json", "-", cwd=tmp_path
    )
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""
    found = json.loads(run.stdout)
    assert found["model"] == "stories"
    assert len(found["steps"]) == 1


def test_the_unpacked_wheel_finds_its_fonts(unpacked: Path, tmp_path: Path) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); "
        "from decoder_gui.assets_path import asset; print(asset('fonts/Inter-Regular.otf'))"
    )
    run = python(code, str(unpacked), cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert Path(run.stdout.strip()).is_relative_to(unpacked)
