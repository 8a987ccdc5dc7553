"""Models by name: a repository of a model hub, brought into the cache that all its tools share.

The package ``huggingface_hub`` does the fetching; it is imported when a name is first asked for.
Only what is opened here is fetched: ``config.json``, the tokenizer's files and safetensors.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import re
import shutil
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path, PurePosixPath
from queue import Empty, SimpleQueue
from typing import Any

from model.byte_counts import format_bytes
from model.checkpoints.loading import PICKLES, REFUSED
from model.checkpoints.safetensors_folder import CONFIG, MERGES, TOKENIZER, VOCABULARY
from model.checkpoints.safetensors_split import INDEX, WEIGHTS, is_part, read_index
from model.errors import CheckpointError

PREFIX = "hf:"
CHUNK = 2**20  # bytes between two looks at whether the download was cancelled
HEARTBEAT = 0.1  # s after which progress is repeated, so that whoever watches can cancel
PATIENCE = 2.0  # s that a cancelled download is waited for; what is left of it changes nothing
ANSWER_WITHIN = 10  # s for the first answer of the hub

_PART = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_SPEC = re.compile(rf"(?P<id>{_PART}(/{_PART})?)(@(?P<revision>[A-Za-z0-9][\w./-]*))?")


class HubError(CheckpointError):
    """A repository that cannot be had; one sentence."""


class _Cancelled(Exception):
    """Unwinds a download out of the package that does it."""


@dataclass(frozen=True)
class Repository:
    """A repository of models, and a branch, tag or commit of it."""

    id: str
    revision: str = "main"

    def __str__(self) -> str:
        revision = "" if self.revision == "main" else f"@{self.revision}"
        return f"{PREFIX}{self.id}{revision}"

    @classmethod
    def of(cls, spec: str) -> Repository:
        """What ``hf:owner/name`` or ``hf:owner/name@revision`` names.

        Raises:
            HubError: it is no such name.
        """
        found = _SPEC.fullmatch(spec.removeprefix(PREFIX).strip())
        if found is None or ".." in spec or "--" in found["id"]:
            raise HubError(
                f"{spec!r} is not a name such as {PREFIX}openai-community/gpt2, with an optional "
                "@revision"
            )
        return cls(found["id"], found["revision"] or "main")


@dataclass(frozen=True)
class Downloading:
    """Progress of a download: ``done`` of ``total`` bytes, and which file comes now."""

    repository: str
    file: str
    done: int
    total: int


Fetching = Generator[Downloading, None, Path]


def fetch(repository: Repository) -> Fetching:
    """The folder of a repository in the cache; what is missing there is downloaded first.

    Nothing is asked of the network where the cache holds everything. It may be stopped between any
    two of the items that it yields: a file that is not complete is thrown away, and those that are
    stay for the next time.

    Raises:
        HubError: there is no such repository, it is not open to everyone, holds nothing that can
            be opened, or the network or the disk fails; one sentence.
    """
    folder = cached_folder(repository)
    if folder is not None and _has_weights(folder) and _has_tokenizer(folder):
        return folder
    try:
        return (yield from _download(repository))
    except HubError:
        if folder is not None and _has_weights(folder):
            return folder  # it came without a tokenizer, or nobody can say
        raise


def cached_folder(repository: Repository) -> Path | None:
    """Where the cache keeps a repository's files, if it has its ``config.json``."""
    from huggingface_hub import try_to_load_from_cache

    try:
        config = try_to_load_from_cache(repository.id, CONFIG, revision=repository.revision)
    except (ValueError, OSError):
        return None
    return Path(config).parent if isinstance(config, str) else None


def _has_weights(folder: Path) -> bool:
    if (folder / WEIGHTS).is_file():
        return True
    if not (folder / INDEX).is_file():
        return False
    try:
        return all((folder / part).is_file() for part in read_index(folder / INDEX).values())
    except CheckpointError:
        return False


def _has_tokenizer(folder: Path) -> bool:
    return (folder / TOKENIZER).is_file() or all(
        (folder / name).is_file() for name in (VOCABULARY, MERGES)
    )


def _download(repository: Repository) -> Fetching:
    """Drive a download in a thread of its own, for the package only ever calls and never yields."""
    task = _Task(repository)
    task.thread.start()
    latest = Downloading(repository.id, CONFIG, 0, 0)
    try:
        while True:
            try:
                item = task.said.get(timeout=HEARTBEAT)
            except Empty:
                item = latest
            if isinstance(item, Path):
                return item
            if isinstance(item, BaseException):
                raise _as_sentence(item, repository) from None
            latest = item
            yield latest
    finally:
        task.cancelled.set()
        task.thread.join(PATIENCE)


class _Task:
    """One download: a thread, what it says, and a flag that stops it at its next chunk."""

    def __init__(self, repository: Repository) -> None:
        self.repository = repository
        self.said: SimpleQueue[Downloading | Path | BaseException] = SimpleQueue()
        self.cancelled = threading.Event()
        # A daemon: one that hangs in a connection must not keep the program from ending.
        self.thread = threading.Thread(target=self._run, name="decoder-gui download", daemon=True)
        self._sizes: dict[str, int] = {}
        self._done: dict[str, int] = {}

    def _run(self) -> None:
        try:
            self.said.put(self._fetch_all())
        except _Cancelled:
            pass
        except BaseException as error:  # it crosses over to whoever drives the download
            self.said.put(error)

    def _fetch_all(self) -> Path:
        from huggingface_hub import constants

        # Its messages about retries are for a terminal that is not there.
        logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
        constants.HF_HUB_DISABLE_TELEMETRY = True  # nobody needs to know who asks, or from what
        # Plain HTTP can be stopped between any two chunks, the parallel transfer cannot.
        constants.HF_HUB_DISABLE_XET = True
        constants.DOWNLOAD_CHUNK_SIZE = CHUNK

        # The list comes first: it fails at once, where a file would be tried for many seconds.
        commit, offered = self._list(self.repository.revision)
        small = tokenizer_files(offered)
        weights = weight_files(offered, self.repository)
        self._sizes = {name: offered[name] for name in (CONFIG, *small, *weights)}
        _require_disk(sum(self._sizes.values()), self.repository)
        # Fetched by the revision's name, which the cache remembers; the rest by the commit, for the
        # branch may move meanwhile.
        config = self._fetch(CONFIG, self.repository.revision)
        if config.parent.name != commit:
            commit, offered = self._list(config.parent.name)
        for name in small:
            self._fetch(name, commit)
        if INDEX in weights:
            shards = set(read_index(self._fetch(INDEX, commit)).values())
            missing = sorted(shards - offered.keys())
            if missing:
                raise HubError(f"{self.repository}: {INDEX} names {missing[0]}, which is not there")
            weights = (INDEX, *sorted(shards))
            self._sizes = {name: offered[name] for name in (CONFIG, *small, *weights)}
        for name in weights:
            self._fetch(name, commit)
        return config.parent

    def _list(self, revision: str) -> tuple[str, dict[str, int]]:
        """The commit that a revision is, and its files with their bytes."""
        from huggingface_hub import HfApi

        self._check()
        info = HfApi().model_info(
            self.repository.id, revision=revision, files_metadata=True, timeout=ANSWER_WITHIN
        )
        offered = {each.rfilename: each.size or 0 for each in info.siblings or ()}
        if CONFIG not in offered:
            raise HubError(f"{self.repository}: has no {CONFIG}, which holds the model's sizes")
        return info.sha or revision, offered

    def _fetch(self, name: str, revision: str) -> Path:
        from huggingface_hub import hf_hub_download

        self._check()
        self._say(name)
        found = hf_hub_download(
            self.repository.id,
            name,
            revision=revision,
            etag_timeout=ANSWER_WITHIN,
            tqdm_class=_meter(lambda size: self._count(name, size)),
        )
        path = Path(str(found))
        self._done[name] = path.stat().st_size
        return path

    def _count(self, name: str, size: int) -> None:
        self._check()
        self._done[name] = self._done.get(name, 0) + size
        self._say(name)

    def _say(self, name: str) -> None:
        total = sum(self._sizes.values())
        done = sum(self._done.values())
        self.said.put(Downloading(self.repository.id, name, done, max(done, total)))

    def _check(self) -> None:
        if self.cancelled.is_set():
            raise _Cancelled


def _meter(count: Callable[[int], None]) -> Any:
    """A class that stands in for a progress bar and passes every chunk's size on."""

    class Meter:
        def __init__(self, *_: object, **__: object) -> None:
            self.total: float | None = None
            self.n = 0

        def __enter__(self) -> Meter:
            return self

        def __exit__(self, *_: object) -> None:
            return None

        def update(self, size: float | None = 1) -> None:
            count(int(size or 0))

        def close(self) -> None:
            return None

    return Meter


def tokenizer_files(offered: Mapping[str, int]) -> tuple[str, ...]:
    """Which files of a repository a tokenizer is made from."""
    wanted = (TOKENIZER,) if TOKENIZER in offered else (VOCABULARY, MERGES)
    return tuple(name for name in wanted if name in offered)


def weight_files(offered: Mapping[str, int], repository: Repository) -> tuple[str, ...]:
    """Which files of a repository hold its weights: one, or an index and its parts.

    Raises:
        HubError: it has none that are read; the sentence says what it has instead.
    """
    if WEIGHTS in offered:
        return (WEIGHTS,)
    if INDEX in offered:
        return (INDEX, *sorted(name for name in offered if is_part(Path(name))))
    endings = {PurePosixPath(name).suffix: name for name in sorted(offered, reverse=True)}
    if ".gguf" in endings:
        raise HubError(
            f"{repository}: has no {WEIGHTS}, only GGUF files such as {endings['.gguf']}; download "
            "one and open it by its path"
        )
    found = next((endings[ending] for ending in REFUSED if ending in endings), None)
    if found is None:
        raise HubError(f"{repository}: has no {WEIGHTS}")
    kind = REFUSED[PurePosixPath(found).suffix]
    why = (
        ", which is never downloaded because opening it can run code"
        if PurePosixPath(found).suffix in PICKLES
        else ", which is not read"
    )
    raise HubError(
        f"{repository}: has no {WEIGHTS}, only {found}, {kind}{why}; look for a repository that "
        "has safetensors"
    )


def _require_disk(size: int, repository: Repository) -> None:
    from huggingface_hub import constants

    cache = Path(constants.HF_HUB_CACHE)
    place = next((each for each in (cache, *cache.parents) if each.exists()), Path("/"))
    with contextlib.suppress(OSError):
        free = shutil.disk_usage(place).free
        if size > free:
            raise HubError(
                f"{repository}: takes {format_bytes(size)} on disk, and {format_bytes(free)} are "
                f"free in {cache}"
            )


def _as_sentence(error: BaseException, repository: Repository) -> BaseException:
    """A refusal in words for whatever a download failed with; a bug stays what it is."""
    if isinstance(error, CheckpointError):
        return error
    words = next(chain(_known(error, repository), _network(error, repository)), "")
    return HubError(words) if words else error


def _known(error: BaseException, repository: Repository) -> Iterator[str]:
    """What the hub or the disk said, most particular first."""
    from huggingface_hub import constants, errors

    where = constants.ENDPOINT
    if isinstance(error, errors.GatedRepoError):
        yield (
            f"{repository}: is only for those who accepted its terms at {where}/{repository.id}; "
            "accept them there and set HF_TOKEN"
        )
    if isinstance(error, errors.RepositoryNotFoundError):
        yield f"{repository}: there is no such repository at {where}, or it is private"
    if isinstance(error, errors.RevisionNotFoundError):
        yield f"{repository}: the repository has no revision {repository.revision!r}"
    if isinstance(error, errors.RemoteEntryNotFoundError):
        yield f"{repository}: a file that was listed at {where} is not there"
    if isinstance(error, errors.HFValidationError):
        yield f"{repository}: is not a name that a repository can have"
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        yield f"{repository}: the disk of {constants.HF_HUB_CACHE} is full"
    if isinstance(error, OSError) and error.errno in (errno.EACCES, errno.EROFS, errno.EPERM):
        yield f"{repository}: {error.filename or constants.HF_HUB_CACHE} cannot be written"


def _network(error: BaseException, repository: Repository) -> Iterator[str]:
    """No answer, or none that is one."""
    from huggingface_hub import constants, errors

    where = constants.ENDPOINT
    if isinstance(error, errors.HfHubHTTPError):
        yield f"{repository}: {where} answered {error.response.status_code}"
    if isinstance(error, errors.OfflineModeIsEnabled) or constants.is_offline_mode():
        yield f"{repository}: is not in the cache, and HF_HUB_OFFLINE forbids to fetch it"
    module = type(error).__module__.split(".")[0]
    if isinstance(error, errors.LocalEntryNotFoundError) or module in ("httpx", "httpx2"):
        yield f"{repository}: is not in the cache, and {where} cannot be reached"
    if isinstance(error, OSError) and "Consistency check" in str(error):
        yield f"{repository}: a file of another size arrived than {where} had promised"
    if isinstance(error, OSError | ValueError):
        reason = " ".join(str(error).split())[:160]
        yield f"{repository}: the download failed ({reason})"
