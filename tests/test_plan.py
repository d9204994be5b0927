"""A suite becomes trials and cells with identities that follow everything that decides a result."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from conftest import SHORT

from harness import api
from harness.errors import RequestError
from harness.plan import Plan, make_plan
from harness.registry import default_registry
from harness.suites import Suite, load_suite


def plan(*models: str, tasks: tuple[str, ...] = (SHORT,), training: dict[str, Any] | None = None, **more: Any) -> Plan:
    suite = api.build_suite(models, tasks, more.pop("probes", ("accuracy",)), **more)
    return make_plan(suite, default_registry(), training=training)


def test_everything_is_crossed_with_everything() -> None:
    """Models x tasks x seeds are trials; times probes and their stages, cells."""
    made = plan("lstm", "gpt", tasks=(SHORT, "recall"), probes=("accuracy", "grad_reach"), seeds=2)
    assert len(made.trials) == 2 * 2 * 2
    assert len(made.cells) == 8 * (1 + 2)  # grad_reach looks before and after training
    assert len({cell.id for cell in made.cells}) == len(made.cells)


def test_what_is_asked_for_twice_is_planned_once() -> None:
    """A default that is written out is still the same trial."""
    assert len(plan("lstm", "lstm", "lstm:hidden=64", seeds=1).trials) == 1


def test_identities_are_stable_and_follow_every_argument() -> None:
    """The same request has the same ids; any change of model, task, training or examples has others."""
    base = plan("lstm", seeds=1).cells[0].id
    assert plan("lstm", seeds=1).cells[0].id == base
    others = [
        plan("lstm:hidden=63", seeds=1),
        plan("lstm", tasks=("recall",), seeds=1),
        plan("lstm", training={"lr": 0.1}, seeds=1),
        plan("lstm", examples=64, seeds=1),
        plan("lstm", probes=("grad_reach",), seeds=1),
    ]
    ids = [made.cells[0].id for made in others]
    assert len({base, *ids}) == 6


def test_identities_follow_the_seed_but_trials_share_a_label() -> None:
    """Seeds are different trials of one model."""
    first, second = plan("lstm", seeds=2).trials
    assert first.trial.id != second.trial.id
    assert first.trial.model == second.trial.model


def test_a_changed_plugin_source_is_a_new_trial(plugin_file: Callable[..., str]) -> None:
    """A result is never served for code that has changed since."""
    source = "import torch\nclass M(torch.nn.Module):\n    def __init__(self, vocab_size: int): ...\n    # {}\n"
    one, two = (plugin_file(source.format(text), f"{text}.py") for text in ("first", "second"))
    assert plan(f"{one}:M", seeds=1).trials[0].trial.id != plan(f"{two}:M", seeds=1).trials[0].trial.id


def test_training_settings_have_an_order() -> None:
    """Defaults, then the task's advice, the model's, the suite's, the experiment's and the user's."""
    made = plan("lstm", seeds=1).trials[0].trial.training
    assert (made.optimizer, made.lr, made.steps) == ("adam", 3e-3, 1000)  # recall's, lstm's, recall's
    suite = Suite.model_validate(
        {"training": {"lr": 0.5, "clip": 2}, "experiments": [{"models": ["lstm"], "training": {"lr": 0.25}}]}
    )
    settled = make_plan(suite, default_registry(), training={"warmup": 7}).trials[0].trial.training
    assert (settled.lr, settled.clip, settled.warmup) == (0.25, 2, 7)


def test_epochs_replace_steps_and_back() -> None:
    """Whoever speaks last says how long; nobody has to unset the other one."""
    made = plan("gpt", tasks=("farm_agreement",), seeds=1).trials[0].trial.training
    assert (made.steps, made.epochs) == (None, 5)
    made = plan("gpt", tasks=("farm_agreement",), seeds=1, training={"steps": 3}).trials[0].trial.training
    assert (made.steps, made.epochs) == (3, None)


def test_stages_can_be_chosen() -> None:
    """`--stage initial` leaves nothing that needs training."""
    made = plan("lstm", probes=("grad_reach", "accuracy"), seeds=1, stages=["initial"])
    assert [cell.stage for cell in made.cells] == ["initial"]


@pytest.mark.parametrize(
    ("training", "said"),
    [
        ({"stpes": 3}, "Did you mean 'steps'"),
        ({"lr": -1}, "lr: Input should be greater than 0"),
        ({"steps": 3, "epochs": 2}, "either steps or epochs"),
    ],
)
def test_wrong_training_settings_are_refused(training: dict[str, Any], said: str) -> None:
    """Before anything is trained."""
    with pytest.raises(RequestError, match=said):
        plan("lstm", training=training)


CLAIM = {"text": "c", "metric": "accuracy", "probe": "accuracy", "comparison": ">", "value": 0.5}


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        ({"model": "gru"}, "which the suite does not cross"),
        ({}, "names no model"),
        ({"model": "lstn"}, "Did you mean 'lstm'"),
        ({"model": "lstm", "probe": "grad_reach"}, "which the suite does not cross"),
        ({"model": "lstm", "stage": "initial"}, "never together"),
    ],
)
def test_claims_must_speak_of_what_is_crossed(claim: dict[str, Any], said: str) -> None:
    """A claim that could never be judged is an error of the suite."""
    suite = Suite.model_validate({"experiments": [{"models": ["lstm", "elman"]}], "claims": [CLAIM | claim]})
    with pytest.raises(RequestError, match=said):
        make_plan(suite, default_registry())


def test_suites_from_files(tmp_path: Any) -> None:
    """TOML says the same as the command line; tables say what the short form says."""
    path = tmp_path / "mine.toml"
    path.write_text('seeds = 1\n[[experiments]]\nmodels = ["lstm:hidden=8", {name = "lstm", hidden = 8}]\n')
    suite = load_suite(path)
    assert suite.name == "mine"
    assert len(make_plan(suite, default_registry()).trials) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[experiments]\n", "is not TOML"),
        ("sedes = 3\n[[experiments]]\nmodels = ['lstm']\n", "sedes: unknown key. Did you mean 'seeds'"),
        ("[[experiments]]\nmodels = []\n", "models"),
        ("[[experiments]]\nmodel = ['lstm']\n", "Did you mean 'models'"),
        ("seeds = 2\n", "experiments: missing"),
        ("seeds = 0\n[[experiments]]\nmodels = ['lstm']\n", "seeds"),
    ],
)
def test_a_wrong_suite_is_explained(tmp_path: Any, text: str, said: str) -> None:
    """Where it is wrong, what was received, what would be right."""
    path = tmp_path / "s.toml"
    path.write_text(text)
    with pytest.raises(RequestError, match=said):
        load_suite(path)


def test_built_in_suites_are_valid() -> None:
    """Every suite that is installed can be planned, claims included."""
    for entry in default_registry().all("suite"):
        assert make_plan(api.find_suite(entry.spec.name), default_registry()).cells, entry.spec.name


def test_nothing_to_measure_is_a_wrong_request() -> None:
    """`accuracy` looks at trained models only."""
    with pytest.raises(RequestError, match="nothing to measure"):
        plan("lstm", stages=["initial"])


def test_plans_are_immutable() -> None:
    """What was planned is what runs."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        plan("lstm", seeds=1).suite = None  # type: ignore[misc,assignment]
