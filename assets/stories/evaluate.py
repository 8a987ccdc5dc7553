"""Measure every figure of the model card on the files in this folder.

Needs PyTorch and transformers. Stories come from seeds that training never used; a second set has
name x animal x object combinations that training never saw. A head is written layer.head, both
counted from 0.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import random
import statistics
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from grammar import Place, Role, Story, follow, stories, write_story
from story_shapes import NAMES
from tokenizers import Tokenizer
from train import CONTEXT, IGNORED, end_id, repetition_row
from transformers import GPT2LMHeadModel
from unfamiliar import report_unfamiliar

HERE = Path(__file__).parent
UNSEEN, HELD_OUT, SAMPLED = 900_001, 900_002, 900_003
OPENING = "Once upon a time there was a little cat named Tom."


@dataclass(frozen=True)
class Read:
    """A story as the grammar reads it and as the model does."""

    story: Story
    ids: list[int]  # with the end token
    places: list[Place]  # places[i] is about ids[i]
    probabilities: list[float]  # of ids[i] given ids[:i]; 1.0 for i == 0
    attention: torch.Tensor  # (layer, head, query, key)


def read(model: GPT2LMHeadModel, tokenizer: Tokenizer, story: Story) -> Read:
    ids = [*tokenizer.encode(story.text).ids, end_id(tokenizer)]
    places = follow(story.text)
    if places is None or len(places) != len(ids):
        raise ValueError(f"the tokenizer splits a word of the grammar: {story.text!r}")
    with torch.no_grad():
        out = model(torch.tensor([ids]), output_attentions=True, use_cache=False)
    log_p = out.logits[0].log_softmax(-1)
    chances = [1.0] + [log_p[i - 1, ids[i]].exp().item() for i in range(1, len(ids))]
    return Read(story, ids, places, chances, torch.stack(out.attentions)[:, 0])


def forced(reads: Iterable[Read], role: Role) -> Iterator[tuple[Read, int]]:
    """Places where the grammar leaves no choice but to bring back a word of this role."""
    for item in reads:
        for i, place in enumerate(item.places):
            if place.forced and place.repeats and place.role is role:
                yield item, i


def losses(reads: list[Read]) -> tuple[float, float]:
    """Nats per token after the first: of the model, and of the grammar itself (the floor)."""
    model = [-torch.tensor(r.probabilities[1:]).log() for r in reads]
    grammar = [-torch.tensor([p.probability for p in r.places[1:]]).log() for r in reads]
    return float(torch.cat(model).mean()), float(torch.cat(grammar).mean())


def mover_attention(reads: list[Read], role: Role) -> torch.Tensor:
    """(place, layer, head): attention on earlier mentions of the word that is to come back."""
    weights = []
    for item, i in forced(reads, role):
        earlier = [j for j in range(i) if item.ids[j] == item.ids[i]]
        if earlier:  # a number counted up to may be forced and new
            weights.append(item.attention[:, :, i - 1, earlier].sum(-1))
    return torch.stack(weights)


def previous_scores(attention: Iterable[torch.Tensor]) -> torch.Tensor:
    """(layer, head): mean attention on the token just before, from every position but the first."""
    return torch.stack([a.diagonal(-1, 2, 3).mean(-1) for a in attention]).mean(0)


def repetition(
    model: GPT2LMHeadModel, tokenizer: Tokenizer, rows: int
) -> tuple[torch.Tensor, torch.Tensor, float, float]:
    """Previous-token and induction scores on random phrases that come back, and how well it copies.

    The induction score is the attention on tokens that followed an earlier occurrence of the
    present one, at the places where the row foretells its next token.
    """
    rng = random.Random(SAMPLED)
    end = end_id(tokenizer)
    attention, induction, chances = [], [], []
    for _ in range(rows):
        ids, targets = repetition_row(tokenizer.get_vocab_size(), end, rng)
        with torch.no_grad():
            out = model(torch.tensor([ids]), output_attentions=True, use_cache=False)
        weights = torch.stack(out.attentions)[:, 0]
        attention.append(weights)
        p = out.logits[0].softmax(-1)
        for i, target in enumerate(targets):
            if target != IGNORED:
                after = [j + 1 for j in range(i) if ids[j] == ids[i]]
                induction.append(weights[:, :, i, after].sum(-1))
                chances.append(p[i, target].item())
    means = torch.stack(induction).mean(0)
    return previous_scores(attention), means, statistics.mean(chances), statistics.median(chances)


@contextmanager
def without_head(model: GPT2LMHeadModel, layer: int, head: int) -> Iterator[None]:
    """For a while, one head adds nothing to the residual stream."""
    weight: torch.Tensor = model.transformer.h[layer].attn.c_proj.weight  # (head * d_head, width)
    size = weight.shape[0] // model.config.n_head
    rows = slice(head * size, (head + 1) * size)
    kept = weight.data[rows].clone()
    weight.data[rows] = 0.0
    try:
        yield
    finally:
        weight.data[rows] = kept


def forced_chance(model: GPT2LMHeadModel, reads: list[Read], role: Role) -> float:
    """Mean probability at the forced places of a role, with the model as it is now."""
    chances: list[float] = []
    for item in reads:
        where = [i for _, i in forced([item], role)]
        if where:
            with torch.no_grad():
                logits = model(torch.tensor([item.ids]), use_cache=False).logits[0]
            p = logits.softmax(-1)
            chances += [p[i - 1, item.ids[i]].item() for i in where]
    return statistics.mean(chances)


def write(
    model: GPT2LMHeadModel, tokenizer: Tokenizer, prompt: str, seed: int | None = None
) -> tuple[str, bool]:
    """Continue a prompt to the end token or the end of the context; greedy without a seed."""
    ids = list(tokenizer.encode(prompt).ids)
    end = end_id(tokenizer)
    generator = torch.Generator().manual_seed(seed or 0)
    with torch.no_grad():
        while len(ids) < CONTEXT:
            logits = model(torch.tensor([ids]), use_cache=False).logits[0, -1]
            if seed is None:
                token = int(logits.argmax())
            else:
                token = int(torch.multinomial(logits.softmax(-1), 1, generator=generator))
            if token == end:
                return tokenizer.decode(ids), True
            ids.append(token)
    return tokenizer.decode(ids), False


def keeps_hero(text: str, hero: str) -> bool:
    """The hero is in the last third, and nobody but the hero and one friend is ever named."""
    words = "".join(c if c.isalpha() else " " for c in text).split()
    named = {w for w in words if w in NAMES}
    return hero in named and len(named) <= 2 and hero in words[-len(words) // 3 :]


def openings(count: int) -> list[tuple[str, str]]:
    """First sentences and their hero's name; the first is the one that the product shows."""
    rng = random.Random(SAMPLED)
    made = {OPENING: "Tom"}
    while len(made) < count:
        story = write_story(rng, late=False)
        first, hero = story.text.split(".")[0] + ".", story.drawn["hero"]
        if hero in first.strip(".").split():
            made[first] = hero
    return list(made.items())


def table(title: str, scores: torch.Tensor) -> None:
    print(f"  {title}")
    for layer, row in enumerate(scores.tolist()):
        print("    " + "  ".join(f"{layer}.{head} {s:.3f}" for head, s in enumerate(row)))


def report_files(folder: Path, model: GPT2LMHeadModel, tokenizer: Tokenizer) -> None:
    size = (folder / "model.safetensors").stat().st_size
    print(
        f"files: {sum(p.numel() for p in model.parameters()):,} parameters, {size:,} bytes, "
        f"width {model.config.n_embd}, {model.config.n_layer} layers, {model.config.n_head} heads, "
        f"context {model.config.n_positions}, vocabulary {tokenizer.get_vocab_size()}"
    )
    texts = [
        "héllo ✓ 😀",
        "\x00\t\r\n  two  spaces ",
        "e\u0301 \ufb01 中文",
        "".join(map(chr, range(1, 2000))),
    ]
    whole = all(tokenizer.decode(tokenizer.encode(t).ids) == t for t in texts)
    print(f"  any UTF-8 comes back unchanged: {whole}")
    split = {w for s in itertools.islice(stories(UNSEEN), 2000) for w in s.words}
    print(f"  words of more than one token: {sum(len(tokenizer.encode(w).ids) > 1 for w in split)}")
    print(f"  the opening: {tokenizer.encode(OPENING).tokens}")


def report_engine(folder: Path, model: GPT2LMHeadModel, reads: list[Read]) -> None:
    """The product's own engine on the same files, at every position of some stories."""
    sys.path.append(str(HERE.parents[1]))
    checkpoints = importlib.import_module("model.checkpoints")
    engine = checkpoints.open_checkpoint(folder).engine
    worst = 0.0
    for item in reads:
        cache = engine.new_cache(len(item.ids))
        found = engine.forward(np.array([item.ids]), cache, all_logits=True)
        with torch.no_grad():
            wanted = model(torch.tensor([item.ids]), use_cache=False).logits
        worst = max(worst, float((torch.tensor(found) - wanted).abs().max()))
    print(f"the NumPy engine and transformers: logits differ by {worst:.1e} at most")


def report_loss(name: str, reads: list[Read]) -> None:
    loss, floor = losses(reads)
    print(f"{name}: {len(reads)} stories, {loss:.4f} nats per token (grammar itself {floor:.4f})")
    for role in Role:
        chances = [item.probabilities[i] for item, i in forced(reads, role)]
        if chances:
            chances.sort()
            print(
                f"  forced {role.value:8} {len(chances):5} places"
                f"  mean {statistics.mean(chances):.4f}"
                f"  median {statistics.median(chances):.4f}  5 % {chances[len(chances) // 20]:.4f}"
                f"  below a half {sum(c < 0.5 for c in chances)}"
            )


def report_heads(model: GPT2LMHeadModel, tokenizer: Tokenizer, reads: list[Read]) -> None:
    print("heads (mean attention)")
    previous, induction, mean, median = repetition(model, tokenizer, 60)
    table("previous token, stories", previous_scores(r.attention for r in reads))
    table("previous token, random tokens", previous)
    table("induction, random phrases that come back", induction)
    print(f"    probability of the token to copy: mean {mean:.4f} median {median:.4f}")
    for role in (Role.NAME, Role.OBJECT, Role.COLOUR, Role.KIND, Role.PLACE, Role.COUNT):
        weights = mover_attention(reads, role)
        table(f"earlier mentions of the {role.value} to come", weights.mean(0))
        layer, head = divmod(int(weights.mean(0).argmax()), model.config.n_head)
        best = weights[:, layer, head]
        print(
            f"    {layer}.{head}: mean {best.mean():.4f}, median {best.median():.4f}, "
            f"at least 0.9 at {(best >= 0.9).float().mean():.1%} of {len(best)} places"
        )
    some = reads[:60]
    for role in (Role.NAME, Role.OBJECT, Role.COLOUR):
        print(f"  without one head, mean probability of the forced {role.value}", end="")
        print(f" (with all: {forced_chance(model, some, role):.3f})")
        for layer in range(model.config.n_layer):
            cells = []
            for head in range(model.config.n_head):
                with without_head(model, layer, head):
                    cells.append(f"{layer}.{head} {forced_chance(model, some, role):.3f}")
            print("    " + "  ".join(cells))


def report_writing(model: GPT2LMHeadModel, tokenizer: Tokenizer, count: int) -> None:
    good = ended = kept = 0
    for number, (prompt, hero) in enumerate(openings(count)):
        text, done = write(model, tokenizer, prompt)
        accepted = done and follow(text) is not None
        good, ended, kept = good + accepted, ended + done, kept + keeps_hero(text, hero)
        if number < 3 or not accepted:
            print(f"  [{'a story' if accepted else 'NOT A STORY'}] {text}")
    print(
        f"greedy: {count} openings, {ended} end by themselves, {good} are exactly stories of the "
        f"grammar, {kept} keep their hero"
    )
    samples = [write(model, tokenizer, p, SAMPLED + i) for i, (p, _) in enumerate(openings(count))]
    good = sum(done and follow(text) is not None for text, done in samples)
    print(f"temperature 1: {count} openings, {good} are exactly stories of the grammar")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=HERE)
    parser.add_argument("--stories", type=int, default=300)
    parser.add_argument("--openings", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1, help="the seed of the training")
    parser.add_argument("--trained", type=int, default=50_000, help="stories drawn with it")
    args = parser.parse_args()
    torch.set_num_threads(1)
    tokenizer = Tokenizer.from_file(str(args.folder / "tokenizer.json"))
    model = GPT2LMHeadModel.from_pretrained(args.folder, attn_implementation="eager").eval()
    report_files(args.folder, model, tokenizer)
    new = [read(model, tokenizer, s) for s in itertools.islice(stories(UNSEEN), args.stories)]
    trained = {s.text for s in itertools.islice(stories(args.seed), args.trained)}
    print(f"of the unseen stories {sum(r.story.text in trained for r in new)} occur in training")
    report_loss("unseen stories", new)
    combos = itertools.islice(stories(HELD_OUT, held_out=True), args.stories)
    report_loss("held-out combinations", [read(model, tokenizer, s) for s in combos])
    for late, title in ((False, "begun at the beginning"), (True, "begun later")):
        rng = random.Random(SAMPLED)
        drawn = [write_story(rng, late=late) for _ in range(args.stories)]
        report_loss(title, [read(model, tokenizer, story) for story in drawn])
    report_engine(args.folder, model, new[:50])
    report_heads(model, tokenizer, new)
    report_writing(model, tokenizer, args.openings)
    report_unfamiliar(lambda prompt: write(model, tokenizer, prompt))


if __name__ == "__main__":
    main()
