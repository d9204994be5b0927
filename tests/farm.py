"""The farm language by hand: its words and their classes, and its entropy as a sum over choices."""

import math

import torch
from harness_plugins.tasks.farm_agreement import FarmAgreement
from harness_plugins.tasks.farm_grammar import WORDS
from hypothesis import strategies as st
from torch import Tensor

SINGULAR = ["dog", "cat", "cow", "hen", "pig", "duck", "goat", "horse"]
PLURAL = ["dogs", "cats", "cows", "hens", "pigs", "ducks", "goats", "horses"]
VERBS = {  # (subject number, takes an object)
    (0, False): ["sleeps", "runs", "sings", "waits"],
    (1, False): ["sleep", "run", "sing", "wait"],
    (0, True): ["sees", "likes", "chases", "follows"],
    (1, True): ["see", "like", "chase", "follow"],
}
PREPOSITIONS = ["near", "behind", "beside", "with", "by", "under"]
ADJECTIVES = ["big", "small", "old", "young", "brown", "happy"]
ADVERBS = ["today", "again", "slowly", "quietly", "happily", "outside", "together"]
LETTERS = dict.fromkeys(SINGULAR + PLURAL, "n") | dict.fromkeys(PREPOSITIONS, "p")
LETTERS |= dict.fromkeys(ADJECTIVES, "a") | dict.fromkeys(ADVERBS, "v")
LETTERS |= {word: "t" if takes else "i" for (_, takes), words in VERBS.items() for word in words}
LETTERS |= {"<s>": "<", "</s>": ">", "the": "d", ".": "."}
"""A letter for the class of each word, so that a regular expression can tell sentences."""

SEEDS = st.integers(0, 2**40)
FARM = FarmAgreement()
CORPUS = next(c for c in FARM.conditions() if c.group == "corpus")


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def spell(tokens: Tensor) -> list[str]:
    """The words of these tokens."""
    return [WORDS[token] for token in tokens]


def read(text: str) -> Tensor:
    """The tokens of a text, as the only row."""
    return torch.tensor([[WORDS.index(word) for word in text.split()]])


def number_of(noun: str) -> int:
    """1 of a plural."""
    return int(noun in PLURAL)


def zipf_entropy(size: int) -> float:
    """Nats of a choice among so many words, as the language makes it."""
    weights: list[float] = [rank**-2.5 for rank in range(1, size + 1)]
    return -sum(w / sum(weights) * math.log(w / sum(weights)) for w in weights)


def closed_form(k_max: int) -> tuple[float, float]:
    """Entropy and number of targets of a sentence, as the sum over the independent choices that make it."""

    def coin(p: float) -> float:
        return -p * math.log(p) - (1 - p) * math.log(1 - p)

    noun = math.log(2) + zipf_entropy(8)
    described = coin(0.1) + 0.1 * zipf_entropy(6) + noun
    phrases = math.log(k_max + 1) + k_max / 2 * (zipf_entropy(6) + noun)
    verb = coin(0.5) + zipf_entropy(4) + 0.5 * described
    nats = described + phrases + verb + coin(0.3) + 0.3 * zipf_entropy(7)
    return nats, 1 + 1.1 + 3 * k_max / 2 + 1 + 0.5 * 2.1 + 0.3 + 2
