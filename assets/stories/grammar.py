"""The grammar behind the bundled model: short children's stories with words that must come back.

A story follows one of the shapes in `story_shapes.py`: slots of sentences with variables. The first
mention of a variable draws a value, every later mention repeats it. One story in eight begins at a
later slot, as if its first page were missing; what was drawn there is drawn when it is needed.

So the grammar itself knows where a word is certain: `follow` walks a text through every derivation
that agrees with it and tells, for each word, its exact probability and whether it is forced. The
same walk decides whether a text is a story of this grammar at all.

Standard library only. `python grammar.py 5` prints five stories.
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cache, lru_cache

from story_shapes import BOYS, DOMAINS, GIRLS, KINDS, NAMES, NUMBERS, OBJECTS, PLACES, SHAPES

END = "<|endoftext|>"
LATE = 0.125  # share of the stories that begin at a later slot


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
    "home": Role.PLACE,
    "count": Role.COUNT,
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
        known = {"hero", "kind", "object"} <= drawn.keys()
        return known and is_held_out(drawn["hero"], drawn["kind"], drawn["object"])


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


def _hero_is_boy(drawn: dict[str, str]) -> bool | None:
    """Whether the hero is a boy, as far as the values drawn settle it.

    The friend is of the other sex, and boys and girls are named as such.
    """
    if "hero" in drawn:
        return drawn["hero"] in BOYS
    if "friend" in drawn:
        return drawn["friend"] in GIRLS
    if drawn.get("kind") in ("boy", "girl"):
        return drawn["kind"] == "boy"
    if drawn.get("kind2") in ("boy", "girl"):
        return drawn["kind2"] == "girl"
    return None


@cache
def _choices(variable: str, bound: _Bound) -> tuple[str, ...]:
    """Values that a first mention may draw, given what the story has already.

    Hero and friend never share a name, as they differ in sex; a second place lies in the other half
    of the list than the first.
    """
    drawn = dict(bound)
    values = DOMAINS[variable if variable in DOMAINS else _base(variable)]
    boy = _hero_is_boy(drawn)
    if boy is not None:
        if variable in ("hero", "friend"):
            return BOYS if boy == (variable == "hero") else GIRLS
        if variable in ("kind", "kind2"):
            excluded = "girl" if boy == (variable == "kind") else "boy"
            return tuple(v for v in values if v != excluded)
    other = drawn.get({"place": "place2", "place2": "place"}.get(variable, ""))
    if other is not None:
        half = len(values) // 2
        return values[half:] if other in values[:half] else values[:half]
    return values


def _fits(sentence: str, drawn: dict[str, str]) -> bool:
    """Whether a sentence after the first slot can be said with what the story has already.

    "The little cat" needs a cat that was presented, and a friend is presented only once.
    """
    unknown = [name for name in ("adj", "kind") if name not in drawn]
    if any(f"{{{name}}}" in sentence for name in unknown):
        return False
    return not ("{kind2" in sentence and "friend" in drawn and "kind2" not in drawn)


def _sentences(shape: str, slot: int, bound: _Bound) -> tuple[str, ...]:
    sentences = SHAPES[shape][slot]
    drawn = dict(bound)
    return sentences if slot == 0 else tuple(s for s in sentences if _fits(s, drawn))


def _article(word: str) -> str:
    return "an" if word[0] in "aeiou" else "a"


def _render(slot: _Slot, value: str, repeats: bool) -> tuple[_Word, ...]:
    role = _ROLES.get(_base(slot.variable), Role.OTHER)
    text = value
    if slot.form in ("a", "A"):
        text = f"{_article(value)} {value}"
    elif slot.form == "at":
        text = PLACES[value]
    elif slot.form == "At":
        text = PLACES[value].capitalize()
    elif slot.form == "In":
        text = PLACES[value].replace(" the ", " a ").capitalize()
    elif slot.form in ("ate", "bites"):
        drinks = {"ate": "drank", "bites": "sips"}
        text, role = (drinks[slot.form] if value == "milk" else slot.form), Role.OTHER
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


def write_story(rng: random.Random, shape: str | None = None, late: bool | None = None) -> Story:
    """Draw one story; `late` settles whether it begins at a later slot."""
    name = shape or rng.choice(tuple(SHAPES))
    count = len(SHAPES[name])
    begins_late = rng.random() < LATE if late is None else late
    first = rng.randrange(1, count) if begins_late else 0
    drawn: dict[str, str] = {}
    words: list[str] = []
    for slot in range(first, count):
        sentence = rng.choice(_sentences(name, slot, tuple(drawn.items())))
        for atom in _atoms(sentence, slot == first):
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
    first: bool = False  # nothing has been read


@lru_cache(maxsize=100_000)
def _next(state: _State) -> tuple[tuple[float, _Word, _State], ...]:
    """Every way to go on by one word: its probability, the word, the state after it."""
    if not state.atoms:
        if state.slot == len(SHAPES[state.shape]):
            return ((1.0, _Word(END), state),)
        sentences = _sentences(state.shape, state.slot, state.bound)
        starts = (
            _State(state.shape, state.slot + 1, _atoms(sentence, state.first), state.bound)
            for sentence in sentences
        )
        return tuple(
            (p / len(sentences), word, after) for start in starts for p, word, after in _next(start)
        )
    atom, rest = state.atoms[0], state.atoms[1:]
    if isinstance(atom, _Word):
        return ((1.0, atom, _State(state.shape, state.slot, rest, state.bound)),)
    drawn = dict(state.bound)
    known = atom.variable in drawn
    values = (drawn[atom.variable],) if known else _choices(atom.variable, state.bound)
    found = []
    for value in values:
        words = _render(atom, value, known)
        bound = state.bound if known else (*state.bound, (atom.variable, value))
        after = _State(state.shape, state.slot, (*words[1:], *rest), bound)
        found.append((1.0 / len(values), words[0], after))
    return tuple(found)


def follow(text: str, complete: bool = True) -> list[Place] | None:
    """Walk a text through the grammar; None when no derivation reads it.

    With `complete` the text must be a whole story, and the list ends with the place of `END`;
    else it may break off anywhere between two words. Held-out combinations count as stories.
    """
    words = _WORD.findall(text)
    if "".join(words) != text:
        return None
    states: dict[_State, float] = {}
    for shape, slots in SHAPES.items():
        states[_State(shape, 0, (), (), True)] = (1 - LATE) / len(SHAPES)
        for slot in range(1, len(slots)):
            state = _State(shape, slot, (), (), True)
            states[state] = LATE / len(SHAPES) / (len(slots) - 1)
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


def loose_sentences() -> re.Pattern[str]:
    """Reads rows of sentences of the grammar with any values: names and things need not agree."""
    forms = set()
    for sentence in {s for slots in SHAPES.values() for slot in slots for s in slot}:
        form = ""
        for atom in _atoms(sentence, True):
            if isinstance(atom, _Word):
                form += re.escape(atom.text)
                continue
            values = DOMAINS.get(atom.variable, DOMAINS[_base(atom.variable)])
            drawn = {"".join(w.text for w in _render(atom, v, True)) for v in values}
            form += f"(?:{'|'.join(re.escape(d) for d in sorted(drawn))})"
        forms.add(form)
    one = f"(?:{'|'.join(sorted(forms))})"
    return re.compile(f"{one}(?: {one})*")


if __name__ == "__main__":
    source = stories(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 3):
        print(next(source).text, end="\n\n")
