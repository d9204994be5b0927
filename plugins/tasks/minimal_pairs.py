"""Minimal pairs of real sentences: does a language model prefer the right one?"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch
import torch.nn.functional as F
from harness_plugins.tasks.pair_files import Format, Pair, PairFile, Scoring, Sentence, read_pairs
from harness_plugins.tasks.pair_tokens import ROLES, Row, Unscorable, rows
from jaxtyping import Float, Int
from pydantic import NonNegativeInt
from torch import Tensor

from harness.contracts import IGNORE, Batch, Condition, Interface, Metric, Skip, Task, Tokenizer
from harness.errors import did_you_mean


class MinimalPairs(Task):
    """Pairs of a right and a wrong sentence from a local file, for models that read text.

    A pair counts as right if the model gives the right sentence, or the right form of its verb, the higher
    probability; a tie counts 1/2. A word of several tokens has the product of their probabilities.

        one_prefix   <s> The keys to the cabinet        are | is     two forms after the same words
                             cue         query
        two_prefix   <s> The keys | key                 are          the same word after a right and a wrong context
        sentence     <s> The keys to the cabinet are here . | ...    whole sentences

    A pair is one sequence where both forms are a single token, else two: probes that take the first n sequences see
    between n/2 and n pairs. Nothing is trained on pairs.

    Files (words are what stands between spaces, counted from 0):

    - BLiMP: JSON lines with `sentence_good`, `sentence_bad` and `one_prefix_*` or `two_prefix_*`.
    - A table with tabs: good sentence, bad sentence, then perhaps subject and verb (word indices) and the number of
      attractors; a first line may name the columns `good`, `bad`, `subject`, `verb`, `attractors`.
    - The tables of Gulordava et al. (2018), with their header.

    Where subject and verb are known, the subject's last token is the cue and the token before the verb is the query.
    Roles: the start token, the subject, function words, other words.

    Args:
        tokenizer: the model's.
        file: the pairs.
        format: how to read the file; found out if not said.
        scoring: how to score a pair; the finest way that the file offers if not said.
        start: the token before every text, by name (`<s>`); `auto` for what the model expects, `none` for none.
        subject: index of the subject among the words, in files that do not say.
        subject_before: words between slashes (`of/who/that`): the subject is the word before the first of them.
    """

    roles = ROLES
    metrics: Mapping[str, Metric] = {
        "accuracy": Metric("share", chance=0.5, best=1.0),
        "log_odds": Metric("nats", chance=0.0),
        "standard_error": Metric("share", best=0.0, higher_is_better=False),
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
        subject: NonNegativeInt | None = None,
        subject_before: str | None = None,
    ) -> None:
        if tokenizer is None:
            raise Skip("the pairs are text, and the model has no tokenizer; use a pretrained one (hf:path=FOLDER)")
        self.interface = Interface(input_size=tokenizer.size, output_size=tokenizer.size)
        found = read_pairs(file, format, scoring)
        self.scoring = found.scoring
        self.start = _start(start, tokenizer)
        self.rows: dict[int, list[Row]] = {}
        self.attractors: dict[int, int | None] = {}
        refused: dict[str, list[int]] = dict(found.left_out)
        for pair in found.pairs:
            try:
                marked = _mark(pair, subject, subject_before)
                self.rows[pair.line] = rows(marked, found.scoring, tokenizer, self.start)
                self.attractors[pair.line] = pair.attractors
            except Unscorable as reason:
                refused.setdefault(str(reason), []).append(pair.line)
        self._agree_on_cues(refused)
        if not self.rows:
            raise ValueError(f"no pair of {str(file)!r} can be scored: {'; '.join(_reasons(refused))}")
        self.by_attractors = None not in self.attractors.values()
        self.axis = "attractors" if self.by_attractors else "all pairs"
        self.notes = [_said(found, len(self.rows)), _start_said(self.start, tokenizer), *_reasons(refused)]

    @staticmethod
    def check_arguments(
        file: Path, format: Format, scoring: Scoring, subject: int | None, subject_before: str | None, start: str
    ) -> None:
        """Refuse a file that is not there, or has a line that cannot be read."""
        if not file.is_file():
            there = [each.name for each in file.parent.iterdir()] if file.parent.is_dir() else []
            guess = did_you_mean(file.name, there)
            raise ValueError(f"there is no file {str(file)!r} (from {str(Path.cwd())!r}).{guess}")
        if subject is not None and subject_before is not None:
            raise ValueError("give subject or subject_before, not both")
        read_pairs(file, format, scoring)

    @staticmethod
    def files(file: Path, **others: object) -> list[Path]:
        """The file decides the result."""
        return [file]

    def _agree_on_cues(self, refused: dict[str, list[int]]) -> None:
        """Either all pairs have a cue and a query or none has, since a batch marks them for every example."""
        marked = {line: all(None not in (row.cue, row.query) for row in each) for line, each in self.rows.items()}
        if not any(marked.values()):
            return
        if missing := [line for line, known in marked.items() if not known]:
            refused["they mark no subject and verb, as the others do"] = missing
            for line in missing:
                del self.rows[line], self.attractors[line]

    def train(self, batch_size: int, generator: torch.Generator) -> Iterator[Batch]:
        raise Skip("minimal pairs are for testing, and there is no text to train on; use a pretrained model")

    def conditions(self) -> Sequence[Condition]:
        """One for each number of attractors, if the file says it of every pair; else all pairs together."""
        counts = sorted({n for n in self.attractors.values() if n is not None}) if self.by_attractors else [0]
        return [Condition(float(count), inside=True) for count in counts]

    def evaluate(self, condition: Condition, examples: int, generator: torch.Generator) -> Batch:
        """`examples` pairs of the file, drawn at random and in its order; all, if there are no more."""
        lines = [n for n in self.rows if not self.by_attractors or self.attractors[n] == condition.x]
        if examples < len(lines):
            drawn = torch.randperm(len(lines), generator=generator)[:examples].sort().values
            lines = [lines[index] for index in drawn.tolist()]
        return batch([(line, row) for line in lines for row in self.rows[line]])

    def score(self, outputs: Float[Tensor, "batch time vocab"], batch: Batch) -> dict[str, Tensor]:
        """Log-probabilities of the right and of the wrong tokens in each sequence (0 where it has none), whether it has
        them, and the line of its pair."""
        assert batch.extra is not None
        good, bad, first = (batch.extra[name] for name in ("good", "bad", "first"))
        examples, time = outputs.shape[:2]
        positions = first[:, None] + torch.arange(good.shape[1], device=first.device)
        chosen = outputs[torch.arange(examples, device=first.device)[:, None], positions.clamp(max=time - 1)]
        log_probs = F.log_softmax(chosen.float(), -1)

        def total(tokens: Int[Tensor, "batch span"]) -> Float[Tensor, " batch"]:
            each = log_probs.gather(-1, tokens.clamp(min=0)[..., None]).squeeze(-1)
            return each.double().where(tokens >= 0, 0.0).sum(1)

        shown = {"has_good": (good >= 0).any(1), "has_bad": (bad >= 0).any(1), "pair": batch.extra["pair"]}
        return {"good": total(good), "bad": total(bad), **shown}

    def summarise(self, scores: Mapping[str, Tensor]) -> dict[str, float]:
        """Over the pairs of which both sides are there; `standard_error` is that of the accuracy, over pairs."""
        lines, pair = scores["pair"].unique(return_inverse=True)

        def per_pair(name: str) -> Float[Tensor, " pairs"]:
            zeros = torch.zeros(len(lines), dtype=torch.float64, device=pair.device)
            return zeros.index_add(0, pair, scores[name].double())

        whole = (per_pair("has_good") > 0) & (per_pair("has_bad") > 0)
        odds = (per_pair("good") - per_pair("bad"))[whole]
        right = ((odds > 0) + 0.5 * (odds == 0)).double().where(~odds.isnan(), math.nan)
        error = right.std().item() / math.sqrt(len(right)) if len(right) > 1 else math.nan
        return {
            "accuracy": right.mean().item(),
            "log_odds": odds.mean().item(),
            "standard_error": error,
            "pairs": float(len(right)),
        }

    def partners(self, batch: Batch, generator: torch.Generator) -> Int[Tensor, " batch"]:
        raise Skip("pairs of sentences with other words cannot exchange subjects: the forms of the verb would not fit")


def _mark(pair: Pair, subject: int | None, before: str | None) -> Pair:
    """The pair with its subject, found by the user's rule where the file does not say."""

    def mark(side: Sentence) -> Sentence:
        words = side.words if side.verb is None else side.words[: side.verb]
        found = subject
        if before is not None:
            found = next((i - 1 for i, word in enumerate(words) if word.lower() in before.split("/") and i > 0), None)
            if found is None:
                raise Unscorable(f"no subject stands before {before}")
        elif found is not None and found >= len(words):
            raise Unscorable(f"there is no word {found} before the verb")
        return side if found is None or side.subject is not None else replace(side, subject=found)

    return replace(pair, good=mark(pair.good), bad=mark(pair.bad))


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


def _reasons(refused: Mapping[str, Sequence[int]]) -> list[str]:
    return [
        f"{len(lines)} pairs not scored, since {reason}: line {', '.join(map(str, sorted(lines)))}"
        for reason, lines in refused.items()
    ]


def batch(examples: Sequence[tuple[int, Row]]) -> Batch:
    """Sequences with the line of their pair, padded on the right."""
    lines, each = [line for line, _ in examples], [row for _, row in examples]

    def padded(lists: Sequence[Sequence[int]], value: int, longest: int) -> Int[Tensor, "batch longest"]:
        return torch.tensor([[*ids, *[value] * (longest - len(ids))] for ids in lists], dtype=torch.long)

    length = max(len(row.tokens) for row in each)
    span = max(max(len(row.good), len(row.bad)) for row in each)
    tokens = padded([row.tokens for row in each], 0, length)
    targets = torch.full_like(tokens, IGNORE)
    for index, row in enumerate(each):
        targets[index, row.first : row.first + len(row.targets)] = torch.tensor(row.targets)
    marked = all(None not in (row.cue, row.query) for row in each)
    return Batch(
        tokens=tokens,
        targets=targets,
        mask=padded([[1] * len(row.tokens) for row in each], 0, length).bool(),
        cue=torch.tensor([row.cue for row in each]) if marked else None,
        query=torch.tensor([row.query for row in each]) if marked else None,
        roles=padded([row.roles for row in each], -1, length),
        extra={
            "good": padded([row.good for row in each], -1, span),
            "bad": padded([row.bad for row in each], -1, span),
            "first": torch.tensor([row.first for row in each]),
            "pair": torch.tensor(lines),
        },
    )
