"""Every error that a caller of the package may meet, each as its own type.

All of them derive from :class:`DecoderError`, so that a program can turn any refusal into one
line for its user and still let real bugs through. Each also derives from the built-in type that
describes it, so that code that knows nothing of this package can catch it.
"""

from __future__ import annotations


class DecoderError(Exception):
    """The root of every refusal in this package; its text is one sentence for the user."""


class ContextOverflow(DecoderError, ValueError):
    """More tokens than the context has positions.

    A type of its own because the silent alternative, dropping the front of the prompt, removes
    the instructions and leaves no trace of having done so.
    """

    def __init__(
        self, tokens: int, context: int, detail: str = "", *, what: str = "tokens"
    ) -> None:
        self.tokens = tokens
        self.context = context
        more = f"; {detail}" if detail else ""
        super().__init__(f"{tokens} {what} do not fit in a context of {context} positions{more}")


class CacheExhausted(DecoderError, RuntimeError):
    """The key-value cache has no room for the next position."""

    def __init__(self, wanted: int, capacity: int) -> None:
        self.wanted = wanted
        self.capacity = capacity
        super().__init__(
            f"the key-value cache is full: position {wanted} was asked for and the capacity is "
            f"{capacity}; generation stops here"
        )


class CausalityViolation(DecoderError, AssertionError):
    """A position attends to a later one; nothing else would show it but a loss that is too good."""

    def __init__(self, query: int, key: int, weight: float) -> None:
        self.query = query
        self.key = key
        self.weight = weight
        super().__init__(
            f"query {query} attends to the later key {key} with weight {weight:.6g}; "
            "the causal mask is wrong"
        )


class ShapeMismatch(DecoderError, ValueError):
    """Dimensions that contradict each other; the message holds both."""


class InvalidSampling(ShapeMismatch):
    """A sampling setting outside its range; the message names the range."""


class NonFiniteLogits(DecoderError, ValueError):
    """NaN, +infinity, or nothing but -infinity among the logits: there is nothing to sample."""


class EmptyPrompt(DecoderError, ValueError):
    """A run needs at least one token."""

    def __init__(self) -> None:
        super().__init__("the prompt is empty: at least one token is needed")


class UnknownToken(DecoderError, ValueError):
    """A word or an id outside the vocabulary; the message lists or bounds the vocabulary."""


class CheckpointError(DecoderError, ValueError):
    """A model file that cannot be used; the message names the file and the field."""


class NotEnoughMemory(CheckpointError):
    """A model that the memory at hand cannot hold; the message states what it needs."""


class NoWeights(DecoderError, RuntimeError):
    """Something to compute was asked of a capture, which is a recording."""

    def __init__(self, detail: str = "nothing further can be computed") -> None:
        super().__init__(f"a capture holds no weights: {detail}")


class FaultNotPossible(DecoderError, ValueError):
    """A deliberate fault that this engine cannot have; the message says why."""


class EditNotPossible(DecoderError, ValueError):
    """A change of an activation that this engine cannot make; the message says why."""


class InvalidLearningRate(DecoderError, ValueError):
    """A step length of gradient descent that is not a positive finite number."""

    def __init__(self, rate: float) -> None:
        super().__init__(f"a learning rate must be a finite number above 0, not {rate:g}")


def sentence(words: object) -> str:
    """An error, or other words, as a sentence: a capital in front and a full stop at the end.

    A name in front, such as that of a file or a field, stays as it is.
    """
    text = str(words).strip()
    first = text.split(maxsplit=1)[0].rstrip(",:;.?") if text else ""
    if first.replace("-", "").replace("’", "").isalpha():
        text = text[:1].upper() + text[1:]
    return text + ("" if text.endswith(".") else ".")
