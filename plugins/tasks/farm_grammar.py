"""The farm language: a probabilistic grammar as data, and the automaton that follows it word by word.

    S  -> <s> the [ADJ] N (PREP the N)^k V [ADV] . </s>        V -> intransitive | transitive the [ADJ] N

    <s> the old dog near the cats chases the hen today . </s>          (k = 1; `chases` agrees with `dog`)

The next word depends on a state only, and the words read so far decide the state (the automaton is
deterministic). So one table samples sentences and gives the exact distribution of the next word.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float64, Int
from torch import Tensor

NUMBERS = ("singular", "plural")
NOUNS = ("dog", "cat", "cow", "hen", "pig", "duck", "goat", "horse")
INTRANSITIVE = ("sleep", "run", "sing", "wait")
TRANSITIVE = ("see", "like", "chase", "follow")


def _with_s(words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(word + "s" for word in words)


CLASSES: Mapping[str, tuple[str, ...]] = {
    "pad": ("<pad>",),
    "bos": ("<s>",),
    "eos": ("</s>",),
    "the": ("the",),
    "stop": (".",),
    "singular noun": NOUNS,
    "plural noun": _with_s(NOUNS),
    "preposition": ("near", "behind", "beside", "with", "by", "under"),
    "singular intransitive": _with_s(INTRANSITIVE),
    "plural intransitive": INTRANSITIVE,
    "singular transitive": _with_s(TRANSITIVE),
    "plural transitive": TRANSITIVE,
    "adjective": ("big", "small", "old", "young", "brown", "happy"),
    "adverb": ("today", "again", "slowly", "quietly", "happily", "outside", "together"),
}
"""Word classes, the most frequent word first; no word is in two of them."""

WORDS = tuple(word for words in CLASSES.values() for word in words)
"""The vocabulary; a token id is an index into it."""

ROLES = (
    "bos",
    "determiner",
    "adjective",
    "subject",
    "preposition",
    "distractor",
    "verb",
    "object",
    "adverb",
    "stop",
)
"""What a word can be in its sentence."""

ZIPF = 2.5
"""Exponent of the word frequencies within a class."""
ADJECTIVE = 0.1
"""Probability of an adjective before the subject, and before an object."""
ADVERB = 0.3
"""Probability of an adverb."""
OBJECT = 0.5
"""Probability of a transitive verb."""


def ids(name: str) -> list[int]:
    """Token ids of a word class."""
    return [WORDS.index(word) for word in CLASSES[name]]


def zipf(size: int) -> Float64[Tensor, " rank"]:
    """Probabilities of the words of a class by rank: in proportion to `rank ** -2.5`."""
    weights = torch.arange(1, size + 1, dtype=torch.float64) ** -ZIPF
    return weights / weights.sum()


def draw(
    cumulative: Float64[Tensor, "*any outcome"], shape: tuple[int, ...], generator: torch.Generator
) -> Int[Tensor, "..."]:
    """One outcome for each place of `shape`, from one cumulative distribution for all or one for each place.

    By inversion, since `torch.multinomial` took fifteen times as long.
    """
    level = torch.rand((*shape, 1), generator=generator, dtype=torch.float64)
    return torch.searchsorted(cumulative, level, right=True).squeeze(-1)


def cumulate(probabilities: Float64[Tensor, "*any outcome"]) -> Float64[Tensor, "*any outcome"]:
    """Cumulative distributions that end in exactly 1, so that rounding never draws an impossible outcome."""
    sums = probabilities.cumsum(-1)
    return sums / sums[..., -1:]


@dataclass(frozen=True)
class Arc:
    """With probability `chance` comes a word of class `words` (which: `zipf`), in a role; then state `to`."""

    words: str
    chance: float
    to: str
    role: str = ""


def rules(k_max: int) -> dict[str, list[Arc]]:
    """The grammar with k uniform on 0..k_max. The state `plural 2`: plural subject, 2 distractors so far."""

    def noun(chance: float, to: str, role: str) -> list[Arc]:
        return [Arc(f"{n} noun", chance / 2, to.format(number=n), role) for n in NUMBERS]

    table = {
        "start": [Arc("bos", 1.0, "opened", "bos")],
        "opened": [Arc("the", 1.0, "subject", "determiner")],
        "subject": [
            Arc("adjective", ADJECTIVE, "subject noun", "adjective"),
            *noun(1 - ADJECTIVE, "{number} 0", "subject"),
        ],
        "subject noun": noun(1.0, "{number} 0", "subject"),
        "transitive": [Arc("the", 1.0, "object", "determiner")],
        "object": [
            Arc("adjective", ADJECTIVE, "object noun", "adjective"),
            *noun(1 - ADJECTIVE, "said", "object"),
        ],
        "object noun": noun(1.0, "said", "object"),
        "said": [Arc("adverb", ADVERB, "closing", "adverb"), Arc("stop", 1 - ADVERB, "closed", "stop")],
        "closing": [Arc("stop", 1.0, "closed", "stop")],
        "closed": [Arc("eos", 1.0, "done")],
        "done": [Arc("pad", 1.0, "done")],
    }
    for number in NUMBERS:
        for k in range(k_max + 1):
            here = f"{number} {k}"
            # k is uniform, so a phrase follows with the share of the counts that are still possible beyond k.
            verb = 1 / (k_max - k + 1)
            table[here] = [
                Arc(f"{number} intransitive", verb * (1 - OBJECT), "said", "verb"),
                Arc(f"{number} transitive", verb * OBJECT, "transitive", "verb"),
            ]
            if k < k_max:
                table[here].append(Arc("preposition", 1 - verb, f"{here} phrase", "preposition"))
                table[f"{here} phrase"] = [Arc("the", 1.0, f"{here} distractor", "determiner")]
                table[f"{here} distractor"] = noun(1.0, f"{number} {k + 1}", "distractor")
    return table


class Grammar:
    """The automaton of `rules(k_max)`: samples sentences and knows the exact distribution of the next token.

    Attributes:
        probabilities: of the next token in each state; all zero in state 0, outside the language.
        successor: the state after reading a token; 0 where the language has no such continuation.
        role: the role of a token read in a state, an index into `ROLES`; -1 for none.
        longest: the most tokens that `sample` gives a sentence, padding included.
    """

    def __init__(self, k_max: int) -> None:
        table = rules(k_max)
        number = {name: index for index, name in enumerate(["outside", *table])}
        shape = (len(number), len(WORDS))
        self.probabilities: Float64[Tensor, "state vocab"] = torch.zeros(shape, dtype=torch.float64)
        self.successor: Int[Tensor, "state vocab"] = torch.zeros(shape, dtype=torch.int64)
        self.role: Int[Tensor, "state vocab"] = torch.full(shape, -1)
        for name, arcs in table.items():
            for arc in arcs:
                words = ids(arc.words)
                self.probabilities[number[name], words] = arc.chance * zipf(len(words))
                self.successor[number[name], words] = number[arc.to]
                self.role[number[name], words] = ROLES.index(arc.role) if arc.role else -1
        self.start = number["start"]
        self.done = number["done"]
        self.longest = 11 + 3 * k_max

    def sample(
        self, sentences: int, generator: torch.Generator
    ) -> tuple[Int[Tensor, "batch time"], Int[Tensor, "batch time"]]:
        """Whole sentences from `<s>` to `</s>`, right-padded to the longest, and the role of each token."""
        cumulative = cumulate(self.probabilities)
        state = torch.full((sentences,), self.start)
        tokens, roles = [], []
        while bool((state != self.done).any()):
            token = draw(cumulative[state], (sentences,), generator)
            tokens.append(token)
            roles.append(self.role[state, token])
            state = self.successor[state, token]
        return torch.stack(tokens, 1), torch.stack(roles, 1)

    def next_log_probs(self, tokens: Int[Tensor, "batch time"]) -> Float64[Tensor, "batch time vocab"]:
        """The exact log-probabilities of the next token after each prefix, in double precision; NaN after a
        prefix outside the language. As logits they are the best predictor there can be."""
        successor = self.successor.to(tokens.device)
        state = torch.full_like(tokens[:, 0], self.start)
        states = torch.empty_like(tokens)
        for place in range(tokens.shape[1]):
            state = successor[state, tokens[:, place]]
            states[:, place] = state
        log_probs = self.probabilities.log()
        log_probs[0] = torch.nan
        return log_probs.to(tokens.device)[states]

    def sentence_log_probs(self, sentences: Int[Tensor, "batch time"]) -> Float64[Tensor, " batch"]:
        """The exact log-probability of each whole sentence, as `sample` draws them (padding has probability 1)."""
        following = self.next_log_probs(sentences[:, :-1]).gather(2, sentences[:, 1:, None])
        return following.squeeze(2).sum(1)

    def bound(self) -> tuple[float, float]:
        """The entropy of a sentence in nats, and its mean number of targets (all tokens but `<s>`)."""
        living = [state for state in range(1, len(self.probabilities)) if state != self.done]
        moves = torch.zeros(len(self.probabilities), len(self.probabilities), dtype=torch.float64)
        moves.scatter_add_(1, self.successor, self.probabilities)
        # The number of visits v to the states of a sentence solves v = e_start + v moves.
        first = torch.zeros(len(moves), dtype=torch.float64)
        first[self.start] = 1
        through = torch.eye(len(living), dtype=torch.float64) - moves[living][:, living].T
        visits = torch.linalg.solve(through, first[living])
        surprisal = -torch.xlogy(self.probabilities, self.probabilities).sum(1)[living]
        return (visits @ surprisal).item(), visits.sum().item() - 1
