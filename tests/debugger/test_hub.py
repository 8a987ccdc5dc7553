"""Models by name, against a hub on the loopback interface; nothing else may be connected to."""

from __future__ import annotations

import errno
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from huggingface_hub import close_session, constants

from decoder_gui.debugger import hub as hub_module
from decoder_gui.debugger.hub import Downloading, HubError, Repository, fetch
from decoder_gui.debugger.library import Preparing, open_model, prepare
from model.errors import CheckpointError
from tests.debugger.hub_server import COMMIT, Hub, running_hub, use_hub

GOLDEN = Path(__file__).parent.parent / "model" / "golden"
NAME = "someone/tied"


def letters() -> str:
    """A tokenizer.json of the 28 tokens that fit the small model: letters and a space."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    symbols = ["<|endoftext|>", "Ġ", *"abcdefghijklmnopqrstuvwxyz"]
    tokenizer = Tokenizer(models.BPE({symbol: i for i, symbol in enumerate(symbols)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    text: str = tokenizer.to_str()
    return text


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    """A hub of one's own, an empty cache, and a world that ends at this machine."""
    connect = socket.socket.connect

    def connect_nearby(self: socket.socket, address: Any) -> None:
        assert address[0] == "127.0.0.1", f"connects to {address}"
        connect(self, address)

    for variable in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(variable, raising=False)
        monkeypatch.delenv(variable.lower(), raising=False)
    monkeypatch.setattr(socket.socket, "connect", connect_nearby)
    with running_hub() as running:
        use_hub(monkeypatch, running.url, tmp_path / "cache")
        yield running
        close_session()


@pytest.fixture
def offered(hub: Hub, tmp_path: Path) -> Hub:
    """A hub with a small model, its tokenizer, and much that nobody needs."""
    folder = Path(shutil.copytree(GOLDEN / "tied", tmp_path / "offered"))
    (folder / "tokenizer.json").write_text(letters(), encoding="utf-8")
    hub.add(NAME, folder)
    hub.repositories[NAME] |= {
        "pytorch_model.bin": b"\x80\x02",
        "README.md": b"about",
        "vocab.json": b"{}",
        "merges.txt": b"",
        "tokenizer_config.json": b"{}",
        "onnx/model.onnx": b"graph",
    }
    return hub


def files_below(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def drive(name: str) -> list[Downloading]:
    return list(fetch(Repository.of(name)))


@pytest.mark.parametrize(
    ("spec", "repository"),
    [
        ("hf:openai-community/gpt2", Repository("openai-community/gpt2")),
        ("hf:gpt2@v1", Repository("gpt2", "v1")),
        ("hf:a/b.c-d_e@refs/pr/3", Repository("a/b.c-d_e", "refs/pr/3")),
    ],
)
def test_names(spec: str, repository: Repository) -> None:
    assert Repository.of(spec) == repository
    assert str(repository) == spec


@pytest.mark.parametrize(
    "spec", ["hf:", "hf:a/b/c", "hf:../x", "hf:a/..", "hf:a b", "hf:a/b@", "hf:a/b@../c", "hf:-a"]
)
def test_what_is_no_name_is_refused_without_asking_anyone(spec: str, hub: Hub) -> None:
    with pytest.raises(HubError, match="is not a name such as hf:"):
        open_model(spec)
    assert hub.asked == []


def test_only_what_is_needed_is_fetched_and_it_runs(offered: Hub) -> None:
    loaded = open_model(f"hf:{NAME}")
    assert (loaded.name, loaded.family) == (NAME, "GPT-2")
    golden = json.loads((GOLDEN / "tied" / "golden.json").read_text())
    cache = loaded.engine.new_cache(batch=2)
    found = loaded.engine.forward(np.array(golden["ids"]), cache, all_logits=True)
    np.testing.assert_allclose(found, np.array(golden["logits"]), atol=1e-4)
    assert sorted(offered.fetched()) == [
        "config.json",
        "model.safetensors",
        "tokenizer.json",
    ]


def test_the_second_time_nobody_is_asked(offered: Hub) -> None:
    open_model(f"hf:{NAME}")
    offered.asked.clear()
    assert open_model(f"hf:{NAME}").name == NAME
    assert open_model(f"hf:{NAME}@{COMMIT}").name == NAME
    assert offered.asked == []


def test_weights_in_several_files_are_fetched_by_their_index(hub: Hub) -> None:
    hub.add(NAME, GOLDEN / "gpt2_split")
    hub.repositories[NAME]["model-00009-of-00009.safetensors"] = b"of another time"
    loaded = open_model(f"hf:{NAME}")
    golden = json.loads((GOLDEN / "gpt2_split" / "golden.json").read_text())
    ids = np.atleast_2d(golden["ids"])[:, : len(golden["whole"])]
    found = loaded.engine.forward(ids, loaded.engine.new_cache(), all_logits=True)
    np.testing.assert_allclose(found[0], np.array(golden["whole"]), atol=1e-4)
    parts = [f"model-0000{number}-of-00003.safetensors" for number in (1, 2, 3)]
    assert hub.fetched() == ["config.json", "model.safetensors.index.json", *parts]
    hub.asked.clear()
    hub.errors[NAME] = (404, "RepoNotFound")
    # It has no tokenizer, so the hub is asked once more; what it says then does not matter.
    assert open_model(f"hf:{NAME}").name == NAME
    assert hub.asked
    assert not hub.fetched()


def test_a_revision_is_fetched_under_its_name(offered: Hub) -> None:
    open_model(f"hf:{NAME}@v1")
    assert any("/resolve/v1/config.json" in request for request in offered.asked)
    offered.asked.clear()
    open_model(f"hf:{NAME}@v1")
    assert offered.asked == []


def test_progress_counts_every_byte(offered: Hub) -> None:
    steps = drive(f"hf:{NAME}")
    last = steps[-1]
    kept = ("config.json", "tokenizer.json", "model.safetensors")
    assert last.total == sum(len(offered.repositories[NAME][name]) for name in kept)
    assert last.done == last.total
    done = [step.done for step in steps]
    assert done == sorted(done)
    words = [step for step in prepare(f"hf:{NAME}") if isinstance(step, Preparing)]
    assert all(step.fraction is None or 0 <= step.fraction <= 1 for step in words)


def test_a_cancelled_download_stops_between_chunks_and_leaves_nothing_half(
    offered: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_module, "CHUNK", 1024)
    offered.gate.clear()
    before = set(threading.enumerate())
    steps = fetch(Repository.of(NAME))
    for step in steps:
        if step.file == "model.safetensors" and step.done > 0.4 * step.total:
            break
    assert step.done < step.total
    offered.gate.set()
    steps.close()
    left = [t for t in threading.enumerate() if t not in before and "download" in t.name]
    assert left == []
    cache = tmp_path / "cache"
    assert not [name for name in files_below(cache) if name.endswith(".incomplete")]
    assert "model.safetensors" not in files_below(cache)
    offered.asked.clear()
    assert open_model(f"hf:{NAME}").name == NAME
    assert "model.safetensors" in offered.fetched()
    assert "tokenizer.json" not in offered.fetched()


def test_a_connection_that_is_dropped_is_a_sentence(
    offered: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    offered.broken["model.safetensors"] = 100
    with pytest.raises(HubError, match=f"hf:{NAME}: .*{offered.url}") as refusal:
        open_model(f"hf:{NAME}")
    assert "\n" not in str(refusal.value)
    assert "model.safetensors" not in files_below(tmp_path / "cache")
    offered.broken.clear()
    assert open_model(f"hf:{NAME}").name == NAME


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        (401, "RepoNotFound", "there is no such repository at http://127.0.0.1"),
        (404, "RepoNotFound", "there is no such repository at http://127.0.0.1"),
        (403, "GatedRepo", "only for those who accepted its terms at http://127.0.0.1"),
        (403, "", "answered 403|cannot be reached"),
    ],
)
def test_refusals_of_the_hub_are_sentences(hub: Hub, status: int, code: str, words: str) -> None:
    hub.errors[NAME] = (status, code)
    with pytest.raises(HubError, match=f"hf:{NAME}: .*({words})") as refusal:
        open_model(f"hf:{NAME}")
    assert "\n" not in str(refusal.value)


def test_a_revision_that_is_not_there(offered: Hub) -> None:
    with pytest.raises(HubError, match="has no revision 'nope'"):
        open_model(f"hf:{NAME}@nope")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("pytorch_model.bin", "only pytorch_model.bin, a PyTorch pickle.*can run code.*safetens"),
        ("model.h5", "only model.h5, a Keras file, which is not read"),
        ("model-Q4_0.gguf", "only GGUF files such as model-Q4_0.gguf; download one"),
        ("README.md", "has no model.safetensors$"),
    ],
)
def test_a_repository_without_safetensors(hub: Hub, name: str, words: str) -> None:
    hub.repositories[NAME] = {
        "config.json": (GOLDEN / "tied" / "config.json").read_bytes(),
        name: b"x",
    }
    with pytest.raises(HubError, match=words):
        open_model(f"hf:{NAME}")
    assert hub.fetched() == []


def test_a_repository_without_a_config(hub: Hub) -> None:
    hub.repositories[NAME] = {"model.safetensors": b"x"}
    with pytest.raises(HubError, match=r"has no config\.json"):
        open_model(f"hf:{NAME}")


@pytest.mark.parametrize(
    "shard",
    [
        "../../etc/passwd",
        "/etc/passwd",
        "sub/model.safetensors",
        "model.bin",
        3,
        "absent.safetensors",
    ],
)
def test_an_index_that_points_elsewhere_fetches_nothing_more(hub: Hub, shard: object) -> None:
    hub.repositories[NAME] = {
        "config.json": (GOLDEN / "tied" / "config.json").read_bytes(),
        "model.safetensors.index.json": json.dumps({"weight_map": {"a": shard}}).encode(),
    }
    with pytest.raises(CheckpointError, match=r"index\.json"):
        open_model(f"hf:{NAME}")
    assert "passwd" not in " ".join(hub.asked)


def test_without_a_network_it_says_so(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    use_hub(monkeypatch, url, tmp_path / "cache")
    with pytest.raises(HubError, match=f"is not in the cache, and {url} cannot be reached"):
        open_model(f"hf:{NAME}")


def test_offline_mode_is_honoured(offered: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(HubError, match="is not in the cache, and HF_HUB_OFFLINE forbids"):
        open_model(f"hf:{NAME}")
    assert offered.asked == []
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    open_model(f"hf:{NAME}")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert open_model(f"hf:{NAME}").name == NAME


def test_a_model_without_a_tokenizer_opens_from_the_cache_though_the_hub_is_gone(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    hub.add(NAME, GOLDEN / "tied")
    open_model(f"hf:{NAME}")
    hub.errors[NAME] = (503, "")
    monkeypatch.setattr("time.sleep", lambda _: None)
    assert open_model(f"hf:{NAME}").name == NAME


def test_a_full_disk_is_said_with_numbers(offered: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage("/")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1000))
    with pytest.raises(HubError, match=r"takes \d.* on disk, and 1000 B are free in"):
        open_model(f"hf:{NAME}")
    assert "model.safetensors" not in offered.fetched()


def test_a_disk_that_fills_up_is_a_sentence(offered: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(hub_module._Task, "_count", full)
    with pytest.raises(HubError, match=r"the disk of .* is full"):
        open_model(f"hf:{NAME}")


AUDITED = """
import sys
def watch(event, arguments):
    if event == "socket.connect" and arguments[1][0] != "127.0.0.1":
        print("CONNECTS TO", arguments[1], file=sys.stderr, flush=True)
        raise SystemExit(99)
    if event == "socket.getaddrinfo" and arguments[0] not in ("127.0.0.1", b"127.0.0.1"):
        print("LOOKS UP", arguments[0], file=sys.stderr, flush=True)
        raise SystemExit(99)
sys.addaudithook(watch)
from decoder_gui.cli import main
sys.exit(main(sys.argv[1:]))
"""


def command(url: str, home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    hidden = ("HF_", "HUGGING", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "XDG_CACHE")
    environment = {k: v for k, v in os.environ.items() if not k.upper().startswith(hidden)}
    environment |= {"HF_ENDPOINT": url, "HF_HOME": str(home), "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1"}
    return subprocess.run(
        [sys.executable, "-c", AUDITED, *words],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_command_line_honours_the_endpoint_and_asks_nobody_else(
    offered: Hub, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    first = command(offered.url, home, "trace", f"hf:{NAME}", "--prompt-ids", "1,2", "--json", "-")
    assert (first.stderr, first.returncode) == ("", 0)
    assert json.loads(first.stdout)["model"] == NAME
    allowed = ("/api/models/", f"/{NAME}/resolve/")
    assert all(request.split()[1].startswith(allowed) for request in offered.asked), offered.asked
    offered.asked.clear()
    again = command("http://127.0.0.1:1", home, "check", f"hf:{NAME}", "--prompt-ids", "1,2,3")
    assert (again.returncode, again.stderr) == (0, "")
    assert offered.asked == []
    wrong = command(offered.url, home, "check", "hf:someone/else")
    assert wrong.returncode == 2
    assert wrong.stderr.count("\n") == 1
    assert "hf:someone/else: there is no such repository" in wrong.stderr


def test_a_bug_is_not_dressed_up_as_a_refusal(
    offered: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(hub_module, "weight_files", broken)
    with pytest.raises(ZeroDivisionError):
        open_model(f"hf:{NAME}")
    assert not issubclass(ZeroDivisionError, CheckpointError)
