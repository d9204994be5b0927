"""From a suite to the trials and cells to run: cross, resolve, validate, identify. No model is built here."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import chain, product
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from harness.baselines import with_baselines
from harness.errors import RequestError, shown
from harness.grids import Default, argument_part, cells, training_part
from harness.matching import matches, means, means_model, trained_so, without, without_baselines
from harness.plugin import Plugin
from harness.registry import Registry
from harness.resolving import AnyPlugin, Resolver
from harness.schema import AMOUNT, Cell, Failure, PluginUse, Training, Trial
from harness.sources import canonical, code_digest, content_hash, read_anew
from harness.suites import Claim, Experiment, Request, Selection, Suite, Ways, as_list
from harness.training_settings import merge_training
from harness.vocabulary import CROSSED, STAGES, Stage
from harness.written import format_arguments

MOST_CELLS = 1_000_000
"""Of one plan: planning so many takes minutes."""


@dataclass(frozen=True)
class Planned:
    """A trial with its cells, or with the reason why a plugin of it cannot be used."""

    trial: Trial
    cells: list[Cell] = field(default_factory=list)
    broken: Failure | None = None
    """Set when model or task does not load: every cell of the trial fails with it."""
    unmeasurable: dict[str, Failure] = field(default_factory=dict)
    """Why cells cannot be measured whose probe does not load, by their ids; other probes look all the same."""
    for_all_seeds: bool = False
    """Whether this one trial stands for all seeds: nothing is trained, and the data is the same for all of them."""
    fits: bool = False
    """Whether the model learns in its own way, so that a grid of learning rates, for example, does not vary it."""


@dataclass(frozen=True)
class Plan:
    """Everything a suite asks for, validated and identified."""

    suite: Suite
    trials: list[Planned]
    hopeless: str = ""
    """What is wrong with the plugins, if not a single cell can run."""
    shard: str = ""
    """Which part of the suite this is, for example `3/16`; "" for all of it."""

    @property
    def cells(self) -> list[Cell]:
        """All cells, in the order of the suite."""
        return [cell for planned in self.trials for cell in planned.cells]


class _Crossed(NamedTuple):
    """What a claim may speak of: a cell, whatever its seed."""

    model: AnyPlugin
    task: AnyPlugin
    probe: AnyPlugin
    stage: Stage
    training: Training


def make_plan(
    suite: Suite,
    registry: Registry,
    *,
    device: str = "cpu",
    training: Ways | None = None,
    stages: Sequence[str] = STAGES,
    deadly: Mapping[tuple[str, str], str] = MappingProxyType({}),
    announce: Callable[..., None] = lambda *asked: None,
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
        announce: hears kind and name of each plugin that is about to be imported or asked, and nothing once it was.

    Raises:
        RequestError: a name, an argument or a training setting is wrong; or a claim speaks of something not crossed.
    """
    if unknown := [stage for stage in stages if stage not in STAGES]:
        raise RequestError(f"there is no stage {shown(unknown[0])}; choose from {', '.join(STAGES)}")
    suite = with_baselines(suite, registry)
    _check_size(suite, training or {})
    read_anew()
    resolver = Resolver(registry, suite, training or {}, deadly, announce)
    trials: dict[str, Planned] = {}
    crossed: list[_Crossed] = []
    for experiment in suite.experiments:
        probes = [resolver("probe", request) for request in experiment.probes]
        for model, task, settings in _ways(suite, experiment, resolver, training or {}):
            looks = [(probe, stage) for probe in probes for stage in _stages(experiment, probe, model)]
            crossed += (_Crossed(model, task, probe, stage, settings) for probe, stage in looks)
            asked = [(probe, stage) for probe, stage in looks if stage in stages]
            once = model.pretrained and task.says.fixed_data
            for seed in range(1 if once else suite.seeds_of(experiment)):
                trial = _trial(model, task, settings, seed, device)
                new = Planned(trial, broken=model.failure or task.failure, for_all_seeds=once, fits=model.says.fits)
                _add_cells(trials.setdefault(trial.id, new), trial, asked, suite.examples)
    if not any(each.stage in stages for each in crossed):
        raise _nothing_to_measure(suite, resolver, crossed, stages)
    _check_claims(suite, resolver, crossed, any_training=bool(training))
    planned = [cell.id for each in trials.values() for cell in each.cells]
    suite = suite.model_copy(update={"defaults": _defaults(suite, crossed), "planned": planned})
    return Plan(suite, [each for each in trials.values() if each.cells], _hopeless(crossed, stages))


def _add_cells(planned: Planned, trial: Trial, asked: Sequence[tuple[AnyPlugin, Stage]], examples: int) -> None:
    """The cells of a trial that it does not have yet, as another experiment may have given them to it."""
    known = {cell.id for cell in planned.cells}
    for probe, stage in asked:
        cell = _cell(trial, probe, stage, examples)
        if cell.id not in known:
            known.add(cell.id)
            planned.cells.append(cell)
            if probe.failure:
                planned.unmeasurable[cell.id] = probe.failure


def _hopeless(crossed: Sequence[_Crossed], stages: Sequence[str]) -> str:
    """What is wrong with the plugins, if not a single cell can run; "" if one can."""
    asked = [(each.model, each.task, each.probe) for each in crossed if each.stage in stages]
    wrong = [[plugin.failure.message for plugin in plugins if plugin.failure] for plugins in asked]
    return "; ".join(dict.fromkeys(chain.from_iterable(wrong))) if all(wrong) else ""


def _nothing_to_measure(
    suite: Suite, resolver: Resolver, crossed: Sequence[_Crossed], stages: Sequence[str]
) -> RequestError:
    """No probe looks at a stage that is asked for: at which each one does."""
    looks: dict[str, dict[str, None]] = {resolver("probe", each).use.called: {} for each in suite.requests("probe")}
    for each in crossed:
        looks[each.probe.use.called][each.stage] = None
    told = (
        f"{probe} looks at " + (f"the stage {' and '.join(map(repr, own))} only" if own else "no stage of those")
        for probe, own in looks.items()
    )
    return RequestError(f"there is nothing to measure: {'; '.join(told)}; asked for: {', '.join(stages) or 'none'}")


def _check_size(suite: Suite, training: Ways) -> None:
    """Refuse what could not even be listed; nothing is resolved for that.

    Raises:
        RequestError: with the number of cells.
    """
    crossed = (
        len(each.models) * len(each.tasks) * len(each.probes) * len(as_list(each.training)) * suite.seeds_of(each)
        for each in suite.experiments
    )
    cells = sum(crossed) * len(as_list(training))
    if cells > MOST_CELLS:
        most = max(map(suite.seeds_of, suite.experiments))
        raise RequestError(
            f"{most:,} seeds make {cells:,} cells or more, and {MOST_CELLS:,} are the most of one run; ask for fewer "
            "seeds (--seeds 3) or fewer models, tasks, probes or ways of training"
        )


def _ways(
    suite: Suite, experiment: Experiment, resolver: Resolver, training: Ways
) -> Iterator[tuple[AnyPlugin, AnyPlugin, Training]]:
    """Every model of an experiment, varied by the grid, on every task, trained in every way."""
    models = [resolver("model", each) for request in experiment.models for each in resolver.varied[str(request)]]
    tasks = [resolver("task", each) for each in experiment.tasks]
    ways = (as_list(experiment.training), cells(training_part(suite.grid)), as_list(training))
    for model, task, own, cell, asked in product(models, tasks, *ways):
        _check_tokenizer(model, task)
        settings = _training(model, task, suite.training, own, cell, asked)
        settings = Training.model_validate({"steps": 0}) if model.pretrained else settings
        with resolver.asking("task", task.use.name):
            _check_epochs(task, settings)
        yield model, task, settings


def _defaults(suite: Suite, crossed: Sequence[_Crossed]) -> list[Default]:
    """What the settings of the grid would be without it, for each model on each task."""
    if not suite.grid:
        return []
    found = {}
    for model, task in {(each.model.key, each.task.key): (each.model, each.task) for each in crossed}.values():
        usual = _training(model, task, suite.training).model_dump(include={*training_part(suite.grid)})
        label = without(model.use, argument_part(suite.grid)).label
        found[label, task.use.label] = Default(model=label, task=task.use.label, training=usual)
    return list(found.values())


def _stages(experiment: Experiment, probe: AnyPlugin, model: AnyPlugin) -> list[Stage]:
    stages = probe.says.stages
    if unknown := [stage for stage in stages if stage not in STAGES]:
        raise RequestError(f"probe {probe.use.name!r} looks at stages {unknown}; there are {', '.join(STAGES)}")
    if model.pretrained:  # it has one stage, whenever a probe looks
        stages = ("trained",) if stages else ()
    return [stage for stage in experiment.stages or STAGES if stage in stages]


def _check_tokenizer(model: AnyPlugin, task: AnyPlugin) -> None:
    """Refuse a model whose tokenizer is missing, if the task needs it."""
    if task.wants_tokenizer and isinstance(model, Plugin):
        try:
            model.check_tokenizer()
        except ValueError as error:
            raise RequestError(f"task {task.use.name!r} reads text, and model {model.use.name!r}: {error}") from None


def _training(model: AnyPlugin, task: AnyPlugin, *asked: dict[str, Any]) -> Training:
    """Later sources win: the defaults, the task's advice, the model's, the suite's, the experiment's, the user's."""
    settings = merge_training(*(each.says.recommended_training for each in (task, model)), *asked)
    return _amount(settings) if model.says.fits else settings


def _amount(training: Training) -> Training:
    """How much training there is, and nothing of gradient steps: two ways of training that differ in these alone are
    one for a model that takes none."""
    return Training.model_validate(training.model_dump(include={*AMOUNT}))


def _check_epochs(task: AnyPlugin, training: Training) -> None:
    """Refuse epochs where the training data has no end. A task that advises epochs itself is taken at its word."""
    advised = task.says.recommended_training.get("epochs")
    if training.epochs is not None and advised is None and task.endless:
        raise RequestError(
            f"training asks for {training.epochs:g} epochs, but the training data of task {task.use.label!r} has no "
            "end; give steps instead, for example --training steps=1000"
        )


def _trial(model: AnyPlugin, task: AnyPlugin, training: Training, seed: int, device: str) -> Trial:
    key = "\n".join((model.key, task.key, _training_key(training), str(seed), device, core_digest()))
    return Trial(
        id=content_hash(key),
        model=model.use,
        task=task.use,
        training=training,
        seed=seed,
        device=device,
        pretrained=model.pretrained,
    )


def _cell(trial: Trial, probe: AnyPlugin, stage: Stage, examples: int) -> Cell:
    key = "\n".join((trial.id, probe.key, stage, str(examples)))
    return Cell(id=content_hash(key), trial=trial, probe=probe.use, stage=stage, examples=examples)


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
        *("batches", "build", "capabilities", "checkpoints", "contracts", "examples", "fingerprints", "fitting"),
        *("generation", "gradients", "inventory", "isolation", "laws", "needs", "offers", "partial", "plugin"),
        *("probing", "runner", "stacks", "statistics", "subject", "timing", "traces", "training", "training_settings"),
        "truncation",
    )
    folders = ("attention", "ledger", "recurrence", "settings")
    in_folders = (path for folder in folders for path in here.glob(f"{folder}/*.py"))
    return sorted([*(here / f"{name}.py" for name in names), *in_folders])


def _check_claims(suite: Suite, resolver: Resolver, crossed: Sequence[_Crossed], *, any_training: bool) -> None:
    """Every selection of a claim must mean something that the suite crosses, or it could never be judged.

    Args:
        suite: with its claims.
        resolver: which knows the plugins.
        crossed: what the suite crosses.
        any_training: whether the user's own settings replace those that claims speak of.
    """
    varied = argument_part(suite.grid)
    for claim in suite.claims:
        for selection in filter(None, (claim, claim.other())):
            found = [
                each
                for each in crossed
                if means(selection, each.model.use, each.task.use, each.probe.use, each.stage, varied)
            ]
            if selection.model is None:
                found = without_baselines(found, lambda each: each.model.use)
            if not found:
                raise _nothing_meant(claim, selection, resolver, crossed, varied)
            for kind in CROSSED:
                several = {getattr(each, kind).key: getattr(each, kind).use for each in found}
                if len(several) > 1 and not (selection.best and kind == "model" and _one_family(suite, several)):
                    raise _several_meant(claim, getattr(selection, kind), kind, list(several.values()))
            if not any_training and not any(trained_so(selection, each.training) for each in found):
                how = f"the claim {claim.text!r} speaks of training {format_arguments(selection.training)}"
                raise RequestError(f"{how}: the suite has no model that is trained like that")


def _one_family(suite: Suite, uses: Mapping[str, PluginUse]) -> bool:
    """Whether models differ in what the grid varies, and in nothing else."""
    return len({without(use, argument_part(suite.grid)).label for use in uses.values()}) == 1


def _nothing_meant(
    claim: Claim, selection: Selection, resolver: Resolver, crossed: Sequence[_Crossed], varied: Collection[str]
) -> RequestError:
    """Of a selection that means nothing of what the suite crosses: which part of it, or that they never meet."""
    asked = {kind: request for kind in CROSSED if (request := getattr(selection, kind)) is not None}
    for kind, request in asked.items():
        uses: list[PluginUse] = [getattr(each, kind).use for each in crossed]
        if not any(means_model(selection, use, varied) if kind == "model" else matches(request, use) for use in uses):
            resolver(kind, request)  # which refuses what there is not at all
            known = ", ".join(sorted({use.called for use in uses}))
            return RequestError(
                f"the claim {claim.text!r} speaks of {kind} {str(request)!r}, which the suite does not cross; it has "
                f"{known}"
            )
    what = ", ".join([*(f"{kind} {request}" for kind, request in asked.items()), f"stage {selection.stage!r}"])
    return RequestError(f"the claim {claim.text!r} speaks of {what}: the suite has them, but never together")


def _several_meant(claim: Claim, request: Request | None, kind: str, uses: list[PluginUse]) -> RequestError:
    if request is None:
        return RequestError(f"the claim {claim.text!r} names no {kind}, and may mean {len(uses)}; add {kind} = ...")
    names = " or ".join(sorted(use.alias or f"{use.distribution or use.target}:{use.label}" for use in uses))
    return RequestError(f"the claim {claim.text!r} speaks of {kind} {str(request)!r}, which may mean {names}")
