"""Minimal pairs of real sentences: does a language model prefer the right one?"""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from harness_plugins.tasks.pair_files import SILENT, Format, PairFile, Scoring, mark, read_pairs
from harness_plugins.tasks.pair_tokens import ROLES, Row, Unscorable, batch, rows
from jaxtyping import Bool, Float, Int
from pydantic import NonNegativeInt
from torch import Tensor

from harness import Batch, Condition, Interface, Metric, Skip, Task
from harness.errors import did_you_mean
from harness.examples import seeded, standard_error
from harness.offers import OffersWordEnds, Tokenizer


class MinimalPairs(Task):
    """Pairs of a right and a wrong sentence from a local file, for models that read text.

    A pair counts as right if the model gives the right sentence, or the right form of its verb, the higher
    probability; a tie counts 1/2. What is several tokens has the product of their probabilities (`accuracy`) or its
    mean per token, so that a longer form is not unlikely for its length alone (`accuracy_per_token`). Where the tokens
    of one form begin the other's (`key`, `keys` letter by letter), the probability that the word ends there counts for
    both, as one more token: that of all tokens that do not go on with the word.

        one_prefix   <s> The keys to the cabinet        are | is     two forms after the same words
                             cue         query
        two_prefix   <s> The keys | key                 are          the same word after a right and a wrong context
        sentence     <s> The keys to the cabinet are here . | ...    whole sentences

    A pair is one sequence where both forms are a single token, else two: probes that take the first n sequences see
    between n/2 and n pairs. Nothing is trained on pairs. From a file with more pairs than are asked for, the same ones
    are drawn for every seed.

    Files (words are what stands between spaces, counted from 0):

    - BLiMP: JSON lines with `sentence_good`, `sentence_bad` and `one_prefix_*` or `two_prefix_*`.
    - A table with tabs, commas or semicolons: good sentence, bad sentence, then perhaps subject and verb (word indices)
      and the number of attractors; or a first line names the columns (`good`, `grammatical`, `sentence_good`, ... and
      `bad`, ...; `subject`, `verb`, `attractors`), in any order and among others.
    - Sentences on alternating lines, the good one first (`format=lines`).
    - The tables of Gulordava et al. (2018), with their header.

    Where subject and verb are known and the subject comes first, the subject's last token is the cue and the token
    before the verb is the query. Other pairs are scored without. Roles: the start token, the subject, function words,
    other words.

    Args:
        tokenizer: the model's.
        file: the pairs.
        format: how to read the file; found out if not said.
        scoring: how to score a pair; the finest way that the file offers if not said.
        start: the token before every text, by name (`<s>`); `auto` for what the model expects, `none` for none.
        good_column: name of the column, or field, of the good sentences, where it is not known by its name.
        bad_column: that of the bad sentences.
        first_index: what the file's indices call the first word, 0 or 1; 0 if not said, and asked for where it looks
            like 1.
        subject: index of the subject among the words, from 0, in files that do not say.
        subject_before: words between slashes (`of/who/that`): the subject is the word before the first of them.
    """

    roles = ROLES
    fixed_data: ClassVar[bool] = True
    metrics: Mapping[str, Metric] = {
        "accuracy": Metric("share", chance=0.5, best=1.0),
        "log_odds": Metric("nats", chance=0.0),
        "accuracy_per_token": Metric("share", chance=0.5, best=1.0),
        "pairs": Metric("pairs"),
    }

    def __init__(
        self,
        tokenizer: Tokenizer | None,
        *,
        file: Path,
        format: Format = "auto",
        scoring: Scoring = "auto",
        start: str = "auto",
        good_column: str | None = None,
        bad_column: str | None = None,
        first_index: Literal[0, 1] | None = None,
        subject: NonNegativeInt | None = None,
        subject_before: str | None = None,
    ) -> None:
        if tokenizer is None:
            raise Skip("the pairs are text, and the model has no tokenizer; use a pretrained one (hf:path=FOLDER)")
        self.tokenizer = tokenizer
        self.interface = Interface(input_size=tokenizer.size, output_size=tokenizer.size)
        found = read_pairs(
            file, format, scoring, good_column=good_column, bad_column=bad_column, first_index=first_index
        )
        self.scoring = found.scoring
        self.start = _start(start, tokenizer)
        self.rows: dict[int, list[Row]] = {}
        self.attractors: dict[int, int | None] = {}
        refused: dict[str, list[int]] = dict(found.left_out)
        unmarked: dict[str, list[int]] = {}
        for pair in found.pairs:
            marked, reason = mark(pair, subject, subject_before)
            try:
                self.rows[pair.line] = rows(marked, found.scoring, tokenizer, self.start)
            except Unscorable as problem:
                refused.setdefault(str(problem), []).append(pair.line)
                continue
            self.attractors[pair.line] = pair.attractors
            if reason:
                unmarked.setdefault(reason, []).append(pair.line)
        if len(unmarked.get(SILENT, [])) == len(self.rows):
            unmarked.pop(SILENT, None)  # nothing was to be expected
        if not self.rows:
            raise ValueError(f"no pair of {str(file)!r} can be scored: {'; '.join(_reasons('not scored', refused))}")
        self.order = _order([pair.line for pair in found.pairs])
        self.ends = _ends(self.rows, tokenizer)
        self.by_attractors = None not in self.attractors.values()
        self.axis = "attractors" if self.by_attractors else "all pairs"
        self.notes = [
            _said(found, len(self.rows)),
            _start_said(self.start, tokenizer),
            *_ends_said(self.rows),
            *_reasons("not scored", refused),
            *_reasons("without marks of subject and verb", unmarked),
        ]

    @staticmethod
    def check_arguments(
        file: Path,
        format: Format,
        scoring: Scoring,
        good_column: str | None,
        bad_column: str | None,
        first_index: Literal[0, 1] | None,
        subject: int | None,
        subject_before: str | None,
        start: str,
    ) -> None:
        """Refuse a file that is not there, or has a line that cannot be read."""
        if file.is_dir():
            raise ValueError(f"{str(file)!r} is a folder; name the file in it, for example file={file / 'pairs.jsonl'}")
        if not file.is_file():
            there = [each.name for each in file.parent.iterdir()] if file.parent.is_dir() else []
            guess = did_you_mean(file.name, there)
            raise ValueError(f"there is no file {str(file)!r} (from {str(Path.cwd())!r}).{guess}")
        if subject is not None and subject_before is not None:
            raise ValueError("give subject or subject_before, not both")
        read_pairs(file, format, scoring, good_column=good_column, bad_column=bad_column, first_index=first_index)

    @staticmethod
    def files(file: Path, **others: object) -> list[Path]:
        """The file decides the result."""
        return [file]

    def train(self, batch_size: int, generator: torch.Generator) -> Iterator[Batch]:
        raise Skip("minimal pairs are for testing, and there is no text to train on; use a pretrained model")

    def conditions(self) -> Sequence[Condition]:
        """One for each number of attractors, if the file says it of every pair; else all pairs together."""
        counts = sorted({n for n in self.attractors.values() if n is not None}) if self.by_attractors else [0]
        return [Condition(float(count), inside=True) for count in counts]

    def evaluate(self, condition: Condition, examples: int, generator: torch.Generator) -> Batch:
        """`examples` pairs of the file, in its order; all, if there are no more.

        Which ones depends neither on the generator nor on what else a tokenizer cannot score, so that models and seeds
        are compared on the same pairs, as far as all can score them.
        """
        lines = [n for n in self.order if n in self.rows]
        lines = [n for n in lines if not self.by_attractors or self.attractors[n] == condition.x]
        return batch([(line, row) for line in sorted(lines[:examples]) for row in self.rows[line]])

    def token_names(self, tokens: Int[Tensor, " time"]) -> list[str]:
        """As the tokenizer calls them."""
        return [self.tokenizer.name(token) for token in tokens.tolist()]

    def score(self, outputs: Float[Tensor, "batch time vocab"], batch: Batch) -> dict[str, Tensor]:
        """Log-probabilities of the right and of the wrong form in each sequence (0 where it has none), how many tokens
        each has, and the line of its pair."""
        assert batch.extra is not None
        good, bad, first, end = (batch.extra[name] for name in ("good", "bad", "first", "end"))
        examples, time = outputs.shape[:2]
        positions = first[:, None] + torch.arange(good.shape[1], device=first.device)
        chosen = outputs[torch.arange(examples, device=first.device)[:, None], positions.clamp(max=time - 1)]
        log_probs = F.log_softmax(chosen.float(), -1)
        ending = self._ending(outputs, end)

        def total(tokens: Int[Tensor, "batch span"]) -> Float[Tensor, " batch"]:
            each = log_probs.gather(-1, tokens.clamp(min=0)[..., None]).squeeze(-1)
            there = tokens >= 0
            return each.double().where(there, 0.0).sum(1) + ending.where(there.any(1), 0.0)

        def count(tokens: Int[Tensor, "batch span"]) -> Int[Tensor, " batch"]:
            there = tokens >= 0
            return there.sum(1) + (there.any(1) & (end >= 0))

        counts = {"good_tokens": count(good), "bad_tokens": count(bad)}
        return {"good": total(good), "bad": total(bad), **counts, "pair": batch.extra["pair"]}

    def _ending(
        self, outputs: Float[Tensor, "batch time vocab"], end: Int[Tensor, " batch"]
    ) -> Float[Tensor, " batch"]:
        """The log-probability that the word ends after position `end`; 0 where that is -1."""
        found = torch.zeros(len(end), dtype=torch.float64, device=outputs.device)
        rows = (end >= 0).nonzero().squeeze(1)
        if len(rows):
            log_probs = F.log_softmax(outputs[rows, end[rows]].float(), -1)
            found[rows] = log_probs[:, self.ends.to(outputs.device)].double().logsumexp(1)
        return found

    def summarise(self, scores: Mapping[str, Tensor]) -> dict[str, float]:
        """Over the pairs of which both sides are there."""
        found = self._by_pair(scores)
        means = {name: values.mean().item() for name, values in found.items()}
        return {**means, "pairs": float(len(found["accuracy"]))}

    def standard_errors(self, scores: Mapping[str, Tensor]) -> dict[str, float]:
        """Over pairs, of which some have two sequences."""
        found = self._by_pair(scores)
        errors = {name: standard_error(found[name], share=self.metrics[name].unit == "share") for name in found}
        return {**errors, "pairs": math.nan}

    def _by_pair(self, scores: Mapping[str, Tensor]) -> dict[str, Float[Tensor, " pairs"]]:
        """What the metrics are means of, for each pair of which both sides are there."""
        lines, pair = scores["pair"].unique(return_inverse=True)

        def per_pair(name: str) -> Float[Tensor, " pairs"]:
            zeros = torch.zeros(len(lines), dtype=torch.float64, device=pair.device)
            return zeros.index_add(0, pair, scores[name].double())

        tokens = {side: per_pair(f"{side}_tokens") for side in ("good", "bad")}
        whole = (tokens["good"] > 0) & (tokens["bad"] > 0)
        odds = per_pair("good") - per_pair("bad")
        each = per_pair("good") / tokens["good"] - per_pair("bad") / tokens["bad"]
        return {"accuracy": _won(odds[whole]), "log_odds": odds[whole], "accuracy_per_token": _won(each[whole])}

    def answers(self, batch: Batch) -> Int[Tensor, " batch"]:
        raise Skip("pairs of sentences with other words cannot exchange subjects: the forms of the verb would not fit")


def _won(odds: Float[Tensor, " pairs"]) -> Float[Tensor, " pairs"]:
    return ((odds > 0) + 0.5 * (odds == 0)).double().where(~odds.isnan(), math.nan)


def _order(lines: Sequence[int]) -> list[int]:
    """The lines of a file in the order in which they are drawn."""
    return [lines[index] for index in torch.randperm(len(lines), generator=seeded("pairs")).tolist()]


def _ends(rows: Mapping[int, Sequence[Row]], tokenizer: Tokenizer) -> Bool[Tensor, " vocab"]:
    """Which tokens end a word; nothing where no pair asks for it."""
    if isinstance(tokenizer, OffersWordEnds) and any(each[0].ends for each in rows.values()):
        return torch.tensor(tokenizer.ends_word, dtype=torch.bool)
    return torch.zeros(0, dtype=torch.bool)


def _start(name: str, tokenizer: Tokenizer) -> int | None:
    if name == "auto":
        return tokenizer.start
    if name == "none":
        return None
    if (token := tokenizer.token(name)) is None:
        raise ValueError(f"the tokenizer has no token {name!r}; use start=auto or start=none")
    return token


def _start_said(start: int | None, tokenizer: Tokenizer) -> str:
    return "no start token" if start is None else f"start token before every text: {tokenizer.name(start)} ({start})"


def _said(found: PairFile, scored: int) -> str:
    out = len(found.pairs) + sum(map(len, found.left_out.values())) - scored
    return f"{scored} pairs scored by {found.scoring}, {out} not scored"


def _ends_said(rows: Mapping[int, Sequence[Row]]) -> list[str]:
    number = sum(each[0].ends for each in rows.values())
    said = f"in {number} pairs the end of the word is scored too, since the tokens of one form begin the other's"
    return [said] if number else []


def _reasons(what: str, reasons: Mapping[str, Sequence[int]]) -> list[str]:
    return [
        f"{len(lines)} pair{'s' * (len(lines) > 1)} {what}, since {reason}: line {', '.join(map(str, sorted(lines)))}"
        for reason, lines in reasons.items()
    ]
