"""A folder with ``config.json``, ``model.safetensors`` and a tokenizer, read without executing it.

The package ``safetensors`` checks the header against the file; every tensor is then held against
the blueprint before any of it is read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from model.checkpoints.loading import (
    Config,
    Family,
    Format,
    LoadedModel,
    TensorSource,
    family_of,
    register_format,
)
from model.checkpoints.safetensors_file import (
    DTYPES,
    StoredTensor,
    StoredTensors,
    read_header,
    read_tensor,
)
from model.decoder import Decoder
from model.errors import CheckpointError
from model.tokenizers import ByteLevelTokenizer, IdTokenizer, Tokenizer
from model.weights import Floats, build_weights, weight_shapes

WEIGHTS, CONFIG = "model.safetensors", "config.json"
INDEX = "model.safetensors.index.json"
TOKENIZER, VOCABULARY, MERGES = "tokenizer.json", "vocab.json", "merges.txt"
LARGEST_CONFIG = 10 * 1024 * 1024


def recognises(place: Path) -> bool:
    """A folder with the weights in one file or in several, or a ``.safetensors`` file."""
    if place.is_dir():
        return (place / WEIGHTS).exists() or (place / INDEX).exists()
    return place.suffix == ".safetensors"


def open_folder(place: Path) -> LoadedModel:
    """Open such a folder, or the folder around such a file.

    Raises:
        CheckpointError: a part of it cannot be used; the sentence names the file and the field.
    """
    folder, weights_file = (place, place / WEIGHTS) if place.is_dir() else (place.parent, place)
    if not weights_file.exists():
        raise CheckpointError(
            f"{folder / INDEX}: the weights are split over several files; only a single "
            f"{WEIGHTS} is read"
        )
    stored = read_header(weights_file)
    config = _read_config(folder / CONFIG)
    family = family_of(config.get("model_type"), folder / CONFIG)
    blueprint = family.blueprint(config, folder / CONFIG)
    sources = family.sources(blueprint, frozenset(stored))
    shapes = weight_shapes(blueprint)
    doubles = family.doubles(blueprint)
    _check_tensors(weights_file, stored, shapes, sources, family, doubles)
    tokenizer = _open_tokenizer(folder, blueprint.shape.vocabulary)

    arrays: dict[str, Floats] = {}
    warnings: list[str] = []
    for name in shapes:
        source = sources[name]
        array = read_tensor(weights_file, stored[source.name])
        # A sum is not finite if any of its terms is not: one cheap look at all of them.
        if not np.isfinite(array.sum(dtype=np.float64)):
            count = array.size - int(np.isfinite(array).sum())
            what = "1 value that is" if count == 1 else f"{count:,} values that are"
            warnings.append(f"{source.name} holds {what} NaN or infinite")
        arrays[name] = np.ascontiguousarray(array.T) if source.transposed else array
    for double, name in doubles.items():
        if double in stored and not _repeats(weights_file, stored[double], arrays[name]):
            warnings.append(
                f"{double} is not the {sources[name].name} that {CONFIG} says it is; it is not used"
            )
    return LoadedModel(
        name=folder.resolve().name,
        family=family.label,
        engine=Decoder(blueprint, build_weights(blueprint, arrays)),
        tokenizer=tokenizer,
        path=place,
        added_bos=family.added_bos(config),
        warnings=tuple(warnings),
    )


def _check_tensors(
    file: Path,
    stored: StoredTensors,
    shapes: dict[str, tuple[int, ...]],
    sources: dict[str, TensorSource],
    family: Family,
    doubles: Mapping[str, str],
) -> None:
    """Every tensor's name, type and shape against what config.json asks for, before any is read."""
    for name, size in shapes.items():
        source = sources[name]
        found = stored.get(source.name)
        if found is None:
            raise CheckpointError(f"{file}: the tensor {source.name} is missing")
        if found.dtype not in DTYPES:
            raise CheckpointError(
                f"{file}: {source.name} is stored as {found.dtype}; read are {', '.join(DTYPES)}"
            )
        wanted = size[::-1] if source.transposed else size
        if found.shape != wanted:
            raise CheckpointError(
                f"{file}: {source.name} has shape {list(found.shape)}, and {CONFIG} asks for "
                f"{list(wanted)}"
            )
    used = {source.name for source in sources.values()} | set(doubles)
    surplus = sorted(name for name in stored if name not in used and not family.ignored(name))
    if surplus:
        more = f", nor {len(surplus) - 1} others that are there" if len(surplus) > 1 else ""
        raise CheckpointError(
            f"{file}: a {family.label} model of this {CONFIG} has no tensor {surplus[0]}{more}"
        )


def _repeats(file: Path, stored: StoredTensor, weight: Floats) -> bool:
    if stored.dtype not in DTYPES or stored.shape != weight.shape:
        return False
    return np.array_equal(read_tensor(file, stored), weight, equal_nan=True)


def _read_config(path: Path) -> Config:
    """The object in a config.json."""
    if not path.is_file():
        raise CheckpointError(f"{path}: there is no such file; it holds the sizes of the model")
    if path.stat().st_size > LARGEST_CONFIG:
        raise CheckpointError(f"{path}: larger than {LARGEST_CONFIG} bytes, so not a config.json")
    try:
        config: Any = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: not JSON ({error})") from None
    if not isinstance(config, dict):
        raise CheckpointError(f"{path}: holds no JSON object")
    return config


def _open_tokenizer(folder: Path, vocabulary: int) -> Tokenizer:
    """The folder's tokenizer; without one, a prompt is a list of ids."""
    tokenizer: Tokenizer
    if (folder / TOKENIZER).exists():
        source = folder / TOKENIZER
        tokenizer = ByteLevelTokenizer.from_file(source)
    elif (folder / VOCABULARY).exists() and (folder / MERGES).exists():
        source = folder / VOCABULARY
        tokenizer = ByteLevelTokenizer.from_vocabulary(source, folder / MERGES)
    else:
        return IdTokenizer(vocabulary, f"{folder}: there is no {TOKENIZER}")
    if tokenizer.vocabulary > vocabulary:
        raise CheckpointError(
            f"{source}: has {tokenizer.vocabulary} tokens, and the vocab_size of {CONFIG} is "
            f"{vocabulary}"
        )
    return tokenizer


register_format(Format("safetensors", recognises, open_folder))
