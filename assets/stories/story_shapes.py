"""The words and the sentences of the stories: the data that `grammar.py` draws from.

A shape is a row of slots, a slot a choice between sentences, all equally likely. Braces hold
variables; after the dot stands the form: `a` and `A` with the article, `at` (`At`) with the
preposition, `In` with preposition and the article a, `he`, `his` (`He`, `His`) the pronoun, `list`
counted out, `ate` and `bites` the words that go with a food.

The first slot holds whole beginnings: an opening that presents the hero with the sentence after it,
or a sentence that goes straight into the story.
"""

from __future__ import annotations


def _split(words: str) -> tuple[str, ...]:
    return tuple(words.split())


BOYS = _split("Tom Ben Max Sam Leo Tim Jack Finn Oscar Hugo Otto Noah Paul Emil Theo")
GIRLS = _split("Lily Anna Mia Lucy Emma Rosa Nora Ella Ruby Zoe Clara Ida Sara Molly Ada")
NAMES = BOYS + GIRLS
KINDS = _split(
    "cat dog fox bear rabbit mouse duck frog boy pig goat bird lamb pony owl turtle girl"
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
    "adj": _split("little small big young brave happy good clever quiet old"),
    "kind": KINDS,
    "kind2": KINDS,
    "hero": NAMES,
    "friend": NAMES,
    "object": OBJECTS,
    "object2": _split("doll flute lamp spoon puzzle basket"),
    "colour": COLOURS,
    "colour2": _split("golden silver grey"),
    "home": tuple(PLACES),
    "place": tuple(PLACES),
    "item": ITEMS,
    "count": NUMBERS[1:],
    "elder": _split("mother father sister brother teacher"),
    "hidden": ("under a tree", "behind a rock", "under the bed", "behind the door", "in a box"),
    "food": _split("bread cake soup pie honey cheese milk"),
}

OPENING = (
    "Once upon a time there was {adj.a} {kind} named {hero}.",
    "Once upon a time there was {adj.a} {kind} named {hero}.",
    "Once upon a time there was {kind.a} named {hero}.",
    "Once there was {adj.a} {kind} named {hero}.",
    "Long ago there lived {adj.a} {kind} named {hero}.",
    "There was {adj.a} {kind} named {hero}.",
    "There was once {kind.a} named {hero}.",
    "{home.In} there lived {adj.a} {kind} named {hero}.",
    "{home.At} lived {kind.a} named {hero}.",
    "{adj.A} {kind} named {hero} lived {home.at}.",
    "{kind.A} named {hero} lived {home.at}.",
    "{hero} was {adj.a} {kind}.",
    "The {kind} was named {hero}.",
    "The {adj} {kind} was named {hero}.",
)
PAIRS = (
    "{hero} and {friend} were good friends.",
    "{hero} and {friend} lived {home.at}.",
    "Once there were two good friends, {hero} and {friend}.",
)


def _begin(second: tuple[str, str], *straight: str, pairs: tuple[str, ...] = ()) -> tuple[str, ...]:
    """All beginnings of a shape: of some 44, the last third goes straight into the story."""
    presented = tuple(f"{opening} {sentence}" for opening in OPENING for sentence in second)
    return (*presented, *pairs, *((*second, *straight) * 2))


def _with_pairs(sentence: str) -> tuple[str, ...]:
    return tuple(f"{pair} {sentence}" for pair in PAIRS)


SHAPES: dict[str, tuple[tuple[str, ...], ...]] = {
    "lost": (
        _begin(
            (
                "{hero} had {colour.a} {object}.",
                "{hero.He} had {colour.a} {object}.",
            ),
            "{kind.A} named {hero} had {colour.a} {object}.",
            "{adj.A} {kind} named {hero} had {colour.a} {object}.",
            "The {kind} {hero} had {colour.a} {object}.",
            "Once upon a time {hero} had {colour.a} {object}.",
            "{colour.A} {object} lay {place.at}. It was the {object} of {kind.a} named {hero}.",
            "The {colour} {object} lay {place.at}. It was the {object} of {hero}.",
        ),
        (
            "Every day {hero} played with the {object} {place.at}.",
            "{hero.He} loved the {object} and took it to the {place}.",
        ),
        ("One morning the {object} was gone.", "But one day the {object} was gone."),
        (
            '"Where is my {colour} {object}?" cried {hero}.',
            '{hero} was sad. "I lost my {colour} {object}," {hero.he} said.',
            '{hero.He} said, "I lost my {colour} {object}."',
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
            "So {hero} and {friend} went back to the {place}.",
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
        _begin(
            (
                "It was a big day for {hero}.",
                "One day {hero} was sad.",
            ),
            "One day {kind.a} named {hero} was sad.",
            "{kind.A} named {hero} was sad.",
            "{hero} was sad.",
            "The {adj} {kind} {hero} was sad.",
            pairs=_with_pairs("One day {hero} was sad."),
        ),
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
        _begin(
            (
                "One day {hero} went to the {place} with {hero.his} {elder}.",
                "{hero} and {hero.his} {elder} went for a walk {place.at}.",
            ),
            "One day {kind.a} named {hero} went to the {place} with {hero.his} {elder}.",
            "{kind.A} named {hero} went to the {place} with {hero.his} {elder}.",
            "{hero} went to the {place} with {hero.his} {elder}.",
            "The {kind} {hero} went to the {place} with {hero.his} {elder}.",
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
            "The next day they went back to the {place}.",
        ),
    ),
    "swap": (
        _begin(
            (
                "{hero} had {colour.a} {object}.",
                "{hero.He} had {colour.a} {object}.",
            ),
            "{kind.A} named {hero} had {colour.a} {object}.",
            "{adj.A} {kind} named {hero} had {colour.a} {object}.",
            "The {kind} {hero} had {colour.a} {object}.",
            "Once upon a time {hero} had {colour.a} {object}.",
            pairs=_with_pairs("{hero} had {colour.a} {object}."),
        ),
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
        (
            '"Thank you, {friend}," said {hero}.',
            '{hero} was happy. "Thank you, {friend}," {hero.he} said.',
        ),
        (
            "Then {hero} and {friend} played {place.at} all day.",
            "From that day on {hero} and {friend} were good friends.",
            "The next day they went back to the {place}.",
        ),
    ),
    "hide": (
        _begin(
            (
                "One day {hero} played {place.at} with {kind2.a} named {friend}.",
                "{hero.His} friend {friend} came to play {place.at}.",
            ),
            "{hero} played {place.at} with {kind2.a} named {friend}.",
            "{hero} and {friend} played {place.at}.",
            "One day {hero} and {friend} went to the {place} to play.",
            "{hero} and {friend} went to the {place} to play.",
            "{kind.A} named {hero} played {place.at} with {hero.his} friend {friend}.",
            pairs=_with_pairs("One day {hero} played {place.at} with {friend}."),
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
            "The next day they went back to the {place}.",
        ),
    ),
    "rain": (
        _begin(
            (
                "One day {hero} went for a walk {place.at}.",
                "{hero} liked to walk {place.at}.",
            ),
            "One day {kind.a} named {hero} went to the {place}.",
            "One day {hero} went to the {place}.",
            "{kind.A} named {hero} went for a walk {place.at}.",
            "{hero} went for a walk {place.at}.",
            "The {adj} {kind} {hero} went to the {place}.",
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
            "The next day {hero} went back to the {place}.",
        ),
    ),
    "food": (
        _begin(
            (
                "One day {hero} was very hungry.",
                "{hero.He} was hungry.",
            ),
            "{hero} was very hungry.",
            "One day {kind.a} named {hero} was very hungry.",
            "{kind.A} named {hero} was hungry.",
            "The {kind} {hero} was hungry.",
        ),
        (
            "{hero} saw {kind2.a} named {friend} with some {food}.",
            "Then {hero} met {kind2.a} named {friend}, who had some {food}.",
        ),
        (
            '"May I have some {food}, {friend}?" asked {hero}.',
            '{hero} looked at the {food} and said, "I am hungry, {friend}."',
        ),
        (
            '"Yes, {hero}," said {friend}. "You may have {count} {food.bites}."',
            '"Yes, you may, {hero}," said {friend}. "Take {count} {food.bites}."',
        ),
        (
            '"{count.list}," said {friend}.',
            '{friend} began to count. "{count.list}," {friend.he} said.',
        ),
        (
            "So {hero} and {friend} sat {place.at} and {food.ate} the {food}.",
            "Then {hero} {food.ate} the {food}, and {friend} {food.ate} some too.",
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
        _begin(
            (
                "One day {hero} was {place.at} with {colour.a} {object}.",
                "{hero} took {colour.a} {object} and went to the {place}.",
            ),
            "One day {kind.a} named {hero} was {place.at} with {colour.a} {object}.",
            "{kind.A} named {hero} took {colour.a} {object} and went to the {place}.",
            "{hero} went to the {place} with {colour.a} {object}.",
            "{colour.A} {object} lay {place.at}, and {hero} took it.",
        ),
        (
            'There {hero.he} heard {kind2.a}. "Help me!" cried the {kind2}.',
            '{kind2.A} cried, "Help me!" and {hero} heard the {kind2}.',
        ),
        (
            '"What is your name?" asked {hero}.',
            '{hero.He} said, "What is your name?"',
        ),
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
