"""What a probe may need of a model and a task, and how to find out whether it is there; what a model must not see."""

from collections.abc import Callable, Iterable

import torch

from harness.attention import attention_shape
from harness.batches import IGNORE, Batch, Interface
from harness.capabilities import Capabilities
from harness.errors import PluginError, RequestError, did_you_mean
from harness.offers import OffersAttention
from harness.recurrence import recurrent_modules, states_of
from harness.subject import Subject

SEEN = {"all": "all tokens", "source": "the whole source"}
"""What a model sees beyond the past, by what it says (`sees`)."""


def unfair(subject: Subject) -> str:
    """Why the model cannot be asked what the task asks, by what it says that it sees; "" if it can."""
    sees = Capabilities(subject.model).sees
    batches = map(subject.batch, subject.task.conditions() if sees in SEEN else ())
    if not any(_asks_what_is_seen(batch, subject.task.interface, sees) for batch in batches):
        return ""
    return (
        f'the model sees {SEEN[sees]} (sees = "{sees}"), and the task asks there for the next token, which stands in '
        "its input: it would read the answer"
    )


def _asks_what_is_seen(batch: Batch, interface: Interface, sees: str) -> bool:
    """Whether most targets are simply the next token, where the model sees that one, too."""
    if batch.tokens.is_floating_point() or batch.targets.is_floating_point():
        return False
    targets = batch.targets[:, :-1]
    asked = targets != IGNORE
    if sees == "source":
        following = torch.arange(1, batch.tokens.shape[1], device=targets.device)
        asked = asked & (following < interface.target_starts(batch.tokens)[:, None])
    return bool(asked.any()) and (targets == batch.tokens[:, 1:])[asked].double().mean().item() > 0.5


def _cue(subject: Subject) -> str:
    """The task marks cue and query positions."""
    conditions = subject.task.conditions()
    first = (condition for condition in conditions if condition.group == conditions[0].group)
    found = any(subject.marked(condition) is not None for condition in first)
    return "" if found else "the task marks no cue and query positions"


def _source(subject: Subject) -> str:
    """The task says for some targets which position holds what is needed there."""
    found = (subject.batch(condition).source for condition in subject.task.conditions())
    if any(source is not None and bool((source >= 0).any()) for source in found):
        return ""
    return "the task does not say which position holds what each target needs"


def _roles(subject: Subject) -> str:
    """The task names token roles and marks them."""
    batch = subject.batch(subject.task.conditions()[0])
    return "" if batch.roles is not None and subject.task.roles else "the task names no token roles"


def _attention(subject: Subject) -> str:
    """The model has attention that can be seen."""
    if isinstance(subject.model, OffersAttention):
        return ""
    tokens = subject.batch(subject.task.conditions()[0]).tokens[:1]
    return (
        ""
        if attention_shape(subject.model, tokens)
        else "no attention: the model never calls scaled_dot_product_attention"
    )


def _state(subject: Subject) -> str:
    """The model has a recurrent state that can be seen."""
    if not recurrent_modules(subject.model):
        return (
            "no state: the model has no nn.RNN, nn.LSTM, nn.GRU or cell of them, and no module that offers its state "
            "(initial_state and step)"
        )
    tokens = subject.batch(subject.task.conditions()[0]).tokens[:1]
    try:
        layers = states_of(subject.model, tokens)
    except RequestError as error:
        return f"no state: {error}"
    if not layers:
        return "no state: no recurrent module of the model ran"
    misfits = [layer.misfit for layer in layers]
    return "" if "" in misfits else f"no state: {misfits[0]}"


def _distances(subject: Subject) -> str:
    """The task has more than one length or distance."""
    return "" if len({c.x for c in subject.task.conditions()}) > 1 else "the task has only one length or distance"


NEEDS: dict[str, Callable[[Subject], str]] = {
    "cue": _cue,
    "source": _source,
    "roles": _roles,
    "attention": _attention,
    "state": _state,
    "distances": _distances,
}
"""By name, a function that says why the need is not met, or "". What it asks for is its docstring."""


def unmet(needs: Iterable[str], subject: Subject) -> str:
    """The reason why the first unmet need is not met, or "".

    Raises:
        PluginError: a probe asks for something that is no need.
    """
    for need in needs:
        if need not in NEEDS:
            raise PluginError(f"the probe needs {need!r}.{did_you_mean(need, NEEDS)} Needs: {', '.join(NEEDS)}.")
        if reason := NEEDS[need](subject):
            return reason
    return ""
