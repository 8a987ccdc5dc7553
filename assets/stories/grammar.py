"""The grammar behind the bundled model: short children's stories with words that must come back.

A story follows one of the shapes in `SHAPES`. A shape is a row of slots, a slot a choice between
sentences, all equally likely. Braces hold variables: the first mention draws a value, every later
mention repeats it. So the grammar itself knows where a word is certain: `follow` walks a text
through every derivation that agrees with it and tells, for each word, its exact probability and
whether it is forced. The same walk decides whether a text is a story of this grammar at all.

Standard library only. `python grammar.py 5` prints five stories.
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cache

END = "<|endoftext|>"


def _split(words: str) -> tuple[str, ...]:
    return tuple(words.split())


BOYS = _split("Tom Ben Max Sam Leo Tim Jack Finn Oscar Hugo Otto Noah Paul Emil Theo")
GIRLS = _split("Lily Anna Mia Lucy Emma Rosa Nora Ella Ruby Zoe Clara Ida Sara Molly Ada")
NAMES = BOYS + GIRLS
KINDS = _split(
    "cat dog fox bear rabbit mouse duck frog pig goat bird lamb pony owl turtle boy girl"
)
OBJECTS = _split("ball kite boat drum book hat bell cup bag car key shell coat ring")
COLOURS = _split("red blue green yellow white black brown pink orange purple")
PLACES = {
    "garden": "in the garden",
    "forest": "in the forest",
    "park": "in the park",
    "barn": "in the barn",
    "field": "in the field",
    "river": "by the river",
    "lake": "by the lake",
    "pond": "by the pond",
    "sea": "by the sea",
    "hill": "on the hill",
    "farm": "on the farm",
    "beach": "on the beach",
}
ITEMS = _split("ducks eggs apples stars flowers boats trees birds cows stones")
NUMBERS = _split("one two three four five six")

DOMAINS: dict[str, tuple[str, ...]] = {
    "adj": _split("little small young brave happy clever quiet old"),
    "kind": KINDS,
    "hero": NAMES,
    "friend": NAMES,
    "object": OBJECTS,
    "colour": COLOURS,
    "place": tuple(PLACES),
    "item": ITEMS,
    "count": NUMBERS[1:],
    "elder": _split("mother father sister brother teacher"),
    "hidden": ("under a tree", "behind a rock", "under the bed", "behind the door", "in a box"),
    "food": _split("bread cake soup pie honey cheese milk"),
}


class Role(Enum):
    """What a variable word stands for; the evaluation reports one line for each."""

    NAME = "name"
    KIND = "kind"
    OBJECT = "object"
    COLOUR = "colour"
    PLACE = "place"
    COUNT = "count"
    PRONOUN = "pronoun"
    OTHER = "other"


_ROLES = {
    "hero": Role.NAME,
    "friend": Role.NAME,
    "kind": Role.KIND,
    "object": Role.OBJECT,
    "colour": Role.COLOUR,
    "place": Role.PLACE,
    "count": Role.COUNT,
}

OPENING = (
    "Once upon a time there was {adj.a} {kind} named {hero}.",
    "Once upon a time there was {adj.a} {kind} named {hero}.",
    "Once there was {adj.a} {kind} named {hero}.",
    "Long ago there lived {adj.a} {kind} named {hero}.",
)

SHAPES: dict[str, tuple[tuple[str, ...], ...]] = {
    "lost": (
        OPENING,
        ("{hero} had {colour.a} {object}.", "{hero.He} had {colour.a} {object}."),
        (
            "Every day {hero} played with the {object} {place.at}.",
            "{hero.He} loved the {object} and took it to the {place}.",
        ),
        ("One morning the {object} was gone.", "But one day the {object} was gone."),
        (
            '"Where is my {colour} {object}?" cried {hero}.',
            '{hero} was sad. "I lost my {colour} {object}," {hero.he} said.',
        ),
        (
            "{kind2.A} named {friend} heard {hero} and came to help.",
            "Then {hero} met {kind2.a} named {friend}.",
        ),
        (
            '"Do not cry, {hero}," said {friend}. "I will help you."',
            '"Let us look for it, {hero}," said {friend}.',
        ),
        (
            "{hero} and {friend} looked {place2.at} all day.",
            "So {hero} and {friend} looked {place2.at}.",
        ),
        ("At last {friend} found the {colour} {object} {hidden}.",),
        (
            '"Thank you, {friend}," said {hero}.',
            'Then {hero} hugged {friend} and said, "Thank you, {friend}."',
        ),
        (
            "From that day on {hero} and {friend} were good friends.",
            "The {adj} {kind} was happy again.",
        ),
    ),
    "gift": (
        OPENING,
        ("It was a big day for {hero}.", "One day {hero} was sad."),
        (
            "{kind2.A} named {friend} lived {place.at}.",
            "{hero.His} friend {friend} lived {place.at}.",
        ),
        ("{friend} wanted to give {hero} a gift.", "{friend} made a gift for {hero}."),
        ("It was {colour.a} {object}.",),
        (
            '"This is for you, {hero}," said {friend}.',
            '{friend} came to {hero} and said, "This is for you, {hero}."',
        ),
        (
            '"Oh, {colour.a} {object}!" said {hero}. "Thank you, {friend}."',
            '{hero} looked at the {colour} {object} and said, "Thank you, {friend}."',
        ),
        (
            "All day {hero} and {friend} played with the {object} {place.at}.",
            "So {hero} took the {colour} {object} and played with {friend}.",
        ),
        (
            "In the evening {friend} went home, and {hero} went to sleep.",
            "That night {hero} dreamed of {friend} and the {colour} {object}.",
        ),
    ),
    "count": (
        OPENING,
        (
            "One day {hero} went to the {place} with {hero.his} {elder}.",
            "{hero} and {hero.his} {elder} went for a walk {place.at}.",
        ),
        ("There {hero} saw {count} {item}.", "They saw {count} {item} there."),
        (
            '"How many {item} do you see, {hero}?" asked {hero.his} {elder}.',
            '"Can you count the {item}, {hero}?" asked {hero.his} {elder}.',
        ),
        (
            '{hero} looked at the {item}. "{count.list}," {hero.he} said.',
            '"{count.list}," said {hero}.',
        ),
        (
            '"I see {count} {item}."',
            '"There are {count} {item} {place.at}."',
        ),
        (
            '"Well done, {hero}," said {hero.his} {elder}.',
            '{hero.His} {elder} smiled and said, "Well done, {hero}."',
        ),
        (
            "Then {hero} and {hero.his} {elder} went home.",
            "Soon it was dark, so {hero} went home with {hero.his} {elder}.",
        ),
        (
            "That night {hero} dreamed of {count} {item}.",
            "The {adj} {kind} was very happy.",
        ),
    ),
    "swap": (
        OPENING,
        ("{hero} had {colour.a} {object}.", "{hero.He} had {colour.a} {object}."),
        (
            "{kind2.A} named {friend} had {colour2.a} {object2}.",
            "{hero.His} friend {friend} had {colour2.a} {object2}.",
        ),
        ("One day {hero} met {friend} {place.at}.", "They met {place.at}."),
        ('"I like your {colour2} {object2}," said {hero}.',),
        (
            '"And I like your {colour} {object}," said {friend}.',
            '{friend} smiled and said, "And I like your {colour} {object}."',
        ),
        (
            "So {hero} gave the {object} to {friend}, and {friend} gave the {object2} to {hero}.",
            "So {friend} took the {object}, and {hero} took the {object2}.",
        ),
        ('"Thank you, {friend}," said {hero}.', '"Thank you, {hero}," said {friend}.'),
        (
            "Then {hero} and {friend} played {place.at} all day.",
            "From that day on {hero} and {friend} were good friends.",
        ),
    ),
    "hide": (
        OPENING,
        (
            "One day {hero} played {place.at} with {kind2.a} named {friend}.",
            "{hero.His} friend {friend} came to play {place.at}.",
        ),
        (
            '"Close your eyes and count to {count}, {hero}," said {friend}.',
            '"Can you count to {count}, {hero}?" asked {friend}.',
        ),
        (
            '{hero} closed {hero.his} eyes. "{count.list}," said {hero}.',
            '"{count.list}," said {hero}.',
        ),
        ("Then {hero} went to look for {friend}.", "But {friend} was gone."),
        (
            "{hero} looked {place2.at}, but {friend} was not there.",
            '"Where are you, {friend}?" asked {hero}.',
        ),
        ("At last {hero} looked {hidden}.",),
        (
            '"I see you, {friend}!" said {hero}.',
            '"There you are, {friend}!" said {hero}.',
        ),
        ("{friend} laughed and came out.", "{friend} laughed, and {hero} laughed too."),
        (
            "In the evening {friend} went home, and {hero} went to sleep.",
            "The {adj} {kind} was very happy.",
        ),
    ),
    "rain": (
        OPENING,
        (
            "One day {hero} went for a walk {place.at}.",
            "{hero} liked to walk {place.at}.",
        ),
        ("Then it began to rain, and {hero} was cold.", "It began to snow, and {hero} was cold."),
        (
            "{kind2.A} named {friend} saw {hero} and opened the door.",
            "{hero.He} came to the house of {kind2.a} named {friend}.",
        ),
        ('"Come in, {hero}," said {friend}.', '"You are wet, {hero}," said {friend}. "Come in."'),
        (
            "Inside, {friend} gave {hero} {colour.a} coat and some {food}.",
            "Then {friend} gave {hero} some {food} and {colour.a} coat.",
        ),
        (
            '"I like the {food}, {friend}," said {hero}.',
            '"This is a good coat, {friend}," said {hero}.',
        ),
        ("Soon {hero} was warm in the {colour} coat.",),
        (
            'Then {hero} said, "Thank you, {friend}," and went home.',
            '"Thank you, {friend}," said {hero}. Then {hero} went home.',
        ),
        (
            "From that day on {hero} and {friend} were good friends.",
            "That night {hero} dreamed of {friend} and the {food}.",
        ),
    ),
    "food": (
        OPENING,
        ("One day {hero} was very hungry.", "{hero.He} was hungry."),
        (
            "{hero} saw {kind2.a} named {friend} with some {food}.",
            "Then {hero} met {kind2.a} named {friend}, who had some {food}.",
        ),
        (
            '"May I have some {food}, {friend}?" asked {hero}.',
            '{hero} looked at the {food} and said, "I am hungry, {friend}."',
        ),
        (
            '"Yes, {hero}," said {friend}. "You may have {count} bites."',
            '"Yes, you may, {hero}," said {friend}. "Take {count} bites."',
        ),
        (
            '"{count.list}," said {friend}.',
            '{friend} began to count. "{count.list}," {friend.he} said.',
        ),
        (
            "So {hero} and {friend} sat {place.at} and ate the {food}.",
            "Then {hero} ate the {food}, and {friend} ate some too.",
        ),
        (
            '"You are very good to me, {friend}," said {hero}.',
            '"The {food} is very good, {friend}," said {hero}.',
        ),
        (
            "From that day on {hero} and {friend} were good friends.",
            "In the evening {friend} went home, and {hero} went to sleep.",
        ),
    ),
    "brave": (
        OPENING,
        (
            "One day {hero} was {place.at} with {colour.a} {object}.",
            "{hero} took {colour.a} {object} and went to the {place}.",
        ),
        (
            'There {hero.he} heard {kind2.a}. "Help me!" cried the {kind2}.',
            '{kind2.A} cried, "Help me!" and {hero} heard the {kind2}.',
        ),
        ('"What is your name?" asked {hero}.',),
        (
            '"I am {friend}," said the {kind2}. "Please help me."',
            '"My name is {friend}," said the {kind2}.',
        ),
        (
            "{hero} put down the {colour} {object} and ran to {friend}.",
            "So {hero} ran to {friend} with the {colour} {object}.",
        ),
        (
            '"Do not cry, {friend}," said {hero}, and took {friend} home.',
            "Soon {hero} and {friend} were home.",
        ),
        (
            '"You are very brave, {hero}," said {friend}.',
            '{friend} hugged {hero} and said, "You are very brave, {hero}."',
        ),
        (
            "Then {hero} gave {friend} the {colour} {object}.",
            "All day {hero} and {friend} played with the {object} {place.at}.",
        ),
        (
            "From that day on {hero} and {friend} were good friends.",
            "The {adj} {kind} and the {kind2} were very happy.",
        ),
    ),
}


@dataclass(frozen=True)
class Story:
    """One story: its text, the words (pre-tokens, leading space included) and what was drawn."""

    text: str
    words: tuple[str, ...]
    shape: str
    bound: tuple[tuple[str, str], ...]

    @property
    def drawn(self) -> dict[str, str]:
        return dict(self.bound)

    @property
    def held_out(self) -> bool:
        """Whether its name, animal and object together are kept away from training."""
        drawn = self.drawn
        return "object" in drawn and is_held_out(drawn["hero"], drawn["kind"], drawn["object"])


@dataclass(frozen=True)
class Place:
    """One word of a text as the grammar sees it, before the word is read.

    `probability` is exact, over all derivations that agree with the text so far. `forced` means
    that all of them go on with this word. `repeats` means that the word brings back a value that
    was drawn earlier (or, for a pronoun, agrees with it).
    """

    start: int  # characters, at the leading space if there is one
    end: int
    word: str
    probability: float
    forced: bool
    role: Role | None
    repeats: bool


def is_held_out(name: str, kind: str, item: str) -> bool:
    """One name x animal x object combination in ten never occurs in training."""
    return (3 * NAMES.index(name) + 7 * KINDS.index(kind) + OBJECTS.index(item)) % 10 == 0


@dataclass(frozen=True)
class _Word:
    text: str
    role: Role | None = None
    repeats: bool = False


@dataclass(frozen=True)
class _Slot:
    lead: str
    variable: str
    form: str


_Atom = _Word | _Slot
_Bound = tuple[tuple[str, str], ...]
_ATOM = re.compile(r"'s|( ?)\{(\w+)(?:\.(\w+))?\}| ?[A-Za-z]+| ?[^\sA-Za-z{}]+")
_WORD = re.compile(r"'s| ?[A-Za-z]+| ?[^\sA-Za-z]+")


@cache
def _atoms(template: str, first: bool) -> tuple[_Atom, ...]:
    text = template if first else " " + template
    return tuple(
        _Slot(m[1], m[2], m[3] or "") if m[2] else _Word(m[0]) for m in _ATOM.finditer(text)
    )


def _base(variable: str) -> str:
    return variable.rstrip("2")


def _choices(variable: str, bound: _Bound) -> tuple[str, ...]:
    """Values that a first mention may draw: none twice in a story, boys and girls named as such."""
    drawn = dict(bound)
    values = DOMAINS[_base(variable)]
    if variable in ("hero", "friend"):
        kind = drawn.get("kind" if variable == "hero" else "kind2")
        values = {"boy": BOYS, "girl": GIRLS}.get(kind or "", values)
        rivals = {drawn.get("hero"), drawn.get("friend")}
    else:
        rivals = {drawn.get(_base(variable)), drawn.get(_base(variable) + "2")}
    return tuple(v for v in values if v not in rivals)


def _article(word: str) -> str:
    return "an" if word[0] in "aeiou" else "a"


def _render(slot: _Slot, value: str, repeats: bool) -> tuple[_Word, ...]:
    role = _ROLES.get(_base(slot.variable), Role.OTHER)
    text = value
    if slot.form in ("a", "A"):
        text = f"{_article(value)} {value}"
    elif slot.form == "at":
        text = PLACES[value]
    elif slot.form == "list":
        text = ", ".join(NUMBERS[: NUMBERS.index(value) + 1]).capitalize()
    elif slot.form in ("he", "He"):
        text, role = ("he" if value in BOYS else "she"), Role.PRONOUN
    elif slot.form in ("his", "His"):
        text, role = ("his" if value in BOYS else "her"), Role.PRONOUN
    if slot.form in ("A", "He", "His"):
        text = text.capitalize()
    words = _WORD.findall(slot.lead + text)
    # In "by the river" and "an orange" only the last word is the variable one.
    if slot.form == "list":
        return tuple(_Word(w, role if w[-1].isalpha() else None, repeats) for w in words)
    head = tuple(_Word(w, None, repeats) for w in words[:-1])
    return (*head, _Word(words[-1], role, repeats))


def write_story(rng: random.Random, shape: str | None = None) -> Story:
    """Draw one story."""
    name = shape or rng.choice(tuple(SHAPES))
    drawn: dict[str, str] = {}
    words: list[str] = []
    for number, sentences in enumerate(SHAPES[name]):
        for atom in _atoms(rng.choice(sentences), number == 0):
            if isinstance(atom, _Word):
                words.append(atom.text)
                continue
            if atom.variable not in drawn:
                choices = _choices(atom.variable, tuple(drawn.items()))
                drawn[atom.variable] = rng.choice(choices)
            words.extend(w.text for w in _render(atom, drawn[atom.variable], True))
    return Story("".join(words), tuple(words), name, tuple(drawn.items()))


def stories(seed: int, held_out: bool = False) -> Iterator[Story]:
    """An endless stream; with `held_out` only combinations that training never sees, else none."""
    rng = random.Random(seed)
    while True:
        story = write_story(rng)
        if story.held_out == held_out:
            yield story


@dataclass(frozen=True)
class _State:
    """Where a derivation stands: the shape, the next slot, what is left of this sentence."""

    shape: str
    slot: int
    atoms: tuple[_Atom, ...]
    bound: _Bound


def _next(state: _State) -> Iterator[tuple[float, _Word, _State]]:
    if not state.atoms:
        slots = SHAPES[state.shape]
        if state.slot == len(slots):
            yield 1.0, _Word(END), state
            return
        sentences = slots[state.slot]
        for sentence in sentences:
            atoms = _atoms(sentence, state.slot == 0)
            for p, word, after in _next(_State(state.shape, state.slot + 1, atoms, state.bound)):
                yield p / len(sentences), word, after
        return
    atom, rest = state.atoms[0], state.atoms[1:]
    if isinstance(atom, _Word):
        yield 1.0, atom, _State(state.shape, state.slot, rest, state.bound)
        return
    drawn = dict(state.bound)
    known = atom.variable in drawn
    values = (drawn[atom.variable],) if known else _choices(atom.variable, state.bound)
    for value in values:
        words = _render(atom, value, known)
        bound = state.bound if known else (*state.bound, (atom.variable, value))
        after = _State(state.shape, state.slot, (*words[1:], *rest), bound)
        yield 1.0 / len(values), words[0], after


def follow(text: str, complete: bool = True) -> list[Place] | None:
    """Walk a text through the grammar; None when no derivation reads it.

    With `complete` the text must be a whole story, and the list ends with the place of `END`;
    else it may break off anywhere between two words. Held-out combinations count as stories.
    """
    words = _WORD.findall(text)
    if "".join(words) != text:
        return None
    states = {_State(shape, 0, (), ()): 1.0 / len(SHAPES) for shape in SHAPES}
    places: list[Place] = []
    start = 0
    for word in [*words, END] if complete else words:
        seen: set[str] = set()
        after: dict[_State, float] = {}
        read: _Word | None = None
        for state, weight in states.items():
            for p, atom, target in _next(state):
                seen.add(atom.text)
                if atom.text == word:
                    after[target] = after.get(target, 0.0) + weight * p
                    if read is None or not atom.repeats:
                        read = atom
        if read is None:
            return None
        total = sum(after.values())
        end = start + (0 if word == END else len(word))
        forced = len(seen) == 1
        places.append(Place(start, end, word, total, forced, read.role, read.repeats))
        states = {state: weight / total for state, weight in after.items()}
        start = end
    return places


if __name__ == "__main__":
    source = stories(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 3):
        print(next(source).text, end="\n\n")
