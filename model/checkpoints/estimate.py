"""What a model will need, from headers alone: known before any of its weights is read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from model.blueprint import Blueprint
from model.byte_counts import format_bytes
from model.errors import NotEnoughMemory
from model.shape import ModelShape
from model.weights import weight_shapes

FLOAT32 = 4  # bytes of every weight and every cached value, whatever the file holds
CACHE_SHARE = 8  # a context nobody asked for takes at most one part in this of what is free
CACHE_MOST = 512 * 2**20  # and at most these bytes
KEPT_FREE = 256 * 2**20  # bytes for the program itself and what it records


@dataclass(frozen=True)
class Needs:
    """The size of a model, as its headers state it.

    Attributes:
        name: what the model is called.
        family: what sort of model it is.
        shape: its dimensions.
        parameters: number of weights, a tied table counted once.
        weight_bytes: the weights in memory.
        largest_bytes: the largest tensor in memory; while it is read it is there twice.
    """

    name: str
    family: str
    shape: ModelShape
    parameters: int
    weight_bytes: int
    largest_bytes: int

    @classmethod
    def of(cls, name: str, family: str, blueprint: Blueprint) -> Needs:
        """What a blueprint needs; nothing but arithmetic on sizes."""
        sizes = [math.prod(size) for size in weight_shapes(blueprint).values()]
        parameters = sum(sizes)
        return cls(
            name=name,
            family=family,
            shape=blueprint.shape,
            parameters=parameters,
            weight_bytes=parameters * FLOAT32,
            largest_bytes=max(sizes) * FLOAT32,
        )

    def cache_bytes(self, positions: int) -> int:
        """Bytes of keys and values of a context of so many positions."""
        return self.shape.cache_bytes(1, FLOAT32, positions)

    def sentence(self, positions: int) -> str:
        """What it needs, in words and units."""
        return (
            f"{self.parameters:,} parameters, {format_bytes(self.weight_bytes)} of weights, "
            f"{format_bytes(self.cache_bytes(positions))} of cache for {positions:,} positions"
        )


@dataclass(frozen=True)
class Reading:
    """Progress of reading weights: ``done`` of ``total`` bytes in memory, and which comes next."""

    tensor: str
    done: int
    total: int


def available_memory() -> int | None:
    """Bytes that can be had without swapping, or None where the system does not say."""
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            name, _, amount = line.partition(":")
            if name == "MemAvailable":
                return int(amount.split()[0]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return None


def default_capacity(needs: Needs, available: int | None) -> int:
    """Positions of the cache where nobody asked for a number.

    The model's own context if its cache is small beside the memory at hand, else the largest
    power of two that is: a context of 131,072 positions would take gigabytes that few runs use.
    """
    budget = CACHE_MOST
    if available is not None:
        budget = min(budget, max(0, available - needs.weight_bytes) // CACHE_SHARE)
    context = needs.shape.context_length
    if needs.cache_bytes(context) <= budget:
        return context
    most = budget // needs.cache_bytes(1)
    return min(context, 1 << (most.bit_length() - 1)) if most else 1


def require_cache(shape: ModelShape, positions: int, available: int | None) -> None:
    """Refuse a context whose cache will not fit beside the model that is already there.

    Raises:
        NotEnoughMemory: with what it needs and what there is.
    """
    size = shape.cache_bytes(1, FLOAT32, positions)
    if available is not None and size > available:
        raise NotEnoughMemory(
            f"a context of {positions:,} positions needs {format_bytes(size)} of cache, and "
            f"{format_bytes(available)} of memory are available"
        )


def require_memory(needs: Needs, positions: int, available: int | None) -> None:
    """Refuse what will not fit, before any of it is read.

    Raises:
        NotEnoughMemory: with what it needs and what there is.
    """
    if available is None:
        return
    cache = needs.cache_bytes(positions)
    wanted = needs.weight_bytes + needs.largest_bytes + cache + KEPT_FREE
    if wanted > available:
        parts = (
            f"{format_bytes(needs.weight_bytes)} of weights",
            f"{format_bytes(needs.largest_bytes)} more while they are read",
            f"{format_bytes(cache)} of cache for {positions:,} positions",
            f"{format_bytes(KEPT_FREE)} for the rest",
        )
        raise NotEnoughMemory(
            f"there is not enough memory for {needs.name}: it needs {format_bytes(wanted)}, and "
            f"{format_bytes(available)} are available ({', '.join(parts)})"
        )


Progress = Needs | Reading


def progress_of(sizes: Mapping[str, int]) -> list[Reading]:
    """The progress to report before each of some tensors is read, by name and bytes in memory."""
    total = sum(sizes.values())
    done = 0
    steps = []
    for name, size in sizes.items():
        steps.append(Reading(name, done, total))
        done += size
    return steps
