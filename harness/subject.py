"""What a probe looks at."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor, nn

from harness.batches import Batch
from harness.capabilities import Capabilities
from harness.contracts import Condition, Task
from harness.examples import seeded
from harness.schema import Trial
from harness.vocabulary import Stage

OUTPUTS_AT_ONCE = 2**26
"""The most numbers in the outputs of one forward pass: with a vocabulary of 50,000 words, a few tokens are many."""


@dataclass
class Shared:
    """What the probes of one model have in common; they get copies, and never these."""

    batches: dict[Condition, Batch] = field(default_factory=dict)
    """The test data."""
    scores: dict[Condition, dict[str, Tensor]] = field(default_factory=dict)
    """The task's numbers on it, of the model as it is for all probes."""
    untouched: Callable[[], bool] = lambda: True
    """Whether model, task and process are at this moment as they are for all probes: not while one of them intervenes,
    for example."""


class Subject:
    """What a probe looks at: a model, the task it faces and the evaluation data, at one stage.

    What several probes need is computed once for all of them: `batch` and `scores`. Each gets copies of its own.

    Attributes:
        model: the model, in evaluation mode; probes leave parameters, mode and hooks as they found them.
        task: the task instance.
        stage: `"initial"` (as constructed) or `"trained"`.
        seed: the trial's seed.
        device: where the model lives.
        generator: a CPU generator of the probe's own; the same cell always gets the same one.
        trial: what the runner was asked for, for probes that build the model again elsewhere; None outside a run.
        budget: how long the model was trained, as a share of the steps that its task and its own class recommend; 1
            before training, and for a model that comes with its weights.
    """

    def __init__(
        self,
        model: nn.Module,
        task: Task,
        *,
        stage: Stage,
        seed: int,
        device: torch.device,
        examples: int = 512,
        chunk_tokens: int = 65_536,
        shared: Shared | None = None,
        trial: Trial | None = None,
        budget: float = 1.0,
    ) -> None:
        self.model = model
        self.task = task
        self.stage: Stage = stage
        self.seed = seed
        self.device = device
        self.examples = examples
        self.chunk_tokens = max(1, min(chunk_tokens, OUTPUTS_AT_ONCE // task.interface.output_size))
        self.generator = torch.Generator()
        self.trial = trial
        self.budget = budget
        self._shared = shared or Shared()
        self._batches: dict[Condition, Batch] = {}
        self._scores: dict[Condition, dict[str, Tensor]] = {}

    def batch(self, condition: Condition) -> Batch:
        """The test data of a condition, on the model's device: the same for every model and every probe."""
        if condition not in self._batches:
            self._batches[condition] = self._untouched_batch(condition)
        return self._batches[condition]

    def _untouched_batch(self, condition: Condition) -> Batch:
        """A copy of the test data, which no probe has touched."""
        known = self._shared.batches
        if condition not in known:
            generator = seeded("test", self.seed, str(condition))
            known[condition] = self.task.evaluate(condition, self.examples, generator).to(self.device).copy()
        return known[condition].copy()

    def marked(self, condition: Condition, examples: int | None = None) -> Batch | None:
        """The examples of a condition that have a cue and a query not before it, the first `examples` of them; None if
        there are none, or the model says that it cannot take them. Of a task that asks several questions in an example,
        each has one of them (`Batch.asked`)."""
        batch = self.batch(condition).asked()
        found = batch.marked.nonzero().squeeze(1)[:examples]
        return batch[found] if len(found) and self.takes(batch) else None

    def takes(self, batch: Batch) -> bool:
        """Whether the model takes sequences of that length, as far as it says so (`max_length`)."""
        most = Capabilities(self.model).max_length
        return most is None or batch.tokens.shape[1] <= most

    def chunks(self, batch: Batch) -> Iterator[Batch]:
        """The batch in pieces small enough for a forward pass (`chunk_tokens` tokens at most, one example at least)."""
        return batch.split(max(1, self.chunk_tokens // max(1, batch.tokens.shape[1])))

    def forward(self, batch: Batch) -> Float[Tensor, "batch time out"]:
        """The model's outputs without gradients."""
        with torch.no_grad():  # what models keep of inference mode, such as a mask, can take part in no gradient
            outputs: Tensor = self.model(batch.tokens)
        return outputs

    def score(self, batch: Batch) -> dict[str, Tensor]:
        """The task's numbers per example for any batch, for example one with changed tokens; computed in chunks."""
        parts = []
        for piece in self.chunks(batch):
            outputs = self.forward(piece)
            with torch.no_grad():
                parts.append(self.task.score(outputs, piece))
        return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}

    def scores(self, condition: Condition) -> dict[str, Tensor]:
        """The task's numbers per example on the untouched test data of a condition. What the model draws at random
        meanwhile is the same for every probe."""
        if condition not in self._scores:
            found = self._shared.scores.get(condition)
            if found is None:
                cuda = [self.device] if self.device.type == "cuda" else []
                with torch.random.fork_rng(devices=cuda):
                    number = seeded("scores", self.seed, str(condition)).initial_seed()
                    torch.default_generator.manual_seed(number)
                    if cuda:
                        torch.cuda.manual_seed_all(number)
                    found = self.score(self._untouched_batch(condition))
                if self._shared.untouched():
                    self._shared.scores[condition] = found
            self._scores[condition] = {name: numbers.clone() for name, numbers in found.items()}
        return self._scores[condition]
