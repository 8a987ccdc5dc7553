"""A folder with ``config.json``, safetensors files and a tokenizer, read without executing it.

The package ``safetensors`` checks the header against the file; every tensor is then held against
the blueprint before any of it is read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from model.checkpoints.estimate import FLOAT32, Needs, progress_of
from model.checkpoints.loading import (
    Config,
    Family,
    Format,
    LoadedModel,
    Opening,
    TensorSource,
    family_of,
    register_format,
)
from model.checkpoints.safetensors_file import DTYPES, StoredTensor, read_tensor
from model.checkpoints.safetensors_split import (
    StoredWeights,
    holds_weights,
    is_part,
    read_headers,
)
from model.decoder import Decoder
from model.errors import CheckpointError
from model.fast_tokenizers import read_tokenizer, read_vocabulary
from model.tokenizers import IdTokenizer, Tokenizer
from model.weights import Floats, build_weights, count_strays, stray_warning, weight_shapes

CONFIG = "config.json"
TOKENIZER, VOCABULARY, MERGES = "tokenizer.json", "vocab.json", "merges.txt"
CUT_AS_GPT2 = frozenset({"gpt2"})  # families of which vocab.json and merges.txt say all
LARGEST_CONFIG = 10 * 1024 * 1024


def recognises(place: Path) -> bool:
    """A folder with the weights in one file or in several, or a ``.safetensors`` file."""
    return holds_weights(place) if place.is_dir() else place.suffix == ".safetensors"


def open_folder(place: Path) -> Opening:
    """Open such a folder, or the folder around such a file.

    Raises:
        CheckpointError: a part of it cannot be used; the sentence names the file and the field.
    """
    folder = place if place.is_dir() else place.parent
    weights = read_headers(folder if is_part(place) else place)
    stored = weights.tensors
    config = _read_config(folder / CONFIG)
    family = family_of(config.get("model_type"), folder / CONFIG)
    blueprint = family.blueprint(config, folder / CONFIG)
    sources = family.sources(blueprint, frozenset(stored))
    shapes = weight_shapes(blueprint)
    doubles = family.doubles(blueprint)
    _check_tensors(weights, shapes, sources, family, doubles)
    tokenizer = _open_tokenizer(
        folder, blueprint.shape.vocabulary, cut_as_gpt2=family.model_type in CUT_AS_GPT2
    )

    title = folder.resolve().name
    yield Needs.of(title, family.label, blueprint)
    arrays: dict[str, Floats] = {}
    warnings: list[str] = []
    sizes = {name: FLOAT32 * math.prod(size) for name, size in shapes.items()}
    for name, progress in zip(shapes, progress_of(sizes), strict=True):
        yield progress
        parts = [read_tensor(stored[each]) for each in sources[name].names]
        warnings += [
            stray_warning(each, count)
            for each, part in zip(sources[name].names, parts, strict=True)
            if (count := count_strays(part))
        ]
        arrays[name] = sources[name].assemble(parts)
    for double, name in doubles.items():
        if double in stored and not _repeats(stored[double], arrays[name]):
            original = sources[name].names[0]
            warnings.append(
                f"{double} is not the {original} that {CONFIG} says it is; it is not used"
            )
    return LoadedModel(
        name=title,
        family=family.label,
        engine=Decoder(blueprint, build_weights(blueprint, arrays)),
        tokenizer=tokenizer,
        path=place,
        warnings=tuple(warnings),
    )


def _check_tensors(
    weights: StoredWeights,
    shapes: dict[str, tuple[int, ...]],
    sources: dict[str, TensorSource],
    family: Family,
    doubles: Mapping[str, str],
) -> None:
    """Every tensor's name, type and shape against what config.json asks for, before any is read."""
    stored = weights.tensors
    used = set(doubles)
    for weight, size in shapes.items():
        source = sources[weight]
        used.update(source.names)
        for name, wanted in zip(source.names, source.stored_shapes(size), strict=True):
            found = stored.get(name)
            if found is None:
                raise CheckpointError(f"{weights.place}: the tensor {name} is missing")
            if found.dtype not in DTYPES:
                raise CheckpointError(
                    f"{found.path}: {name} is stored as {found.dtype}; read are {', '.join(DTYPES)}"
                )
            if found.shape != wanted:
                raise CheckpointError(
                    f"{found.path}: {name} has shape {list(found.shape)}, and {CONFIG} asks for "
                    f"{list(wanted)}"
                )
    surplus = sorted(name for name in stored if name not in used and not family.ignored(name))
    if surplus:
        more = f", nor {len(surplus) - 1} others that are there" if len(surplus) > 1 else ""
        raise CheckpointError(
            f"{weights.place}: a {family.label} model of this {CONFIG} has no tensor "
            f"{surplus[0]}{more}"
        )


def _repeats(stored: StoredTensor, weight: Floats) -> bool:
    if stored.dtype not in DTYPES or stored.shape != weight.shape:
        return False
    return np.array_equal(read_tensor(stored), weight, equal_nan=True)


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


def _open_tokenizer(folder: Path, vocabulary: int, *, cut_as_gpt2: bool) -> Tokenizer:
    """The folder's tokenizer; without one, a prompt is a list of ids.

    The older pair of files does not say how text is cut up before its pieces are merged, so it is
    read only where that is known.
    """
    tokenizer: Tokenizer
    if (folder / TOKENIZER).exists():
        source = folder / TOKENIZER
        tokenizer = read_tokenizer(source)
    elif cut_as_gpt2 and (folder / VOCABULARY).exists() and (folder / MERGES).exists():
        source = folder / VOCABULARY
        tokenizer = read_vocabulary(source, folder / MERGES)
    else:
        return IdTokenizer(vocabulary, f"{folder}: there is no {TOKENIZER}")
    if tokenizer.vocabulary > vocabulary:
        raise CheckpointError(
            f"{source}: has {tokenizer.vocabulary} tokens, and the vocab_size of {CONFIG} is "
            f"{vocabulary}"
        )
    return tokenizer


register_format(Format("safetensors", recognises, open_folder))
