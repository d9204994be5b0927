"""The task `farm_agreement`: predict farm sentences, whose verb agrees with a subject behind distractors."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from harness_plugins.tasks.farm_grammar import (
    INTRANSITIVE,
    NUMBERS,
    OBJECT,
    ROLES,
    TRANSITIVE,
    WORDS,
    Grammar,
    cumulate,
    draw,
    ids,
    zipf,
)
from jaxtyping import Float, Int
from pydantic import NonNegativeInt, PositiveInt
from torch import Tensor

from harness import IGNORE, Batch, Condition, Interface, Metric, Task
from harness.errors import did_you_mean
from harness.examples import seeded, standard_error

PAD, BOS, THE = (WORDS.index(word) for word in ("<pad>", "<s>", "the"))
SUBJECT, VERB = ROLES.index("subject"), ROLES.index("verb")
GROUPS = ("opposite", "same", "random")

AT_ONCE = 16
"""Batches whose sentences training looks up at once."""

NOUN_IDS: Int[Tensor, "number lemma"] = torch.tensor([ids(f"{number} noun") for number in NUMBERS])
VERB_IDS: Int[Tensor, "number lemma"] = torch.tensor(
    [ids(f"{number} intransitive") + ids(f"{number} transitive") for number in NUMBERS]
)
NOUN_CHOICE = cumulate(zipf(NOUN_IDS.shape[1]))
PREPOSITION_CHOICE = cumulate(zipf(len(ids("preposition"))))
VERB_CHOICE = cumulate(torch.cat([(1 - OBJECT) * zipf(len(INTRANSITIVE)), OBJECT * zipf(len(TRANSITIVE))]))


class FarmAgreement(Task):
    """Language modelling on farm sentences; the test is the number of the verb after k distractor nouns.

    Training, and the condition `corpus`: whole sentences, every next token is a target.

        tokens    <s>  the  old  dog   near  the   cats    chases  the  hen  .
        targets   the  old  dog  near  the   cats  chases  the     hen  .    </s>
                                 cue               query

    The other conditions stop at the query and have one target, the verb. In `opposite` (the hard test) every
    distractor has the number that the subject has not, in `same` the subject's, in `random` either:

        tokens    <s>  the  dog  near  the  cats
        targets   -    -    -    -     -    chases
                            cue             query

    So the gradient of their loss is about the verb alone, and no model sees the verb before it names it. They
    have no adjectives, and singular and plural subjects in turn. Without distractors the three groups are one
    condition, which is in `opposite`. `described` is the hard test at the largest k of training with an adjective
    before the subject, which moves everything by one place: a model that reads a fixed place fails there.

    Test sentences are drawn by the same grammar as training sentences, and most of the language's probability lies on
    few of them: the notes say how many test sentences occur in training. The condition `unseen` is like `corpus`, with
    the sentences that a training set of this size lacks with a probability of at least 95 %.

    Args:
        sentences: size of the training set.
        train_max: most distractors in training; their number is uniform on 0..train_max.
        k_max: most distractors in evaluation.
    """

    axis = "k (distractors)"
    roles = ROLES
    swap_group = "same"
    recommended_training: ClassVar[Mapping[str, Any]] = {
        "optimizer": "adamw",
        "weight_decay": 0.01,  # PyTorch's own for AdamW
        "epochs": 5,
        "steps": None,
        "warmup": 50,
        "clip": 1.0,
        "batch_size": 64,
    }

    def __init__(
        self,
        *,
        sentences: PositiveInt = 20_000,
        train_max: NonNegativeInt = 3,
        k_max: NonNegativeInt = 8,
    ) -> None:
        self.examples = self.sentences = sentences
        self.train_max = train_max
        self.k_max = k_max
        self.grammar = Grammar(train_max)
        self.interface = Interface(input_size=len(WORDS), output_size=len(WORDS))
        nats, targets = self.grammar.bound()
        self.seen, self.rare = occurrence(sentences, train_max)
        self.notes = [
            f"{self.seen:.0%} of the test sentences of `corpus` occur in the {sentences:,} training sentences, as the "
            "grammar repeats itself; those of `unseen` do not (with a probability of 95 % or more each)"
        ]
        self.metrics = {
            "accuracy": Metric("share", chance=0.5, best=1.0),
            "accuracy_singular": Metric("share", chance=0.5, best=1.0),
            "accuracy_plural": Metric("share", chance=0.5, best=1.0),
            "log_odds": Metric("nats", chance=0.0),
            "singular_log_odds": Metric("nats", chance=0.0),
            "verb_mass": Metric("share"),
            "kl": Metric("nats", best=0.0, higher_is_better=False),
            "loss": Metric("nats", chance=math.log(len(WORDS)), higher_is_better=False),
            "perplexity": Metric(
                "choices", chance=float(len(WORDS)), best=math.exp(nats / targets), higher_is_better=False
            ),
        }

    def train(self, batch_size: int, generator: torch.Generator) -> Iterator[Batch]:
        """The same sentences in a new order each epoch, each batch as long as its longest sentence; the last
        batch of an epoch is smaller if `batch_size` does not divide `sentences`."""
        corpus = self._corpus(self.sentences, generator)
        while True:
            for rows in torch.randperm(self.sentences, generator=generator).split(AT_ONCE * batch_size):
                yield from [*map(_trimmed, corpus[rows].split(batch_size))]

    def conditions(self) -> Sequence[Condition]:
        """Every k for each group; `described`; then `corpus` and `unseen`, at the mean k of the training sentences
        (`unseen` only where at least one sentence of a thousand is)."""
        agreement = [
            Condition(x=float(k), inside=k <= self.train_max, group=group)
            for group in GROUPS
            for k in range(self.k_max + 1)
            if k > 0 or group == "opposite"
        ]
        whole = ("corpus", "unseen") if self.rare > 1e-3 else ("corpus",)
        described = Condition(x=float(self.train_max), inside=True, group="described")
        return [*agreement, described, *(Condition(x=self.train_max / 2, inside=True, group=group) for group in whole)]

    def evaluate(self, condition: Condition, examples: int, generator: torch.Generator) -> Batch:
        if condition.group == "corpus":
            return self._corpus(examples, generator)
        if condition.group == "unseen":
            return self._unseen(examples, generator)
        number = torch.arange(examples) % 2
        k = int(condition.x)
        numbers = number[:, None].repeat(1, 1 + k)
        if condition.group in ("opposite", "described"):
            numbers[:, 1:] = 1 - numbers[:, 1:]
        elif condition.group == "random":
            numbers[:, 1:] = torch.randint(2, (examples, k), generator=generator)
        elif condition.group != "same":
            known = (*GROUPS, "described", "corpus", "unseen")
            raise ValueError(
                f"farm_agreement has the condition groups {', '.join(known)}; got {condition.group!r}."
                f"{did_you_mean(condition.group, known)}"
            )
        prefixes = _prefixes(numbers, generator)
        return _described(prefixes, generator) if condition.group == "described" else prefixes

    def token_names(self, tokens: Int[Tensor, " time"]) -> list[str]:
        """The words."""
        return [WORDS[token] for token in tokens.tolist()]

    def score(self, outputs: Float[Tensor, "batch time vocab"], batch: Batch) -> dict[str, Tensor]:
        """Numbers per example.

        - `accuracy`: share of the verb lemmas whose right form is likelier than the wrong one; a tie is 1/2.
        - `log_odds`: log of the mass of all right forms over the mass of all wrong forms; positive is right.
        - `singular_log_odds`: the same, singular over plural; its mean over balanced subjects is a bias.
        - `verb_mass`: probability of all verbs together. Near 0 the model expects no verb at all, and the
          numbers above say little.
        - `loss`, `kl`: means over the example's targets of the surprisal, and of the Kullback-Leibler
          divergence from the exact distribution of the next token. `kl` is NaN after a prefix that training
          sentences never have, for example one with more than `train_max` distractors.
        - `targets`, `number`: how many targets; 0 for a singular and 1 for a plural subject.
        """
        if batch.query is None or batch.extra is None:
            raise ValueError("farm_agreement scores the batches it makes; got one without `query` or `extra`")
        log_probs = outputs.to(torch.promote_types(outputs.dtype, torch.float32)).log_softmax(-1)
        rows = torch.arange(len(batch), device=outputs.device)
        number = batch.extra["number"]
        forms = log_probs[rows, batch.query][:, VERB_IDS.to(outputs.device)]
        right, wrong = forms[rows, number], forms[rows, 1 - number]
        better = (right > wrong) + 0.5 * (right == wrong)
        better[right.isnan() | wrong.isnan()] = torch.nan
        singular, plural = forms.logsumexp(-1).unbind(1)
        scored = batch.targets != IGNORE
        count = scored.sum(1)
        surprisal = -log_probs.gather(-1, batch.targets.where(scored, 0)[..., None]).squeeze(-1)
        return {
            "accuracy": better.mean(1),
            "log_odds": (singular - plural).where(number == 0, plural - singular),
            "singular_log_odds": singular - plural,
            "verb_mass": forms.flatten(1).logsumexp(-1).exp(),
            "kl": self._divergence(log_probs, batch.tokens).where(scored, 0).sum(1) / count,
            "loss": surprisal.where(scored, 0).sum(1) / count,
            "targets": count,
            "number": number,
        }

    def summarise(self, scores: Mapping[str, Tensor]) -> dict[str, float]:
        """Means over examples; over targets for `loss` and `kl`. `perplexity` is that of whole sentences, to
        compare with the entropy bound (in `corpus`; unseen sentences are rarer ones), and NaN in a condition that asks
        for the verb alone."""
        means = ("accuracy", "log_odds", "singular_log_odds", "verb_mass")
        summary = {name: scores[name].double().mean().item() for name in means}
        for value, name in enumerate(NUMBERS):
            chosen = scores["accuracy"][scores["number"] == value]
            summary[f"accuracy_{name}"] = chosen.double().mean().item()
        weights = scores["targets"].double() / scores["targets"].sum()
        loss, kl = ((weights * scores[name]).sum() for name in ("loss", "kl"))
        whole = bool((scores["targets"] > 1).all())
        summary |= {
            "loss": loss.item(),
            "kl": kl.item(),
            "perplexity": loss.exp().item() if whole else math.nan,
        }
        return {name: summary[name] for name in self.metrics}

    def standard_errors(self, scores: Mapping[str, Tensor]) -> dict[str, float]:
        """Over examples, weighted as in `summarise`."""
        errors = super().standard_errors(scores)
        errors |= {name: standard_error(scores[name], scores["targets"].double()) for name in ("loss", "kl")}
        for value, name in enumerate(NUMBERS):
            chosen = scores["accuracy"][scores["number"] == value]
            errors[f"accuracy_{name}"] = standard_error(chosen, share=True)
        return errors

    def perfect(self, batch: Batch) -> Float[Tensor, "batch time vocab"]:
        """The exact logits, for checks of the score; NaN after prefixes that training sentences never have."""
        return self.grammar.next_log_probs(batch.tokens)

    def answers(self, batch: Batch) -> Int[Tensor, " batch"]:
        """The number of the subject, whichever verb follows."""
        if batch.extra is None:
            raise ValueError("farm_agreement knows the answers of the batches it makes; got one without `extra`")
        return batch.extra["number"]

    def _divergence(
        self, log_probs: Float[Tensor, "batch time vocab"], tokens: Int[Tensor, "batch time"]
    ) -> Float[Tensor, "batch time"]:
        exact = self.grammar.next_log_probs(tokens).to(log_probs.dtype)
        probabilities = exact.exp()
        # 0 log 0 is 0; the NaN of a prefix outside the language must stay, hence `!= 0` and not `> 0`.
        return (probabilities * (exact - log_probs)).where(probabilities != 0, 0).sum(-1)

    def _corpus(self, sentences: int, generator: torch.Generator) -> Batch:
        return self._batch(*self.grammar.sample(sentences, generator))

    def _unseen(self, sentences: int, generator: torch.Generator) -> Batch:
        """Whole sentences that training lacks, drawn until there are enough of them."""
        found: list[Tensor] = []
        while sum(map(len, found)) < sentences:
            sentence, roles = self.grammar.sample(max(256, sentences), generator)
            kept = self.grammar.sentence_log_probs(sentence) < rare_below(self.sentences)
            pair = torch.stack([sentence, roles], dim=2)[kept]
            found.append(F.pad(pair.transpose(1, 2), (0, self.grammar.longest - pair.shape[1])))
        tokens, roles = torch.cat(found)[:sentences].unbind(1)
        longest = int((tokens != PAD).sum(1).max())
        return self._batch(tokens[:, :longest], roles[:, :longest])

    def _batch(self, sentence: Int[Tensor, "batch time"], roles: Int[Tensor, "batch time"]) -> Batch:
        """Whole sentences as examples of language modelling."""
        following = sentence[:, 1:]
        mask = following != PAD
        tokens = sentence[:, :-1].where(mask, PAD)  # `</s>` is only ever a target
        cue = (roles == SUBJECT).int().argmax(1)
        return Batch(
            tokens=tokens,
            targets=following.where(mask, IGNORE),
            mask=mask,
            cue=cue,
            query=(roles == VERB).int().argmax(1) - 1,
            roles=roles[:, :-1].where(mask, -1),
            extra={"number": torch.isin(tokens.gather(1, cue[:, None]), NOUN_IDS[1]).squeeze(1).long()},
        )


def rare_below(sentences: int) -> float:
    """The log-probability of a sentence which that many draws lack with a probability of 95 %."""
    return math.log(-math.expm1(math.log(0.95) / sentences))


@cache
def occurrence(sentences: int, k_max: int) -> tuple[float, float]:
    """Of sentences drawn by the grammar, the share that occurs among that many others, and the share of those that are
    lacking with a probability of 95 % or more; from 4,096 sentences and their exact probabilities."""
    grammar = Grammar(k_max)
    log_probs = grammar.sentence_log_probs(grammar.sample(4096, seeded("occurrence"))[0])
    lacking = (sentences * torch.log1p(-log_probs.exp())).exp()
    return (1 - lacking).mean().item(), (log_probs < rare_below(sentences)).double().mean().item()


def _prefixes(numbers: Int[Tensor, "batch nouns"], generator: torch.Generator) -> Batch:
    """Sentences up to the query, the verb their only target; `numbers`: of the subject, each distractor."""
    examples, nouns = numbers.shape
    tokens = torch.full((examples, 3 * nouns), THE)
    tokens[:, 0] = BOS
    tokens[:, 2::3] = NOUN_IDS[numbers, draw(NOUN_CHOICE, (examples, nouns), generator)]
    prepositions = draw(PREPOSITION_CHOICE, (examples, nouns - 1), generator)
    tokens[:, 3::3] = torch.tensor(ids("preposition"))[prepositions]
    phrase = ["preposition", "determiner", "distractor"]
    roles = ["bos", "determiner", "subject", *phrase * (nouns - 1)]
    targets = torch.full_like(tokens, IGNORE)
    targets[:, -1] = VERB_IDS[numbers[:, 0], draw(VERB_CHOICE, (examples,), generator)]
    return Batch(
        tokens=tokens,
        targets=targets,
        mask=torch.ones_like(tokens, dtype=torch.bool),
        cue=torch.full((examples,), roles.index("subject")),
        query=torch.full((examples,), tokens.shape[1] - 1),
        roles=torch.tensor([ROLES.index(role) for role in roles]).repeat(examples, 1),
        extra={"number": numbers[:, 0].clone()},
    )


def _described(batch: Batch, generator: torch.Generator) -> Batch:
    """The sentences with an adjective before the subject."""

    def insert(rows: Tensor, column: Tensor) -> Tensor:
        return torch.cat([rows[:, :2], column[:, None], rows[:, 2:]], dim=1)

    adjectives = ids("adjective")
    drawn = torch.tensor(adjectives)[draw(cumulate(zipf(len(adjectives))), (len(batch),), generator)]
    assert batch.roles is not None
    assert batch.cue is not None
    assert batch.query is not None
    return replace(
        batch,
        tokens=insert(batch.tokens, drawn),
        targets=insert(batch.targets, torch.full_like(drawn, IGNORE)),
        mask=insert(batch.mask, torch.ones_like(drawn, dtype=torch.bool)),
        roles=insert(batch.roles, torch.full_like(drawn, ROLES.index("adjective"))),
        cue=batch.cue + 1,
        query=batch.query + 1,
    )


def _trimmed(batch: Batch) -> Batch:
    """The batch without the columns that are padding in every example."""
    longest = int(batch.mask.sum(1).max())
    return replace(
        batch,
        tokens=batch.tokens[:, :longest],
        targets=batch.targets[:, :longest],
        mask=batch.mask[:, :longest],
        roles=None if batch.roles is None else batch.roles[:, :longest],
    )
