"""The grammar of the bundled model: its stories, and what it says is certain in them."""

import importlib
import itertools
import math
import random
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[2] / "assets" / "stories"
TOM = "Once upon a time there was a little cat named Tom."


def load() -> ModuleType:
    """Import the script as its own folder does, and leave the import path as it was."""
    sys.path.insert(0, str(FOLDER))
    try:
        return importlib.import_module("grammar")
    finally:
        sys.path.remove(str(FOLDER))


grammar = load()


def pattern(sentence: str) -> str:
    """A sentence with anything in the place of its variables."""
    pieces = re.split(r"\{[\w.]+\}", sentence)
    return r"[\w ,]+".join(re.escape(piece) for piece in pieces)


def test_same_seed_same_stories() -> None:
    first = [s.text for s in itertools.islice(grammar.stories(7), 20)]
    again = [s.text for s in itertools.islice(grammar.stories(7), 20)]
    other = [s.text for s in itertools.islice(grammar.stories(8), 20)]
    assert first == again
    assert not set(first) & set(other)


def test_every_shape_is_drawn_and_fits_the_context_with_its_end() -> None:
    drawn = list(itertools.islice(grammar.stories(1), 3000))
    assert {s.shape for s in drawn} == set(grammar.SHAPES)
    assert max(len(s.words) + 1 for s in drawn) <= 128


def test_no_story_can_be_longer_than_the_context() -> None:
    """Counted from the grammar itself: the longest sentence of every slot, the longest values."""
    worst = 0
    for shape in grammar.SHAPES.values():
        length = 0
        for sentences in shape:
            sizes = []
            for sentence in sentences:
                size = 0
                for atom in grammar._atoms(sentence, False):
                    if isinstance(atom, grammar._Word):
                        size += 1
                    else:
                        base = grammar._base(atom.variable)
                        values = grammar.DOMAINS.get(atom.variable, grammar.DOMAINS[base])
                        size += max(len(grammar._render(atom, v, True)) for v in values)
                sizes.append(size)
            length += max(sizes)
        worst = max(worst, length + 1)
    assert worst <= 128


def test_the_walk_reads_every_story_as_it_was_written() -> None:
    for story in itertools.islice(grammar.stories(2), 60):
        places = grammar.follow(story.text)
        assert places is not None
        assert tuple(p.word for p in places) == (*story.words, grammar.END)
        assert all(story.text[p.start : p.end] == p.word for p in places[:-1])


def test_forced_means_certain_and_some_names_are() -> None:
    names = 0
    for story in itertools.islice(grammar.stories(3), 60):
        for place in grammar.follow(story.text) or []:
            assert place.forced == math.isclose(place.probability, 1.0)
            if place.forced and place.repeats and place.role is grammar.Role.NAME:
                names += 1
                assert place.word.strip() in story.drawn.values()
                assert story.text.index(place.word.strip()) < place.start
    assert names > 60 * 5


def test_probabilities_agree_with_counted_frequencies() -> None:
    """The exact probability of the first word, counted from the sentences and from 4,000 draws."""
    rng = random.Random(5)
    openings = [grammar.write_story(rng) for _ in range(4000)]
    begins = sum(s.text.startswith("Long ago") for s in openings) / len(openings)
    place = grammar.follow("Long", complete=False)
    assert place is not None
    shares = [
        sum(sentence.startswith("Long") for sentence in slots[0]) / len(slots[0])
        for slots in grammar.SHAPES.values()
    ]
    whole = (1 - grammar.LATE) * sum(shares) / len(shares)
    assert place[0].probability == pytest.approx(whole)
    assert begins == pytest.approx(place[0].probability, abs=0.015)


def test_both_articles_agree_with_their_word() -> None:
    text = " ".join(s.text for s in itertools.islice(grammar.stories(4), 400))
    words = text.split()
    articles = {"a", "an", "A", "An"}
    after = [(w, n) for w, n in itertools.pairwise(words) if w in articles]
    assert {w.lower() for w, _ in after} == {"a", "an"}
    assert all((n[0] in "aeiou") == (w.lower() == "an") for w, n in after)


def test_quotes_open_and_close() -> None:
    for story in itertools.islice(grammar.stories(6), 300):
        marks = [w for w in story.words if '"' in w]
        assert all(w.strip() == '"' for w in marks[::2])
        assert all(w in ('."', ',"', '?"', '!"') for w in marks[1::2])
        assert len(marks) % 2 == 0


def test_the_products_opening_is_one_of_the_grammar() -> None:
    places = grammar.follow(TOM, complete=False)
    assert places is not None
    assert [p.word for p in places][-2:] == [" Tom", "."]
    assert places[-1].forced
    assert grammar.follow(TOM) is None  # not a whole story


@pytest.mark.parametrize(
    "text",
    [
        "Once upon a time there was an owl named Otto.",
        "Once there was a little cat named Tom.",
        "There was a big dog named Max.",
        "Long ago there lived an old fox named Ruby.",
        "One day a dog named Max went to the garden.",
        "A dog named Max lived in the forest.",
        "Tom was a little cat.",
        "The little cat was named Tom.",
        "Anna had a red ball.",
        "An orange kite lay by the sea.",
        "Anna and Ben were good friends.",
        "In a forest there lived a little bear named Leo.",
        "On a hill there lived",
        "She said",
    ],
)
def test_a_story_may_begin_in_many_ways(text: str) -> None:
    assert grammar.follow(text, complete=False) is not None


def test_one_story_in_eight_begins_at_a_later_slot() -> None:
    rng = random.Random(14)
    firsts = [
        {slot for slots in grammar.SHAPES.values() for slot in slots[0]},
        {slot for slots in grammar.SHAPES.values() for later in slots[1:] for slot in later},
    ]
    whole, later = (re.compile("|".join(pattern(s) for s in side)) for side in firsts)
    drawn = [grammar.write_story(rng, late=True) for _ in range(300)]
    assert all(later.match(story.text) for story in drawn)
    assert all(grammar.follow(story.text) is not None for story in drawn[:60])
    mixed = [grammar.write_story(rng) for _ in range(4000)]
    share = sum(whole.match(story.text) is None for story in mixed) / len(mixed)
    assert 0.08 < share <= 0.145


def test_nobody_is_presented_twice_and_the_cat_is_known_before_it_is_the_cat() -> None:
    for story in itertools.islice(grammar.stories(15), 1500):
        named = re.findall(r"named (\w+)", story.text)
        assert len(named) == len(set(named))
        for kind in re.findall(rf"[Tt]he \w+ ({'|'.join(grammar.KINDS)}) (?:was|and)", story.text):
            assert story.drawn["kind"] == kind


def test_milk_is_drunk_and_the_other_foods_are_eaten() -> None:
    foods = {"milk": 0, "bread": 0}
    for story in itertools.islice(grammar.stories(16), 6000):
        food = story.drawn.get("food")
        if story.shape == "food" and food is not None:
            wrong = r"\b(ate|bites)\b" if food == "milk" else r"\b(drank|sips)\b"
            assert re.search(wrong, story.text) is None
            foods[food] = foods.get(food, 0) + 1
    assert min(foods.values()) > 20


@pytest.mark.parametrize(
    "text",
    [
        TOM.replace("a little", "an little"),
        TOM + " One day Ben was very hungry.",
        TOM + " She was hungry.",
        "A prompt of another kind.",
        "two  spaces",
    ],
)
def test_the_walk_refuses_what_the_grammar_does_not_say(text: str) -> None:
    assert grammar.follow(text, complete=False) is None


def test_the_loose_reading_takes_any_names_but_only_whole_sentences() -> None:
    loose = grammar.loose_sentences()
    for story in itertools.islice(grammar.stories(17), 200):
        assert loose.fullmatch(story.text)
    assert loose.fullmatch('Anna had a red ball. "Thank you, Tom," said Ben.')
    assert loose.fullmatch("Anna had a red ball. Anna had a red") is None
    assert loose.fullmatch("Anna had a red ball ball.") is None


def test_held_out_combinations_never_reach_training() -> None:
    for story in itertools.islice(grammar.stories(9), 1000):
        drawn = story.drawn
        if {"hero", "kind", "object"} <= drawn.keys():
            assert not grammar.is_held_out(drawn["hero"], drawn["kind"], drawn["object"])
    kept = list(itertools.islice(grammar.stories(9, held_out=True), 50))
    assert all(
        grammar.is_held_out(s.drawn["hero"], s.drawn["kind"], s.drawn["object"]) for s in kept
    )
    share = sum(
        grammar.is_held_out(n, k, o)
        for n in grammar.NAMES
        for k in grammar.KINDS
        for o in grammar.OBJECTS
    ) / (len(grammar.NAMES) * len(grammar.KINDS) * len(grammar.OBJECTS))
    assert share == pytest.approx(0.1, abs=0.01)


def test_boys_and_girls_have_fitting_names() -> None:
    for story in itertools.islice(grammar.stories(10), 1500):
        drawn = story.drawn
        for kind, name in (("kind", "hero"), ("kind2", "friend")):
            if drawn.get(kind) == "boy" and name in drawn:
                assert drawn[name] in grammar.BOYS
            if drawn.get(kind) == "girl" and name in drawn:
                assert drawn[name] in grammar.GIRLS
        if {"hero", "friend"} <= drawn.keys():
            assert (drawn["hero"] in grammar.BOYS) != (drawn["friend"] in grammar.BOYS)


def test_the_second_of_a_pair_differs_from_the_first() -> None:
    for story in itertools.islice(grammar.stories(11), 1500):
        drawn = story.drawn
        for name in ("object", "colour", "place"):
            assert drawn.get(name + "2") != drawn.get(name, "")
