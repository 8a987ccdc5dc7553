"""The tiny decoder with edits: its own functions, one operation at a time for all positions.

:mod:`model.tiny` computes a position from end to end, and stays readable because nothing can reach
into it. Here each result is put where an edit may change it before the next function reads it.
Without an edit the bits are those of :func:`model.tiny.run_pass`; a test holds it to that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from model import tiny
from model.ablation import Edits
from model.wiring import Wiring

Vectors = list[tiny.Vector]
"""One vector a position."""

BLOCK = "blocks.0."


class _Editor:
    """Changes results of positions up to ``end``, as the arrays that the engine hands out."""

    def __init__(self, edits: Edits, end: int) -> None:
        self._edits = edits
        self._end = end

    def __call__(self, name: str, vectors: Vectors) -> Vectors:
        array = np.array([vectors])  # (1, pos, width)
        if name.startswith(f"{BLOCK}attn.") and name != f"{BLOCK}attn.out":
            array = array[:, np.newaxis]  # (1, 1, pos, width): a head axis
        self._edits.write(name, array, self._end)
        changed: Vectors = array.reshape(len(vectors), -1).tolist()
        return changed

    def by_key(self, name: str, rows: Vectors, keys: int, absent: float) -> Vectors:
        """The same for rows of one number a key, which are as long as what their query sees."""
        padded = [row + [absent] * (keys - len(row)) for row in rows]
        changed = self(f"{BLOCK}{name}", padded)
        return [new[: len(old)] for new, old in zip(changed, rows, strict=True)]


def edited_pass(
    ids: Sequence[int],
    cache: tiny.KVCache,
    edits: Edits,
    *,
    wiring: Wiring,
    weights: tiny.Coefficients,
) -> list[tiny.PositionTrace]:
    """:func:`model.tiny.run_pass` with edits; the cache gets keys and values as edited.

    Raises:
        UnknownToken: an id outside the vocabulary. ContextOverflow: a fifth position.
    """
    first = len(cache.keys)
    offset = 0 if wiring.restart_positions else first
    edit = _Editor(edits, first + len(ids))
    sums = [tiny.embed(token_id, offset + i, weights) for i, token_id in enumerate(ids)]
    inputs = edit(f"{BLOCK}resid_pre", [position.x for position in sums])
    embedded = [
        tiny.Embedded(position.embedding, position.position_vector, x)
        for position, x in zip(sums, inputs, strict=True)
    ]
    projected = _project(embedded, edit, weights)
    for position in projected:
        cache.append(position.key, position.value, stale=wiring.stale_cache and first > 0)
    return _finish(embedded, projected, cache, edit, wiring, weights)


def edited_block(
    embedded: Sequence[tiny.Embedded],
    cache: tiny.KVCache,
    edits: Edits,
    *,
    wiring: Wiring,
    weights: tiny.Coefficients,
) -> list[tiny.PositionTrace]:
    """The block again for the newest positions of a cache, whose inputs are edited already."""
    edit = _Editor(edits, len(cache.keys))
    return _finish(embedded, _project(embedded, edit, weights), cache, edit, wiring, weights)


def _project(
    embedded: Sequence[tiny.Embedded], edit: _Editor, weights: tiny.Coefficients
) -> list[tiny.Projected]:
    normalized = edit(
        f"{BLOCK}ln1", [tiny.rms_norm(position.x, weights.attention_scale) for position in embedded]
    )
    query, key, value = (
        edit(f"{BLOCK}attn.{name}", [tiny.project(vector, matrix) for vector in normalized])
        for name, matrix in (("q", weights.w_q), ("k", weights.w_k), ("v", weights.w_v))
    )
    return [tiny.Projected(*parts) for parts in zip(normalized, query, key, value, strict=True)]


def _finish(
    embedded: Sequence[tiny.Embedded],
    projected: Sequence[tiny.Projected],
    cache: tiny.KVCache,
    edit: _Editor,
    wiring: Wiring,
    weights: tiny.Coefficients,
) -> list[tiny.PositionTrace]:
    """Attention and all that follows, for the newest positions of the cache."""
    keys = len(cache.keys)
    first = keys - len(embedded)
    seen = [tiny.visible_keys(first + i, keys, wiring) for i in range(len(embedded))]
    raw = [
        tiny.attention(own.query, cache.keys[:n], cache.values[:n], scaled=wiring.scaled)[0]
        for own, n in zip(projected, seen, strict=True)
    ]
    scores = edit.by_key("attn.scores", raw, keys, -math.inf)
    pattern = edit.by_key("attn.pattern", [tiny.softmax(row) for row in scores], keys, 0.0)
    mixed = edit(
        f"{BLOCK}attn.z",
        [tiny.project(row, cache.values[:n]) for row, n in zip(pattern, seen, strict=True)],
    )
    update = edit(f"{BLOCK}attn.out", [tiny.project(z, weights.w_o) for z in mixed])
    middle = edit(
        f"{BLOCK}resid_mid",
        [tiny.add(position.x, u) for position, u in zip(embedded, update, strict=True)],
    )
    narrowed = edit(f"{BLOCK}ln2", [tiny.rms_norm(r, weights.ffn_scale) for r in middle])
    expanded = edit(f"{BLOCK}mlp.pre", [tiny.project(m, weights.w_up) for m in narrowed])
    activated = edit(f"{BLOCK}mlp.post", [[max(h, 0.0) for h in row] for row in expanded])
    mlp_update = edit(f"{BLOCK}mlp.out", [tiny.project(g, weights.w_down) for g in activated])
    output = edit(
        f"{BLOCK}resid_post", [tiny.add(r, f) for r, f in zip(middle, mlp_update, strict=True)]
    )
    final = edit("ln_final", [tiny.rms_norm(b, weights.final_scale) for b in output])
    logits = edit("logits", [tiny.project(y, weights.w_lm) for y in final])
    return [
        tiny.PositionTrace(
            embedding=embedded[i].embedding,
            position_vector=embedded[i].position_vector,
            x=embedded[i].x,
            normalized=projected[i].normalized,
            query=projected[i].query,
            key=projected[i].key,
            value=projected[i].value,
            scores=scores[i],
            attention_weights=pattern[i],
            mixed=mixed[i],
            attention_update=update[i],
            attention_residual=middle[i],
            ffn_normalized=narrowed[i],
            ffn_expanded=expanded[i],
            ffn_activated=activated[i],
            ffn_update=mlp_update[i],
            block_output=output[i],
            final=final[i],
            logits=logits[i],
            probabilities=tiny.softmax(logits[i]),
            selected_id=max(range(len(logits[i])), key=logits[i].__getitem__),
        )
        for i in range(len(embedded))
    ]
