"""Laws: what must be so to rounding, whatever a model has learned; each with its known answer.

A law is a small function that takes a `Case` and gives an `Answer`: what came out, what must, and how far they may be
apart. Its docstring begins with the law in one sentence, which is what reports say of a model that breaks it. It raises
`Skip` where it does not apply. A probe is made of laws by naming them:

    def sums_to_one(case: Case) -> Answer:
        \"\"\"The weights of a query sum to 1.\"\"\"
        return case.compare(weights(case).sum(-1), 1.0)

    class MyLaws(Laws):
        laws = (sums_to_one,)
        known = (Known("my_attention", "noise"),)  # what `harness verify` puts to them
"""

import copy
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import torch
from jaxtyping import Shaped
from torch import Tensor, nn

from harness.batches import Interface
from harness.contracts import Skip
from harness.errors import said
from harness.measurements import Matrix, Scalar
from harness.subject import Subject

EXAMPLES, POSITIONS = 2, 12
"""What of a task's data is put to the laws."""

ROUNDING = {torch.float64: 1e-12, torch.float32: 1e-5}
"""How far apart two numbers of size 1 may be that must be the same, by the precision they were computed in."""


@dataclass(frozen=True)
class Answer:
    """What a law asks for, and what came out.

    Args:
        value: what came out. Of many numbers, the one that is farthest off.
        expected: what must come out.
        tolerance: how far they may be apart; 0 for what must be so exactly.
    """

    value: float
    expected: float
    tolerance: float

    @property
    def error(self) -> float:
        """How far apart they are; NaN where one of them is."""
        return 0.0 if self.value == self.expected else abs(self.value - self.expected)

    @property
    def holds(self) -> bool:
        """Whether that is near enough."""
        return self.error <= self.tolerance


class Case:
    """A model in double precision, and data to put to it; what every law of one probe looks at.

    Args:
        subject: what the probe looks at; its model stays as it is.
        expected: what whoever asks says must come out, by name (the arguments of the probe).
    """

    def __init__(self, subject: Subject, expected: Mapping[str, Any]) -> None:
        self.subject = subject
        self.expected = expected

    @cached_property
    def model(self) -> nn.Module:
        """A copy in double precision and evaluation mode, which laws may change and put back."""
        return copy.deepcopy(self.subject.model).double().eval()

    @cached_property
    def tokens(self) -> Tensor:
        """A few short sequences of the task: `batch time`, or `batch time width` in double precision."""
        tokens = torch.empty(0, 0)
        for condition in self.subject.task.conditions():
            found = _short(self.subject.batch(condition).tokens[:EXAMPLES], self.subject.task.interface)
            tokens = found if found.shape[1] > tokens.shape[1] else tokens
            if tokens.shape[1] == POSITIONS:
                break
        if len(tokens) < EXAMPLES or tokens.shape[1] < 4:
            raise Skip(f"laws are put to {EXAMPLES} sequences of 4 positions; the task gave {tuple(tokens.shape[:2])}")
        return tokens.double() if tokens.is_floating_point() else tokens

    @cached_property
    def changed(self) -> Tensor:
        """The same with other tokens everywhere but at a separator."""
        if self.tokens.is_floating_point():
            return self.tokens + 1
        face = self.subject.task.interface
        others = face.others(self.tokens, 1)
        return others if face.separator is None else others.where(self.tokens != face.separator, self.tokens)

    def run(self, tokens: Tensor) -> Tensor:
        """The model's outputs for `tokens`, without gradients: `batch time out`."""
        with torch.no_grad():
            outputs: Tensor = self.model(tokens)
        return outputs

    @cached_property
    def outputs(self) -> Tensor:
        """Those for `tokens`."""
        return self.run(self.tokens)

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return self.subject.device

    @property
    def rounding(self) -> float:
        """What two ways of computing the same may differ by: a model may compute in less than double precision."""
        return ROUNDING.get(self.outputs.dtype, 1e-2)

    def compare(self, found: Tensor, expected: Tensor | float, tolerance: float | None = None) -> Answer:
        """The answer where two tensors are farthest apart.

        Args:
            found: what came out.
            expected: what must, of the same shape, or one number for all.
            tolerance: how far they may be apart; if not said, by rounding, in proportion to the largest number.
        """
        found = found.detach().double().cpu()
        wanted = torch.as_tensor(expected, dtype=torch.float64).detach().cpu().expand(found.shape)
        if not found.numel():
            raise Skip("there is nothing to compare")
        if tolerance is None:
            sizes = wanted[wanted.isfinite()].abs()
            tolerance = self.rounding * max(1.0, sizes.max().item() if len(sizes) else 1.0)
        distance = torch.where(found == wanted, 0.0, (found - wanted).abs()).nan_to_num(math.inf).flatten()
        worst = int(distance.argmax())
        return Answer(found.flatten()[worst].item(), wanted.flatten()[worst].item(), tolerance)


def _short(tokens: Shaped[Tensor, "batch time *width"], face: Interface) -> Shaped[Tensor, "batch few *width"]:
    """The first positions of each sequence; of one with a source and a target those around the separator."""
    few = min(POSITIONS, tokens.shape[1])
    first = (face.target_starts(tokens) - 1 - few // 2).clamp(0, tokens.shape[1] - few)
    rows = torch.arange(len(tokens), device=tokens.device)
    return tokens[rows[:, None], first[:, None] + torch.arange(few, device=tokens.device)]


def worst(answers: Iterable[Answer]) -> Answer:
    """The one that is farthest off; what is no number is farther than any."""
    return max(answers, key=lambda answer: math.inf if math.isnan(answer.error) else answer.error)


Law = Callable[[Case], Answer]


@dataclass(frozen=True)
class Judged:
    """A law that was put to a model.

    Args:
        name: the law's.
        says: the law in one sentence.
        answer: what came out; None where it does not apply.
        reason: why it does not apply; or with what it ended, if that was no answer.
    """

    name: str
    says: str
    answer: Answer | None
    reason: str = ""

    @property
    def broken(self) -> bool:
        """Whether it applies, and does not hold."""
        return self.answer is not None and not self.answer.holds


@dataclass(frozen=True)
class Known:
    """What `harness verify` puts to the laws of a probe.

    Args:
        model: as `harness run --model` takes it.
        task: as `--task` takes it; None for a model of `vocabulary` tokens that is not run, and takes no memory.
        arguments: of the probe.
        vocabulary: token ids, where there is no task.
    """

    model: str
    task: str | None = None
    arguments: Mapping[str, Any] | None = None
    vocabulary: int = 256


def name_of(law: Law) -> str:
    """A law's name, as people write it."""
    return str(getattr(law, "__name__", law)).replace("_", " ")


def sentence_of(law: Law) -> str:
    """The law in one sentence: the first paragraph of its docstring."""
    return " ".join((law.__doc__ or name_of(law)).split("\n\n")[0].split())


def judge(law: Law, case: Case) -> Judged:
    """Put a law to the model of a case. One that raises has no answer, and so breaks it."""
    name, says = name_of(law), sentence_of(law)
    try:
        return Judged(name, says, law(case))
    except Skip as skip:
        return Judged(name, says, None, said(skip))
    except Exception as error:
        return Judged(name, says, Answer(math.nan, math.nan, 0.0), f"{type(error).__name__}: {said(error)}")


class Laws:
    """A probe made of laws; subclass it.

    Measures:
        broken: how many laws are broken; the verdict names them.
        laws: what came out for each, what must, how far they are apart, and how far they may be.

    Attributes:
        laws: what is put to the model, in this order.
        known: what `harness verify` puts to them.
        expected: what whoever asks says must come out, by name; set by the constructor of a probe with arguments.
    """

    stages: ClassVar[Sequence[str]] = ("initial",)
    laws: ClassVar[Sequence[Law]] = ()
    known: ClassVar[Sequence[Known]] = ()
    expected: Mapping[str, Any] = {}

    def judged(self, subject: Subject, only: Callable[[str], bool] = lambda name: True) -> list[Judged]:
        """Every law, put to one model.

        Args:
            subject: the model, and its task.
            only: whether a law by that name is wanted.
        """
        case = Case(subject, self.expected)
        return [judge(law, case) for law in self.laws if only(name_of(law))]

    def __call__(self, subject: Subject) -> Iterator[Scalar | Matrix]:
        judged = self.judged(subject)
        applied = [(each, each.answer) for each in judged if each.answer is not None]
        if not applied:
            raise Skip(f"none of these laws applies: {judged[0].reason}" if judged else "there are no laws")
        broken = [each for each, _ in applied if each.broken]
        yield Scalar(
            name="broken",
            unit="laws",
            value=len(broken),
            verdict=f"breaks: {', '.join(each.name for each in broken)}" if broken else f"all {len(applied)} hold",
            meaning=" ".join(f"{each.name}: {each.says} {each.reason}".strip() for each in broken).removesuffix(".")
            or "every law that applies holds within its tolerance",
            about="laws that the model breaks",
            headline=True,
        )
        yield Matrix(
            name="laws",
            unit="",
            values=[[answer.value, answer.expected, answer.error, answer.tolerance] for _, answer in applied],
            rows=[each.name for each, _ in applied],
            columns=["value", "expected", "error", "tolerance"],
            row_label="law",
            column_label="answer",
            about="what came out, and what must",
            headline=True,
        )
