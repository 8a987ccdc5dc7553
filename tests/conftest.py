"""All tests together use every core; each has an empty home and renders its windows offscreen."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from decoder_gui.assets_path import asset

os.environ["QT_QPA_PLATFORM"] = "offscreen"
# Read when the first font is asked for; where there is no fontconfig it changes nothing.
os.environ["FONTCONFIG_FILE"] = str(Path(__file__).parent / "snapshots" / "fonts.conf")
# More share one memory and one disk without being much faster.
WORKERS_AT_MOST = 4


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Share the whole suite between processes, one for each core.

    A part of it is sooner done in one process, a debugger needs one, ``-n`` says how many
    otherwise, and where pytest-xdist is not installed nothing is shared.
    """
    options = config.option
    whole = config.args_source is not pytest.Config.ArgsSource.ARGS
    if getattr(options, "numprocesses", 0) is not None or options.usepdb or not whole:
        return
    if "PYTEST_XDIST_WORKER" in os.environ:  # this is one of the processes
        return
    here = getattr(os, "sched_getaffinity", None)
    cores = len(here(0)) if here is not None else os.cpu_count() or 1
    if cores > 1:
        options.numprocesses = min(cores, WORKERS_AT_MOST)
        if options.dist == "no":
            options.dist = "worksteal"
        # The cores are taken: threads of the arithmetic would only wait for one another.
        os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="session", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home for this process and those it starts: the user's own is neither read nor written."""
    folder = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patched:
        for name in ("HOME", "USERPROFILE"):
            patched.setenv(name, str(folder))
        for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
            patched.delenv(name, raising=False)
        yield folder


@pytest.fixture(autouse=True)
def nothing_is_left_at_home(home: Path) -> Iterator[None]:
    """Whatever a test writes it writes where it was told to."""
    before = set(home.iterdir())
    yield
    assert set(home.iterdir()) == before


@pytest.fixture
def ruined(tmp_path: Path) -> Path:
    """The bundled model with one weight that is not a number."""
    folder = tmp_path / "ruined"
    folder.mkdir()
    for name in ("config.json", "tokenizer.json"):
        shutil.copy(asset("stories") / name, folder)
    tensors = load_file(asset("stories") / "model.safetensors")
    weight = tensors["transformer.h.1.mlp.c_fc.weight"].copy()
    weight[0, 0] = np.nan
    save_file({**tensors, "transformer.h.1.mlp.c_fc.weight": weight}, folder / "model.safetensors")
    return folder
