"""How the model goes on from what a reader may type: openings, broken-off and mixed-up sentences.

Most of these prompts are not of the grammar. A continuation is judged by what can be checked
without a reader: whether a word stands twice in a row or three words come back at once; whether
the text ends by itself; and whether, from the first sentence end on that the model wrote itself (or
that the prompt ends with), it consists of whole sentences of the grammar. Needs PyTorch.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass

from grammar import follow, loose_sentences
from story_shapes import NAMES

WORD = re.compile(r"\w+|[^\w\s]+")
SENTENCE_END = re.compile(r'[.?!]"?(?: |$)')

PROMPTS = """
There was a big dog named Max.
One day a dog named Max
Anna had a red ball.
Once there was an old owl named Otto.
Once upon a time there was a dog named Ruby.
A dog named Max lived in the forest.
Tom was a little cat.
Anna and Ben
Anna and Ben were good friends.
In a forest there lived a bear named Leo.
One day a dog named Max went to the garden.
One day a
Tom
The cat
She said
A red
He
Once
There
The little cat
Tom said
"Where is
One morning
It was
Anna went to the
There was a
The red ball
Lily and Tom played in the
Anna was hungry.
The dog was sad.
Ben loved the ball.
Max had a ball and a hat.
A cat and a dog lived by the sea.
Tom had a sister named Anna.
Lily saw a frog.
One day it began to rain.
The next day Tom
"Thank you,
Ben was happy.
They went home.
the cat saw Tom and the ball
Tom ball red the had a
Lily was a red ball named Ben.
Ruby went to the garden and saw a bear.
Anna and Tom and Ben went to the sea.
The garden was very big and the ball was gone.
Then the dog said to Max
Max Max Max
My name is Lily.
I see a cat
where is the dog
One day Emma took the cake and ran home.
A frog named Max had a golden key.
The king had a big castle.
Tom and Anna ate the cake.
a little cat named Tom
Who is there?
In the forest
Tom closed the door.
Then
""".strip().splitlines()


@dataclass(frozen=True)
class Judged:
    """A prompt, what was written after it, and what holds of that."""

    prompt: str
    rest: str
    free: bool  # of repetition
    ended: bool
    sentences: bool  # made of sentences of the grammar; implies free and ended
    agrees: bool  # and read by `follow`: names and things agree
    name: bool | None  # a name of the prompt is in the second half; None without a name there


def repeats(words: list[str]) -> bool:
    """Whether a word stands twice in a row or three words come back at once."""
    twice = any(a == b for a, b in itertools.pairwise(words))
    return twice or any(words[i : i + 3] == words[i + 3 : i + 6] for i in range(len(words) - 5))


def judge(prompt: str, text: str, ended: bool, loose: re.Pattern[str]) -> Judged:
    """What holds of a text that was written after a prompt; `loose` is of `loose_sentences`."""
    rest = text[len(prompt) :]
    words = WORD.findall(rest)
    free = not repeats([*WORD.findall(prompt)[-1:], *words])
    first = next((m.end() for m in SENTENCE_END.finditer(text) if m.end() > len(prompt)), len(text))
    if prompt.endswith((".", "?", "!")):
        first = len(prompt) + 1
    whole = free and ended and len(words) > 3
    starts = {0, first} - {len(text)}
    sentences = whole and any(loose.fullmatch(text[start:]) for start in starts)
    agrees = whole and any(follow(text[start:]) is not None for start in starts)
    named = {w for w in WORD.findall(prompt) if w in NAMES}
    kept = bool(named & set(words[len(words) // 2 :])) if named else None
    return Judged(prompt, rest, free, ended, sentences, agrees, kept)


def report_unfamiliar(write: Callable[[str], tuple[str, bool]]) -> None:
    """Print every continuation with its marks, then the counts."""
    loose = loose_sentences()
    judged = [judge(prompt, *write(prompt), loose) for prompt in PROMPTS]
    for one in judged:
        given = zip("FESA", (one.free, one.ended, one.sentences, one.agrees), strict=True)
        print(f"  [{''.join(m if holds else '-' for m, holds in given)}] {one.prompt} |{one.rest}")
    names = [one.name for one in judged if one.name is not None]
    print(
        f"unfamiliar: {len(judged)} prompts, {sum(j.free for j in judged)} free of repetition, "
        f"{sum(j.ended for j in judged)} end by themselves, {sum(j.sentences for j in judged)} go "
        f"on in sentences of the grammar, {sum(j.agrees for j in judged)} of them agree throughout"
        f"; {sum(names)} of {len(names)} keep a name of the prompt"
    )
