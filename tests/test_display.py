"""Finding out that no window can be opened, in words and before Qt aborts over it."""

from __future__ import annotations

import os
import select
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from decoder_gui import display
from decoder_gui.display import choose_display, missing_packages, why_not_imported

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="elsewhere there always is a display"
)

REPOSITORY = Path(__file__).resolve().parent.parent
ABSENT = {"libno-such-library.so.9": "libno-such-package9"}
VARIABLES = ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")

# The answer of an X server to a connection: accepted, protocol 11.0, one screen without depths.
ACCEPTED = struct.pack("<BxHHH", 1, 11, 0, 18) + struct.pack(
    "<IIIIHHBBBBBBBB4x", 0, 0, 0x1FFFFF, 0, 0, 65535, 1, 0, 0, 0, 32, 32, 8, 255
)
ACCEPTED += struct.pack(
    "<IIIIIHHHHHHIBBBB", 1, 2, 0, 0, 0, 800, 600, 200, 150, 1, 1, 3, 0, 0, 24, 0
)
REFUSED = struct.pack("<BBHHH", 0, 2, 11, 0, 1) + b"no  "


@pytest.fixture(autouse=True)
def no_display(monkeypatch: pytest.MonkeyPatch) -> None:
    """No display is named, and nothing is missing, unless a test says so."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(display, "_WAYLAND_LIBRARIES", {})


@pytest.fixture
def serve() -> Iterator[Callable[[bytes], str]]:
    """Starts a server that answers one X client with the bytes given; returns its display name."""
    listeners: list[socket.socket] = []
    threads: list[threading.Thread] = []
    done = threading.Event()

    def start(answer: bytes) -> str:
        while True:
            listener = socket.create_server(("127.0.0.1", 0))
            listeners.append(listener)
            port = listener.getsockname()[1]
            if port >= 6000:
                break

        def run() -> None:
            client, _ = listener.accept()
            with client:
                client.recv(12)
                client.sendall(answer)
                done.wait(10)

        threads.append(threading.Thread(target=run))
        threads[-1].start()
        return f"127.0.0.1:{port - 6000}"

    yield start
    done.set()
    for thread in threads:
        thread.join()
    for listener in listeners:
        listener.close()


def test_nothing_is_named() -> None:
    assert choose_display() == "there is no display (DISPLAY and WAYLAND_DISPLAY are not set)"


@pytest.mark.parametrize("name", [":7777", "unix:7777", "nonsense", ":", "127.0.0.1:59535"])
def test_a_display_that_does_not_answer(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("DISPLAY", name)
    assert choose_display() == f"the display {name} does not answer"


def test_a_display_that_answers(
    monkeypatch: pytest.MonkeyPatch, serve: Callable[[bytes], str]
) -> None:
    monkeypatch.setenv("DISPLAY", serve(ACCEPTED))
    assert choose_display() is None


def test_the_server_is_not_left_without_a_client_before_qt_connects(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A server whose last client leaves resets itself, and Qt would abort over that."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        if port < 6000:
            pytest.skip("no display has the number of this port")
        accepted: list[socket.socket] = []

        def run() -> None:
            client, _ = listener.accept()
            accepted.append(client)
            client.recv(12)
            client.sendall(ACCEPTED)

        server = threading.Thread(target=run)
        server.start()
        monkeypatch.setenv("DISPLAY", f"127.0.0.1:{port - 6000}")
        assert choose_display() is None
        server.join()
        with accepted[0] as client:
            # At its end a connection can be read without waiting, as b"".
            while select.select([client], [], [], 0.2)[0]:
                assert client.recv(4096), "the connection was closed"


def test_a_display_that_refuses_us(
    monkeypatch: pytest.MonkeyPatch, serve: Callable[[bytes], str]
) -> None:
    name = serve(REFUSED)
    monkeypatch.setenv("DISPLAY", name)
    assert choose_display() == f"the display {name} does not answer"


def test_a_display_that_hangs(
    monkeypatch: pytest.MonkeyPatch, serve: Callable[[bytes], str]
) -> None:
    name = serve(b"")
    monkeypatch.setattr(display, "_PATIENCE_S", 0.1)
    monkeypatch.setenv("DISPLAY", name)
    assert choose_display() == f"the display {name} does not answer"


def test_a_missing_library_of_x11_is_named_by_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISPLAY", ":7777")
    monkeypatch.setattr(display, "_X11_LIBRARIES", ABSENT)
    assert choose_display() == "a window on X11 needs the packages libno-such-package9"
    assert missing_packages() == ["libno-such-package9"]


def test_wayland(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("WAYLAND_DISPLAY", "w-0")
    assert choose_display() == "the Wayland display w-0 does not answer"
    with socket.socket(socket.AF_UNIX) as listener:
        # The path of a socket is short by nature, that of a test's folder need not be.
        monkeypatch.chdir(tmp_path)
        listener.bind("w-0")
        listener.listen()
        monkeypatch.setenv("XDG_RUNTIME_DIR", ".")
        assert choose_display() is None
        monkeypatch.setattr(display, "_WAYLAND_LIBRARIES", ABSENT)
        assert choose_display() == "a window on Wayland needs the packages libno-such-package9"
        monkeypatch.setenv("DISPLAY", ":7777")
        assert choose_display() == (
            "a window on Wayland needs the packages libno-such-package9; "
            "the display :7777 does not answer"
        )


def test_qt_is_kept_from_a_wayland_display_that_does_not_answer(
    monkeypatch: pytest.MonkeyPatch, serve: Callable[[bytes], str], tmp_path: Path
) -> None:
    monkeypatch.setenv("QT_QPA_PLATFORM", "")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("WAYLAND_DISPLAY", "w-0")
    monkeypatch.setenv("DISPLAY", serve(ACCEPTED))
    assert choose_display() is None
    assert os.environ["QT_QPA_PLATFORM"] == "xcb"


def test_a_platform_that_was_asked_for_is_taken_at_its_word(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("QT_QPA_PLATFORM", "offscreen")
    assert choose_display() is None
    monkeypatch.setenv("QT_QPA_PLATFORM", "vnc:size=800x600")
    assert choose_display() is None
    monkeypatch.setenv("QT_QPA_PLATFORM", "xcb")
    assert choose_display() is not None
    monkeypatch.setenv("DISPLAY", ":7777")
    assert choose_display() == "the display :7777 does not answer"


def test_an_import_that_fails_for_a_library_is_answered_with_its_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def failed(library: str) -> ImportError:
        return ImportError(f"{library}: cannot open shared object file: No such file or directory")

    asked = "Qt needs system libraries; install the packages"
    assert why_not_imported(failed("libEGL.so.1")) == f"{asked} libegl1"
    other = why_not_imported(failed("libodd.so.3"))
    assert other is not None
    assert other.startswith("a shared library cannot be loaded: libodd.so.3")
    monkeypatch.setattr(display, "_QT_LIBRARIES", ABSENT)
    assert why_not_imported(failed("libEGL.so.1")) == f"{asked} libno-such-package9"


def test_an_import_that_fails_for_another_reason() -> None:
    absent = ModuleNotFoundError("No module named 'PySide6'", name="PySide6")
    assert why_not_imported(absent) == (
        "the Python package PySide6 is not installed; install decoder-gui again"
    )
    ours = ModuleNotFoundError("No module named 'model.gone'", name="model.gone")
    assert why_not_imported(ours) is None
    assert why_not_imported(ImportError("cannot import name 'a' from 'b'")) is None


def run(
    *arguments: str, cwd: Path, path: Path = REPOSITORY, **variables: str
) -> subprocess.CompletedProcess[str]:
    """The command as a user's shell starts it, with no display but what is given."""
    environment = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    environment["PYTHONPATH"] = os.pathsep.join({str(path): None, str(REPOSITORY): None})
    return subprocess.run(
        [sys.executable, "-m", "decoder_gui", *arguments],
        cwd=cwd,
        env=environment | variables,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_without_a_display_the_first_screen_goes_to_a_file(tmp_path: Path) -> None:
    done = run("tiny", cwd=tmp_path, DISPLAY=":7777")
    picture = tmp_path / "decoder-gui.png"
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        f"decoder-gui: the display :7777 does not answer; the first screen goes to {picture}\n"
    )
    head = picture.read_bytes()[:24]
    assert head.startswith(b"\x89PNG")
    assert struct.unpack(">II", head[16:24]) == (1440, 900)


def test_qt_that_cannot_be_loaded_is_one_line_and_status_2(tmp_path: Path) -> None:
    (tmp_path / "PySide6").mkdir()
    (tmp_path / "PySide6" / "__init__.py").write_text(
        "raise ImportError('libEGL.so.1: cannot open shared object file: No such file')\n"
    )
    done = run("tiny", cwd=tmp_path, path=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == ("decoder-gui: Qt needs system libraries; install the packages libegl1\n")


@pytest.mark.parametrize(
    ("where", "status", "said"),
    [
        (">&-", 0, ""),
        ("| true", 0, ""),
        (">/dev/full", 2, "decoder-gui: [Errno 28] No space left on device\n"),
    ],
)
def test_output_that_goes_nowhere(where: str, status: int, said: str) -> None:
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", f'"$0" -m decoder_gui models {where}', sys.executable],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (status, said)
