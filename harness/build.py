"""A trial's task and model, built from its plugins: for the runner, and for the process that times the model."""

from typing import Any

import torch
from torch import nn

from harness.blame import blame
from harness.contracts import Interface, Skip, Task
from harness.errors import PluginError
from harness.isolation import seed_everything
from harness.registry import Registry
from harness.schema import PluginUse, Trial
from harness.suites import Request
from harness.targets import Target, load_use


def build_task(registry: Registry, trial: Trial) -> Task:
    """The task; one that asks for it gets the model's tokenizer, or None where the model has none.

    Raises:
        PluginError: a plugin raised; it is named.
    """
    target = load_planned(registry, "task", trial.task)
    supplied: dict[str, Any] = {}
    if target.wants("tokenizer"):
        model = load_planned(registry, "model", trial.model)
        with blame(trial.model, "giving its tokenizer"):
            supplied["tokenizer"] = model.says.tokenizer(**trial.model.arguments)
    with blame(trial.task, "being constructed"):
        task = target.build(trial.task.arguments, **supplied)
        if not isinstance(task, Task):
            raise TypeError(f"it gave a {type(task).__name__}; a task subclasses harness.Task")
    return task


def build_model(registry: Registry, trial: Trial, interface: Interface) -> nn.Module:
    """The model as constructed, on the trial's device: the same for the same trial, whatever was drawn before. The
    global random states are seeded for it.

    Raises:
        Skip: the model does not accept what the task gives.
        PluginError: the plugin raised; it is named.
    """
    target = load_planned(registry, "model", trial.model)
    if interface.input not in target.says.accepts:
        raise Skip(f"the task gives {interface.input}, the model accepts {' and '.join(target.says.accepts)}")
    seed_everything("model", trial.seed)
    with blame(trial.model, "being constructed"):
        model = target.build(trial.model.arguments, vocab_size=interface.input_size, interface=interface)
        if not isinstance(model, nn.Module):
            raise TypeError(f"it gave a {type(model).__name__}; a model is a torch.nn.Module")
        return model.to(torch.device(trial.device))


def load_planned(registry: Registry, kind: str, use: PluginUse) -> Target:
    """The plugin's code, if it is still what the plan was made for.

    Raises:
        PluginError: it is not.
    """
    target = load_use(registry, kind, use)
    if target.resolve(Request(name=use.name, arguments=use.arguments)).digest != use.digest:
        raise PluginError(f"{kind} {use.label!r} ({use.target}) has changed since this run was planned; run it again")
    return target
