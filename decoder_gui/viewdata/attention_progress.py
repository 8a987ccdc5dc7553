"""Which patterns of a run were looked at, cheap to ask while the run grows."""

from __future__ import annotations

Key = tuple[int, int]  # (step, layer)


class Done:
    """Which (step, layer) pairs are done; asking for the others costs only what is not done."""

    def __init__(self, layers: int) -> None:
        self._layers = layers
        self._complete = 0  # all layers of this many leading steps
        self._others: set[Key] = set()

    def add(self, key: Key) -> None:
        self._others.add(key)
        while self._others.issuperset(row := [(self._complete, i) for i in range(self._layers)]):
            self._others.difference_update(row)
            self._complete += 1

    def copy(self) -> Done:
        """Another one that starts from the same."""
        other = Done(self._layers)
        other._complete, other._others = self._complete, set(self._others)
        return other

    def forget(self, steps: int) -> None:
        """Keep what belongs to the first ``steps`` steps."""
        self._complete = min(self._complete, steps)
        self._others = {key for key in self._others if key[0] < steps}

    def missing(self, existing: tuple[int, int]) -> list[Key]:
        """The pairs not done among all layers of some steps and the first layers of one more."""
        steps, more = existing
        wanted = [
            (step, layer)
            for step in range(self._complete, steps + 1)
            for layer in range(self._layers if step < steps else more)
        ]
        return [key for key in wanted if key not in self._others]
