"""From a suite to the trials and cells to run: cross, resolve, validate, identify. No model is built here."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from pydantic import ValidationError

from harness.capabilities import Capabilities
from harness.errors import PluginError, RequestError, did_you_mean
from harness.registry import Registry, plugin_error
from harness.schema import Cell, Failure, PluginUse, Training, Trial
from harness.sources import code_digest, read_anew
from harness.suites import Claim, Experiment, Request, Suite, Ways, explain, format_arguments
from harness.targets import PLAIN_DATA, Target, canonical, content_hash, find, load
from harness.vocabulary import STAGES

MOST_CELLS = 1_000_000
"""Of one plan: planning so many takes minutes."""


@dataclass(frozen=True)
class Planned:
    """A trial with its cells, or with the reason why a plugin of it cannot be used."""

    trial: Trial
    cells: list[Cell] = field(default_factory=list)
    broken: Failure | None = None
    """Set when one of the plugins does not load: every cell of the trial fails with it."""
    same: bool = False
    """Whether this one trial stands for all seeds: nothing is trained, and the data is the same for all of them."""


@dataclass(frozen=True)
class Plan:
    """Everything a suite asks for, validated and identified."""

    suite: Suite
    trials: list[Planned]
    hopeless: str = ""
    """What is wrong with the plugins, if not a single cell can run."""

    @property
    def cells(self) -> list[Cell]:
        """All cells, in the order of the suite."""
        return [cell for planned in self.trials for cell in planned.cells]


@dataclass(frozen=True)
class _Resolved:
    use: PluginUse
    target: Target | None
    broken: Failure | None = None

    @cached_property
    def key(self) -> str:
        """Equal exactly if the same code with the same arguments was asked for, wherever its file is."""
        use = self.use.model_dump(mode="json", exclude={"label", "alias"})
        if self.use.file and self.use.digest:
            del use["name"]
            use["target"] = f"{self.use.file.name}:{self.use.target.rpartition(':')[2]}"
        return canonical(use)

    @cached_property
    def pretrained(self) -> bool:
        """Whether it is a model that comes with its weights."""
        return self.says.pretrained(**self.use.arguments)

    @cached_property
    def endless(self) -> bool:
        """Whether it is a task without a size. Only an instance knows; one that cannot be built fails in its trial."""
        if self.target is None or self.target.wants("tokenizer"):
            return False
        try:
            return self.target.build(self.use.arguments).examples is None
        except Exception:
            return False

    @property
    def says(self) -> Capabilities:
        """What the code says of itself; the defaults where it does not load."""
        return self.target.says if self.target else Capabilities(None)


class _Labels(NamedTuple):
    """What a cell is called, whatever its seed."""

    model: str
    task: str
    probe: str
    stage: str


def make_plan(
    suite: Suite,
    registry: Registry,
    *,
    device: str = "cpu",
    training: Ways | None = None,
    stages: Sequence[str] = STAGES,
    deadly: Mapping[tuple[str, str], str] = MappingProxyType({}),
    tell: Callable[[str, str], None] = lambda kind, name: None,
) -> Plan:
    """Cross a suite into trials and cells.

    Args:
        suite: what to cross.
        registry: where the plugins are.
        device: `cpu` or `cuda`.
        training: settings that win over every other source (`--training`), or a list of such ways of training, which
            is crossed with everything else.
        stages: only these; claims may speak of the others.
        deadly: kind and name of plugins that must not be imported, and why: they are broken.
        tell: hears kind and name of each plugin that is about to be imported.

    Raises:
        RequestError: a name, an argument or a training setting is wrong; or a claim speaks of something not crossed.
    """
    if unknown := [stage for stage in stages if stage not in STAGES]:
        raise RequestError(f"there is no stage {unknown[0]!r}; choose from {', '.join(STAGES)}")
    _check_size(suite, training or {})
    read_anew()
    resolver = _Resolver(registry, suite, deadly, tell)
    looks: dict[str, set[str]] = {}
    broken: dict[str, None] = {}
    able = False
    planned: dict[str, Planned] = {}
    cells: dict[str, set[str]] = {}
    crossed: dict[_Labels, set[Training]] = {}
    for experiment in suite.experiments:
        probes = [resolver("probe", request) for request in experiment.probes]
        for model, task, settings in _ways(suite, experiment, resolver, training or {}):
            same = model.pretrained and task.says.fixed_data
            for seed in range(1 if same else suite.seeds):
                trial = _trial(model, task, settings, seed, device)
                entry = planned.setdefault(trial.id, Planned(trial, broken=model.broken or task.broken, same=same))
                known = cells.setdefault(trial.id, set())
                for probe in probes:
                    measured = _stages(experiment, probe, model)
                    looks.setdefault(probe.use.called, set()).update(measured)
                    for stage in measured:
                        cell = _cell(trial, probe, stage, suite.examples)
                        labels = _Labels(model.use.label, task.use.label, probe.use.label, stage)
                        crossed.setdefault(labels, set()).update(() if training else (settings,))
                        if stage in stages and cell.id not in known:
                            known.add(cell.id)
                            entry.cells.append(cell)
                            wrong = [each.broken.message for each in (model, task, probe) if each.broken]
                            broken |= dict.fromkeys(wrong)
                            able = able or not wrong
    if not any(cells.values()):
        asked = f"; asked for: {', '.join(stages) or 'none'}"
        raise RequestError("there is nothing to measure: " + "; ".join(map(_looks, looks, looks.values())) + asked)
    if suite.claims:
        _check_claims(suite, resolver, crossed)
    return Plan(suite, [each for each in planned.values() if each.cells], "" if able else "; ".join(broken))


def _check_size(suite: Suite, training: Ways) -> None:
    """Refuse what could not even be listed; nothing is resolved for that.

    Raises:
        RequestError: with the number of cells.
    """
    crossed = (
        len(each.models) * len(each.tasks) * len(each.probes) * len(_listed(each.training))
        for each in suite.experiments
    )
    cells = sum(crossed) * len(_listed(training)) * suite.seeds
    if cells > MOST_CELLS:
        raise RequestError(
            f"{suite.seeds:,} seeds make {cells:,} cells or more, and {MOST_CELLS:,} are the most of one run; ask for "
            "fewer seeds (--seeds 3) or fewer models, tasks, probes or ways of training"
        )


def _looks(probe: str, stages: Collection[str]) -> str:
    which = f"looks at the stage {' and '.join(map(repr, stages))} only" if stages else "looks at no stage of those"
    return f"{probe} {which}"


def _ways(
    suite: Suite, experiment: Experiment, resolver: "_Resolver", training: Ways
) -> Iterator[tuple[_Resolved, _Resolved, Training]]:
    """Every model of an experiment on every task, trained in every way."""
    models, tasks = ([resolver(kind, each) for each in getattr(experiment, f"{kind}s")] for kind in ("model", "task"))
    for model, task, own, asked in product(models, tasks, _listed(experiment.training), _listed(training)):
        _check_tokenizer(model, task)
        settings = _training(model, task, suite.training, own, asked)
        settings = Training.model_validate({"steps": 0}) if model.pretrained else settings
        _check_epochs(task, settings)
        yield model, task, settings


def _listed(training: Ways) -> Sequence[dict[str, Any]]:
    return [training] if isinstance(training, dict) else training


class _Resolver:
    """Resolves each request once, however often it is crossed; an alias stands for the request that has it.

    Raises:
        RequestError: an alias is that of two requests, or the name of a plugin; or a request has two.
    """

    def __init__(
        self,
        registry: Registry,
        suite: Suite,
        deadly: Mapping[tuple[str, str], str],
        tell: Callable[[str, str], None],
    ) -> None:
        self.registry = registry
        self.deadly = deadly
        self.tell = tell
        self.known: dict[tuple[str, str], _Resolved] = {}
        self.aliases: dict[tuple[str, str], Request] = {}
        """By kind and alias."""
        self.called: dict[tuple[str, str], str] = {}
        """Aliases by kind and key: a request that is written differently, or without its alias, is called the same."""
        for kind in ("model", "task", "probe"):
            names = {entry.spec.name for entry in registry.all(kind)}
            for request in suite.requests(kind):
                if request.alias in names:
                    name = request.alias
                    raise RequestError(f"{name!r} is the name of a {kind}; choose another alias for {request.bare}")
                if request.alias:
                    self._learn(kind, request)

    def _learn(self, kind: str, request: Request) -> None:
        resolved = self(kind, request)
        other = self(kind, self.aliases.setdefault((kind, request.alias), request))
        if other.key != resolved.key:
            both = f"{other.use.label} and {resolved.use.label}"
            raise RequestError(f"{request.alias!r} is the alias of two {kind}s, {both}; choose another for one of them")
        if (alias := self.called.setdefault((kind, resolved.key), request.alias)) != request.alias:
            both = f"{alias} and {request.alias}"
            raise RequestError(f"{kind} {resolved.use.label!r} has two aliases, {both}; keep one")

    def __call__(self, kind: str, request: Request) -> _Resolved:
        if not request.arguments:
            request = self.aliases.get((kind, request.name), request)
        place = (kind, str(request.bare))
        resolved = self.known.get(place) or self._resolve(kind, request.bare)
        alias = self.called.get((kind, resolved.key), "")
        if resolved.use.alias != alias:
            resolved = replace(resolved, use=resolved.use.model_copy(update={"alias": alias}))
        self.known[place] = resolved
        return resolved

    def _resolve(self, kind: str, request: Request) -> _Resolved:
        entry = find(self.registry, kind, request.name)
        try:
            if reason := self.deadly.get((kind, request.name)):
                raise PluginError(reason)
            self.tell(kind, request.name)
            target = load(entry)
            resolved = _Resolved(target.resolve(request), target)
            _ = resolved.pretrained  # asked here, so that a plugin's error is its own
            return resolved
        except RequestError:
            raise
        except Exception as cause:
            ours = isinstance(cause, PluginError)
            error = cause if ours else plugin_error(entry, "reading its arguments", cause, PLAIN_DATA)
            use = PluginUse(
                name=entry.spec.name,
                label=str(request),
                arguments=request.arguments,
                distribution=entry.origin.distribution,
                version=entry.origin.version,
                target=entry.spec.target,
                digest="",
            )
            return _Resolved(use, None, Failure(type="PluginError", message=str(error)))


def _stages(experiment: Experiment, probe: _Resolved, model: _Resolved) -> list[str]:
    stages = probe.says.stages
    if unknown := [stage for stage in stages if stage not in STAGES]:
        raise RequestError(f"probe {probe.use.name!r} looks at stages {unknown}; there are {', '.join(STAGES)}")
    if model.pretrained:  # it has one stage, whenever a probe looks
        stages = ("trained",) if stages else ()
    return [stage for stage in stages if stage in (experiment.stages or STAGES)]


def _check_tokenizer(model: _Resolved, task: _Resolved) -> None:
    """Refuse a model whose tokenizer is missing, if the task needs it."""
    if task.target and task.target.wants("tokenizer"):
        try:
            model.says.check_tokenizer(**model.use.arguments)
        except ValueError as error:
            raise RequestError(f"task {task.use.name!r} reads text, and model {model.use.name!r}: {error}") from None


def _training(model: _Resolved, task: _Resolved, *asked: dict[str, Any]) -> Training:
    """Later sources win: the defaults, the task's advice, the model's, the suite's, the experiment's, the user's."""
    return merged_training(*(each.says.recommended_training for each in (task, model)), *asked)


def merged_training(*layers: Mapping[str, Any]) -> Training:
    """The defaults with what each layer sets; later ones win.

    Raises:
        RequestError: there is no such setting, or its value does not fit.
    """
    merged: dict[str, Any] = {}
    for layer in layers:
        for name in layer:
            if name not in Training.model_fields:
                known = Training.model_fields
                guess = did_you_mean(name, known)
                raise RequestError(f"there is no training setting {name!r}.{guess} Settings: {', '.join(known)}.")
        values = {name: None if value == "none" else value for name, value in layer.items()}
        if values.get("steps") is not None and "epochs" not in values:
            values["epochs"] = None
        if values.get("epochs") is not None and "steps" not in values:
            values["steps"] = None
        merged |= values
    try:
        return Training.model_validate(merged)
    except ValidationError as error:
        raise RequestError(f"the training settings are wrong:\n{explain(error, Training)}") from None


def _check_epochs(task: _Resolved, training: Training) -> None:
    """Refuse epochs where the training data has no end. A task that advises epochs itself is taken at its word."""
    advised = task.says.recommended_training.get("epochs")
    if training.epochs is not None and advised is None and task.endless:
        raise RequestError(
            f"training asks for {training.epochs:g} epochs, but the training data of task {task.use.label!r} has no "
            "end; give steps instead, for example --training steps=1000"
        )


def _trial(model: _Resolved, task: _Resolved, training: Training, seed: int, device: str) -> Trial:
    key = "\n".join((model.key, task.key, _training_key(training), str(seed), device, core_digest()))
    return Trial.model_construct(
        id=content_hash(key),
        model=model.use,
        task=task.use,
        training=training,
        seed=seed,
        device=device,
        pretrained=model.pretrained,
    )


def _cell(trial: Trial, probe: _Resolved, stage: str, examples: int) -> Cell:
    key = "\n".join((trial.id, probe.key, stage, str(examples)))
    return Cell.model_construct(id=content_hash(key), trial=trial, probe=probe.use, stage=stage, examples=examples)


@cache
def _training_key(training: Training) -> str:
    return canonical(training.model_dump(mode="json"))


@cache
def core_digest() -> str:
    """Digest of the harness's own code that decides what is measured. Neither its version counts nor the wording of
    messages and docstrings, so that results are kept unless numbers may have changed. It is taken from the code itself,
    and not declared, so that nobody can forget it; what is rewritten without another result is measured again."""
    return code_digest(deciding_files())


def deciding_files() -> list[Path]:
    """The harness's own files that decide what is measured, in a fixed order."""
    here = Path(__file__).parent
    names = (
        *("build", "contracts", "examples", "gradients", "isolation", "needs", "probing", "runner"),
        *("statistics", "subject", "timing", "training"),
    )
    return sorted([*(here / f"{name}.py" for name in names), *here.glob("attention/*.py")])


def _check_claims(suite: Suite, resolver: _Resolver, crossed: dict[_Labels, set[Training]]) -> None:
    """Every selection of a claim must match something that the suite crosses, or it could never be judged.

    Args:
        suite: with its claims.
        resolver: which knows the plugins.
        crossed: what the suite crosses, with its ways of training, or none where the user's own rule them out.
    """

    def label(kind: str, request: Request | None, claim: Claim) -> str:
        known: list[str] = sorted({getattr(labels, kind) for labels in crossed})
        if request is not None:
            wanted = resolver(kind, request).use.label
            if wanted not in known:
                names = {each.use.label: each.use.called for each in resolver.known.values()}
                raise RequestError(
                    f"the claim {claim.text!r} speaks of {kind} {str(request)!r}, which the suite does not cross; it "
                    f"has {', '.join(names[label] for label in known)}"
                )
            return wanted
        if len(known) > 1:
            several = f"the suite crosses {len(known)}"
            raise RequestError(f"the claim {claim.text!r} names no {kind}, and {several}; add {kind} = ...")
        return known[0]

    for claim in suite.claims:
        for selection in filter(None, (claim, claim.other())):
            wanted = _Labels(
                label("model", selection.model, claim),
                label("task", selection.task, claim),
                label("probe", selection.probe, claim),
                selection.stage,
            )
            if wanted not in crossed:
                what = f"{wanted.model} on {wanted.task}, measured by {wanted.probe} at stage {wanted.stage!r}"
                raise RequestError(f"the claim {claim.text!r} speaks of {what}: the suite has them, but never together")
            if crossed[wanted] and not any(map(selection.trained_so, crossed[wanted])):
                how = f"the claim {claim.text!r} speaks of training {format_arguments(selection.training)}"
                raise RequestError(f"{how}: the suite has no model that is trained like that")
