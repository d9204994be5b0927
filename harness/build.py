"""Plugins in use become a task and a model: of a trial, in its timing process, and in conformance checks."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import nn

from harness.batches import Interface
from harness.blame import blame
from harness.capabilities import Capabilities
from harness.contracts import Skip, Task
from harness.isolation import seed_everything
from harness.plugin import Plugin, planned
from harness.registry import Registry
from harness.schema import PluginUse, Training, Trial
from harness.training_settings import merge_training


class WrongKindError(TypeError):
    """What a plugin gave is not what its kind says."""


def build_task(plugin: Plugin, tokenizer: Any = None) -> Task:
    """The task.

    Args:
        plugin: the task's.
        tokenizer: the model's, for a task that asks for it; None where the model has none.

    Raises:
        WrongKindError: it is no task.
        Exception: whatever the plugin raises.
    """
    task = plugin.construct(tokenizer=tokenizer)
    if not isinstance(task, Task):
        raise WrongKindError(f"it gave a {type(task).__name__}; a task subclasses harness.Task")
    return task


def build_model(plugin: Plugin, interface: Interface, *, seed: int, device: str = "cpu") -> nn.Module:
    """The model as constructed: the same for the same seed, whatever was drawn before. The global random states are
    seeded for it.

    Args:
        plugin: the model's.
        interface: what the task gives and asks for.
        seed: of its initial weights.
        device: where it goes.

    Raises:
        Skip: the model does not accept what the task gives, or reads a source where the task has none.
        WrongKindError: it is no `torch.nn.Module`.
        Exception: whatever the plugin raises.
    """
    if interface.input not in plugin.says.accepts:
        raise Skip(f"the task gives {interface.input}, the model accepts {' and '.join(plugin.says.accepts)}")
    no_source = Skip('the model reads a source and then a target (sees = "source"), and the task separates none')
    if plugin.says.sees == "source" and interface.separator is None:
        raise no_source
    seed_everything("model", seed)
    model = plugin.construct(vocab_size=interface.input_size, interface=interface)
    if not isinstance(model, nn.Module):
        raise WrongKindError(f"it gave a {type(model).__name__}, which is no torch.nn.Module")
    if Capabilities(model).sees == "source" and interface.separator is None:
        raise no_source
    return model.to(torch.device(device))


@dataclass(frozen=True)
class TrialPlugins:
    """The plugins of one trial. Each is loaded once, and held against the plan; errors of building it name it."""

    registry: Registry
    trial: Trial
    _probes: list[tuple[PluginUse, Plugin]] = field(default_factory=list)

    @cached_property
    def task(self) -> Plugin:
        """The task's plugin."""
        return planned(self.registry, "task", self.trial.task)

    @cached_property
    def model(self) -> Plugin:
        """The model's plugin."""
        return planned(self.registry, "model", self.trial.model)

    def probe(self, use: PluginUse) -> Plugin:
        """The plugin of a probe that looks at the trial."""
        found = next((plugin for known, plugin in self._probes if known == use), None)
        if found is None:
            found = planned(self.registry, "probe", use)
            self._probes.append((use, found))
        return found

    @property
    def recommended_training(self) -> Training:
        """What the task and the model recommend."""
        return merge_training(*(each.says.recommended_training for each in (self.task, self.model)))

    def build_task(self) -> Task:
        """The task; one that asks for it gets the model's tokenizer.

        Raises:
            PluginError: a plugin raised; it is named.
        """
        tokenizer = None
        if self.task.wants_tokenizer:
            model = self.model
            with blame(self.trial.model, "giving its tokenizer"):
                tokenizer = model.tokenizer()
        with blame(self.trial.task, "being constructed"):
            return build_task(self.task, tokenizer)

    def build_model(self, interface: Interface, seed: int | None = None) -> nn.Module:
        """The model as constructed, on the trial's device, for the trial's seed or another one.

        Raises:
            Skip: the model does not accept what the task gives.
            PluginError: the plugin raised; it is named.
        """
        model, seed = self.model, self.trial.seed if seed is None else seed
        with blame(self.trial.model, "being constructed"):
            return build_model(model, interface, seed=seed, device=self.trial.device)
