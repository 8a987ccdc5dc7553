"""Train the bundled model: grammar -> stories -> tokenizer -> GPT-2 weights, all from one seed.

Needs PyTorch, transformers and tokenizers, which the product itself does not. Writes
`model.safetensors`, `config.json` and `tokenizer.json` into the folder of this file.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import random
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from grammar import END, Role, follow, stories
from safetensors.torch import save_file
from story_shapes import DOMAINS
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GPT2Config, GPT2LMHeadModel

HERE = Path(__file__).parent
CONTEXT = 128
IGNORED = -100


def make_tokenizer(seed: int, size: int) -> Tokenizer:
    """Byte-level BPE over stories: all 256 bytes, no normaliser, no space put in front."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=2,
        special_tokens=[END],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    texts = (story.text for story in itertools.islice(stories(seed), 6000))
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def end_id(tokenizer: Tokenizer) -> int:
    found = tokenizer.token_to_id(END)
    if found is None:
        raise ValueError(f"the tokenizer has no {END}")
    return int(found)


def story_row(tokenizer: Tokenizer, source: Iterator[str], rng: random.Random) -> list[list[int]]:
    """Ids and targets of a row that begins where a story begins.

    What is left of the row after the story's end is padding without a target; in one row of five
    it is the beginning of a second story, so that the model also knows what follows the end.
    """
    end = end_id(tokenizer)
    ids = [*tokenizer.encode(next(source)).ids, end]
    if rng.random() < 0.2:
        ids = [*ids, *tokenizer.encode(next(source)).ids, end]
    ids = ids[:CONTEXT]
    padding = CONTEXT - len(ids)
    return [ids + [end] * padding, [*ids[1:], IGNORED] + [IGNORED] * padding]


def plain_words(tokenizer: Tokenizer) -> list[int]:
    """Ids of the words of the stories that stand for no variable."""
    values = " ".join(word for domain in DOMAINS.values() for word in domain)
    varied = {*values.split(), "he", "she", "his", "her"}
    words = {word for story in itertools.islice(stories(0), 2000) for word in story.words}
    kept = sorted(word for word in words if word.strip().lower() not in {v.lower() for v in varied})
    return [ids[0] for ids in (tokenizer.encode(word).ids for word in kept) if len(ids) == 1]


def worn_row(
    tokenizer: Tokenizer, text: str, plain: list[int], rng: random.Random
) -> list[list[int]]:
    """Ids and targets of a damaged story: the model is to go on as if it were whole.

    In half of these rows the words of the first sentence are shuffled, without a target; in the
    others single words are exchanged, left out, said again or followed by stray tokens, and the
    target at each place is the next word of the undamaged story. Words that stand for a variable
    are never lost, so what must come back is still there. Without such rows the model has never
    had to find its way back, and loops on text that is not quite of the grammar.
    """
    end = end_id(tokenizer)
    clean = [*tokenizer.encode(text).ids, end]
    stop = tokenizer.token_to_id(".")
    ids: list[int] = []
    targets: list[int] = []
    if rng.random() < 0.5 and stop in clean:
        first = clean.index(stop)
        middle = clean[1:first]
        rng.shuffle(middle)
        ids = [clean[0], *middle, *clean[first:-1]]
        targets = [IGNORED] * first + clean[first + 1 :]
    else:
        may_go = set(plain)
        for token, following in itertools.pairwise(clean):
            chance = rng.random()
            if chance < 0.03 and token in may_go and ids:
                continue
            ids.append(rng.choice(plain) if chance < 0.07 and token in may_go else token)
            targets.append(following)
            if rng.random() < 0.04:
                kind = rng.randrange(3)
                for _ in range(rng.randint(1, 3)):
                    stray = rng.choice(plain) if kind else rng.randrange(tokenizer.get_vocab_size())
                    ids.append(token if kind == 2 else stray)
                    targets.append(following)
    padding = max(0, CONTEXT - len(ids))
    return [(ids + [end] * padding)[:CONTEXT], (targets + [IGNORED] * padding)[:CONTEXT]]


def repetition_row(size: int, end: int, rng: random.Random) -> list[list[int]]:
    """Ids and targets of random phrases of tokens that come back at irregular distances.

    Only what the row itself foretells is a target: the tokens inside a phrase seen before. As the
    distance varies, the row can only be continued by finding the token before (previous-token
    head) and copying what followed it last time (induction head).
    """
    tokens = [i for i in rng.sample(range(size), CONTEXT + 1) if i != end]
    phrases: list[list[int]] = []
    for _ in range(rng.randint(1, 6)):
        length = rng.randint(3, 24)
        phrases.append(tokens[:length])
        del tokens[:length]
    phrases = [p for p in phrases if len(p) > 1]
    ids: list[int] = []
    targets: list[int] = []
    seen: set[int] = set()
    while len(ids) < CONTEXT:
        number = rng.randrange(len(phrases))
        phrase = phrases[number]
        ids += phrase
        targets += [*(phrase[1:] if number in seen else [IGNORED] * (len(phrase) - 1)), IGNORED]
        seen.add(number)
    return [ids[:CONTEXT], targets[:CONTEXT]]


def prepare_copying(model: GPT2LMHeadModel) -> None:
    """Start heads 0.0 and 1.0 as a previous-token and an induction head; then train freely.

    From random weights this pair does not form within a run of this length. The width is divided
    into four random subspaces, each as wide as a head. Positions start as waves of random frequency
    in P (and random in R); head 0.0 asks in P for the position one back and moves part A of that
    token to B; head 1.0 compares A of its own token with B of the others and copies A of the one it
    finds. Heads 3.0 and 3.1 start with copying what they attend to, A and R of it, wherever they
    look. Block 0 writes little else at first, so that A and B stay readable. Everything is an
    ordinary weight that training may change.
    """
    width = model.config.n_embd
    size = width // model.config.n_head
    waves = size // 2
    basis, _ = torch.linalg.qr(torch.randn(width, width))
    p, a, b, r = (basis[:, i * size : (i + 1) * size] for i in range(4))  # (width, d_head)
    frequency = math.pi * torch.rand(waves)
    angle = torch.arange(CONTEXT)[:, None] * frequency  # (pos, wave)
    cos, sin = torch.diag(frequency.cos()), torch.diag(frequency.sin())
    one_back = torch.cat([torch.cat([cos, -sin], 1), torch.cat([sin, cos], 1)])
    first, second = model.transformer.h[0], model.transformer.h[1]
    keys, values = slice(width, width + size), slice(2 * width, 2 * width + size)
    with torch.no_grad():
        scale = model.config.initializer_range * math.sqrt(width / waves)
        positions = scale * torch.cat([angle.cos(), angle.sin()], 1) @ p.T
        model.transformer.wpe.weight.copy_(model.transformer.wpe.weight @ r @ r.T + positions)
        first.attn.c_attn.weight[:, :size] = 2.5 * p @ one_back
        first.attn.c_attn.weight[:, keys] = 2.5 * p
        first.attn.c_attn.weight[:, values] = a
        first.attn.c_proj.weight.mul_(0.2)
        first.attn.c_proj.weight[:size] = 0.4 * b.T
        first.mlp.c_proj.weight.mul_(0.2)
        second.attn.c_attn.weight[:, :size] = 3.0 * a
        second.attn.c_attn.weight[:, keys] = 3.0 * b
        second.attn.c_attn.weight[:, values] = a
        second.attn.c_proj.weight[:size] = 0.5 * a.T
        last = model.transformer.h[3].attn
        for head, part in enumerate((a, r)):
            rows = slice(head * size, (head + 1) * size)
            last.c_attn.weight[:, 2 * width + rows.start : 2 * width + rows.stop] = part
            last.c_proj.weight[rows] = 0.5 * part.T


def learning_rate(step: int, steps: int, peak: float, warmup: int = 60) -> float:
    if step < warmup:
        return peak * (step + 1) / warmup
    return peak * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * (step - warmup) / (steps - warmup))))


def train(tokenizer: Tokenizer, args: argparse.Namespace) -> GPT2LMHeadModel:
    torch.manual_seed(args.seed)
    rng = random.Random(args.seed)
    size = tokenizer.get_vocab_size()
    end = end_id(tokenizer)
    config = GPT2Config(
        vocab_size=size,
        n_positions=CONTEXT,
        n_embd=args.width,
        n_layer=4,
        n_head=4,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        initializer_range=args.init,
        bos_token_id=end,
        eos_token_id=end,
    )
    model = GPT2LMHeadModel(config).train()
    prepare_copying(model)
    matrices = [p for p in model.parameters() if p.ndim > 1]
    vectors = [p for p in model.parameters() if p.ndim < 2]
    groups = [{"params": matrices, "weight_decay": args.decay}, {"params": vectors}]
    optimizer = torch.optim.AdamW(groups, lr=args.rate, betas=(0.9, 0.98), weight_decay=0.0)
    source = (story.text for story in stories(args.seed))
    plain = plain_words(tokenizer)
    started = time.time()
    for step in range(args.steps):
        # A quarter of repetition at first; less once it is learnt, to keep it.
        share = 4 if step < 0.2 * args.steps else 8 if step < 0.6 * args.steps else 16
        repeated, worn = args.rows // share, args.rows // 8
        rows = [story_row(tokenizer, source, rng) for _ in range(args.rows - repeated - worn)]
        rows += [worn_row(tokenizer, next(source), plain, rng) for _ in range(worn)]
        rows += [repetition_row(size, end, rng) for _ in range(repeated)]
        batch = torch.tensor(rows)  # (row, ids | targets, position)
        ids, targets = batch[:, 0], batch[:, 1]
        hidden = model.transformer(ids, use_cache=False).last_hidden_state
        wanted = targets != IGNORED
        logits = model.lm_head(hidden[wanted])
        loss = torch.nn.functional.cross_entropy(logits, targets[wanted])
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, args.steps, args.rate)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 50 == 0 or step == args.steps - 1:
            whole = slice(0, int(wanted[: args.rows - repeated - worn].sum()))
            story_loss = torch.nn.functional.cross_entropy(
                logits[whole].detach(), targets[wanted][whole]
            )
            print(
                f"step {step:5d}  loss {loss.item():.4f}  stories {story_loss.item():.4f}  "
                f"{time.time() - started:.0f} s",
                flush=True,
            )
    return model.eval()


def name_places(ids: list[int], text: str) -> list[tuple[int, list[int]]]:
    """Where a row's first story forces a name back: the place before it, its earlier mentions."""
    places = follow(text) or []
    return [
        (i - 1, [j for j in range(i) if ids[j] == ids[i]])
        for i, place in enumerate(places)
        if place.forced and place.repeats and place.role is Role.NAME
    ]


def mover_loss(model: GPT2LMHeadModel, hidden: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """How far head 3.0 is from looking at the names to come: mean of -log attention on them.

    `hidden` is what enters layer 3, (row, pos, width); `wanted` is true at each query's keys,
    (row, query, key).
    """
    block = model.transformer.h[3]
    width = hidden.shape[-1]
    size = width // model.config.n_head
    query, key, _ = block.attn.c_attn(block.ln_1(hidden)).split(width, dim=-1)
    scores = query[..., :size] @ key[..., :size].transpose(1, 2) / math.sqrt(size)
    positions = torch.arange(hidden.shape[1])
    later = positions[None, :] > positions[:, None]  # (query, key)
    log_weights = scores.masked_fill(later, -torch.inf).log_softmax(-1)
    mass = log_weights.masked_fill(~wanted, -torch.inf).logsumexp(-1)
    return -mass[wanted.any(-1)].mean()


def teach_mover(model: GPT2LMHeadModel, tokenizer: Tokenizer, args: argparse.Namespace) -> None:
    """A last short phase that gathers the moving of names, spread over three heads, in head 3.0.

    The loss of the stories goes on; to it comes a loss on the attention of this one head.
    """
    seed = args.seed + (2 if args.teach_only else 1)  # on other stories when done a second time
    rng = random.Random(seed)
    end = end_id(tokenizer)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0, betas=(0.9, 0.98), weight_decay=0.0)
    source = stories(seed)
    plain = plain_words(tokenizer)
    model.train()
    for step in range(args.taught):
        rows = []
        wanted = torch.zeros(args.rows, CONTEXT, CONTEXT, dtype=torch.bool)
        for number in range(args.rows * 13 // 16):
            text = next(source).text
            texts = itertools.chain([text], (story.text for story in source))
            rows.append(story_row(tokenizer, texts, rng))
            for query, keys in name_places(rows[-1][0], text):
                wanted[number, query, keys] = True
        for _ in range(args.rows // 8):
            rows.append(worn_row(tokenizer, next(source).text, plain, rng))
        while len(rows) < args.rows:
            rows.append(repetition_row(tokenizer.get_vocab_size(), end, rng))
        batch = torch.tensor(rows)
        ids, targets = batch[:, 0], batch[:, 1]
        out = model.transformer(ids, use_cache=False, output_hidden_states=True)
        chosen = targets != IGNORED
        logits = model.lm_head(out.last_hidden_state[chosen])
        words = torch.nn.functional.cross_entropy(logits, targets[chosen])
        mover = mover_loss(model, out.hidden_states[3], wanted)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, args.taught, args.teach_rate, warmup=20)
        optimizer.zero_grad(set_to_none=True)
        (words + args.teach * mover).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 20 == 0 or step == args.taught - 1:
            print(f"teach {step:4d}  loss {words.item():.4f}  mover {mover.item():.4f}", flush=True)
    model.eval()


def save(model: GPT2LMHeadModel, tokenizer: Tokenizer, folder: Path) -> None:
    """Three files under the names that transformers and every GPT-2 reader expect."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    kept = """
        vocab_size n_positions n_embd n_layer n_head activation_function layer_norm_epsilon
        initializer_range resid_pdrop embd_pdrop attn_pdrop bos_token_id eos_token_id
    """
    fields = {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        **{name: getattr(model.config, name) for name in kept.split()},
        "tie_word_embeddings": True,
        "dtype": "float32",
    }
    (folder / "config.json").write_text(json.dumps(fields, indent=2) + "\n")
    # The unembedding is the embedding: one matrix in the file, as transformers writes it.
    tensors = {k: v for k, v in model.state_dict().items() if k != "lm_head.weight"}
    save_file(tensors, str(folder / "model.safetensors"), metadata={"format": "pt"})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--width", type=int, default=96)
    parser.add_argument("--steps", type=int, default=1600)
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--rate", type=float, default=3e-3)
    parser.add_argument("--decay", type=float, default=0.05)
    parser.add_argument("--init", type=float, default=0.08)
    parser.add_argument("--taught", type=int, default=200, help="steps of the last phase")
    parser.add_argument("--teach", type=float, default=0.1, help="weight of its attention loss")
    parser.add_argument("--teach-rate", type=float, default=1e-3)
    parser.add_argument("--teach-only", type=Path, help="only the last phase, from this folder")
    parser.add_argument("--size", type=int, default=1024, help="most entries of the vocabulary")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=HERE)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    tokenizer = make_tokenizer(args.seed, args.size)
    if args.teach_only:
        model = GPT2LMHeadModel.from_pretrained(args.teach_only)
    else:
        model = train(tokenizer, args)
        save(model, tokenizer, args.out)
    teach_mover(model, tokenizer, args)
    save(model, tokenizer, args.out)
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters -> {args.out}")


if __name__ == "__main__":
    main()
