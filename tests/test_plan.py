"""A suite becomes trials and cells with identities that follow everything that decides a result."""

import dataclasses
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import SHORT

import harness
from harness.errors import RequestError
from harness.plan import Plan, core_digest, deciding_files, make_plan
from harness.registry import default_registry
from harness.requests import build_suite, find_suite
from harness.suite_files import load_suite
from harness.suites import Suite, Ways
from harness.vocabulary import STAGES


def plan(*models: str, tasks: tuple[str, ...] = (SHORT,), training: Ways | None = None, **more: Any) -> Plan:
    stages = more.pop("stages", STAGES)
    suite = build_suite(models, tasks, more.pop("probes", ("accuracy",)), **more)
    return make_plan(suite, default_registry(), training=training, stages=stages)


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


def test_ids_follow_every_core_file_that_decides_numbers() -> None:
    """Whatever computes is part of all identities, unless it is known to leave the numbers alone."""
    core = Path(harness.__file__).parent
    covered = {path.relative_to(core).as_posix() for path in deciding_files()}
    files = {path.relative_to(core).as_posix(): path.read_text(encoding="utf-8") for path in core.rglob("*.py")}
    checks = {name for name in files if name.startswith("testing/")}
    computing = {name for name, text in files.items() if re.search(r"^ *(import|from) torch\b", text, re.M)} - checks
    only_tells = {"devices.py", "executors/processes.py", "preflight.py", "provenance.py", "verifying.py"}
    assert computing - covered == only_tells
    rest = {"capabilities.py", "plugin.py", "probing.py", "statistics.py", "traces.py", "training_settings.py"}
    rest |= {f"settings/{name}.py" for name in ("__init__", "of_python", "of_torch", "setting")}
    fronts = {f"{folder}/__init__.py" for folder in ("attention", "ledger", "recurrence")}
    assert covered - computing == rest | fronts | {"ledger/table.py"}


CORE = '''
"""A module."""

RATE = 0.5
"""How fast."""

def step(x: float) -> float:
    """One step."""
    if x < 0:
        raise ValueError(f"x is {x}; give more")
    return x - RATE  # downhill
'''


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("A module", "A small module", True),
        ("How fast", "Very fast", True),
        ("One step", "A step", True),
        ("; give more", f", which is below 0{' ' * 50}; give {{abs(x)}}", True),
        ('ValueError(f"x is {x}; give more")', 'ValueError(\n            "negative",\n        ) from None', True),
        ("  # downhill", "", True),
        ("RATE = 0.5", "RATE  =  0.50", True),
        ("RATE = 0.5", "RATE = 0.25", False),
        ("x - RATE", "x + RATE", False),
        ("x < 0", "x <= 0", False),
        ("ValueError", "Skip", False),
        ("    return x", "        return x", False),
        ("RATE = 0.5", 'RATE = "0.5"', False),
        ("RATE = 0.5", "RATE = None", False),
        ("x - RATE", "-RATE", False),
    ],
)
def test_ids_follow_what_the_core_does_and_not_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, same: bool
) -> None:
    """A message or docstring that is worded better leaves all results valid; another number or step does not."""
    file = tmp_path / "training.py"
    monkeypatch.setattr("harness.plan.deciding_files", lambda: [file])
    assert CORE.count(old) == 1
    digests = set()
    for text in (CORE, CORE.replace(old, new), CORE):
        file.write_text(text, encoding="utf-8")
        digests.add(core_digest.__wrapped__())
    assert len(digests) == (1 if same else 2)


def test_ids_have_the_digest_of_the_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that results of other code are not taken for those of this one."""
    before = plan("lstm", seeds=1).cells[0].id
    monkeypatch.setattr("harness.plan.core_digest", lambda: "another")
    assert plan("lstm", seeds=1).cells[0].id != before


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


TWO_WAYS = [{"steps": 3, "lr": 1e-3}, {"steps": 3, "lr": 1e-2}]


def test_ways_of_training_are_crossed() -> None:
    """Whether an experiment has several or the user asks for several; the user's settings win over the experiment's."""
    made = plan("lstm", "gpt", seeds=1, training=TWO_WAYS)
    rates = [(planned.trial.model.label, planned.trial.training.lr) for planned in made.trials]
    assert rates == [("lstm", 1e-3), ("lstm", 1e-2), ("gpt", 1e-3), ("gpt", 1e-2)]
    suite = Suite.model_validate({"seeds": 1, "experiments": [{"models": ["lstm"], "training": TWO_WAYS}]})
    assert [planned.trial.training.lr for planned in make_plan(suite, default_registry()).trials] == [1e-3, 1e-2]
    (planned,) = make_plan(suite, default_registry(), training={"lr": 0.5}).trials
    assert (planned.trial.training.lr, planned.trial.training.steps) == (0.5, 3)


def test_a_claim_may_speak_of_one_way_of_training() -> None:
    """And compare two of them; one that is never trained could not be judged."""
    experiment = {"models": ["lstm"], "training": TWO_WAYS}
    right = CLAIM | {"value": None, "training": {"lr": 1e-3}, "than": {"training": {"lr": 0.01}}}
    suite = Suite.model_validate({"experiments": [experiment], "claims": [right]})
    assert make_plan(suite, default_registry()).trials
    wrong = Suite.model_validate({"experiments": [experiment], "claims": [CLAIM | {"training": {"lr": 0.5}}]})
    with pytest.raises(RequestError, match=r"training lr=0\.5: the suite has no model that is trained like that"):
        make_plan(wrong, default_registry())
    assert make_plan(wrong, default_registry(), training={"steps": 1}).trials  # a quick look, like --stage
    with pytest.raises(ValueError, match=r"no training setting 'stpes'\. Did you mean 'steps'"):
        Suite.model_validate({"experiments": [experiment], "claims": [CLAIM | {"training": {"stpes": 5}}]})


PRETRAINED = """
    import torch
    from harness import Scalar, Task

    class M(torch.nn.Module):
        pretrained = staticmethod(lambda **arguments: True)

        def __init__(self, vocab_size: int):
            super().__init__()
            self.write = torch.nn.Embedding(vocab_size, vocab_size)

        def forward(self, tokens):
            return self.write(tokens)

    class File(Task):
        fixed_data = True

        def __init__(self): ...

    def early(subject):
        yield Scalar(name="seen", unit="", value=1.0)
    early.stages = ("initial",)

    def both(subject):
        yield Scalar(name="seen", unit="", value=1.0)
    both.stages = ("initial", "trained")
    """


def test_a_pretrained_model_is_measured_once_by_every_probe(plugin_file: Callable[..., str]) -> None:
    """At its one stage, also by a probe that looks at models as constructed."""
    path = plugin_file(PRETRAINED)
    probes = ("accuracy", f"{path}:early", f"{path}:both")
    made = plan(f"{path}:M", probes=probes, seeds=1)
    assert [cell.stage for cell in made.cells] == ["trained"] * 3
    stages = [cell.stage for cell in plan("lstm", probes=probes, seeds=1).cells]
    assert stages == ["trained", "initial", "initial", "trained"]
    with pytest.raises(RequestError, match="nothing to measure"):
        plan(f"{path}:M", probes=probes, stages=["initial"])


def test_seeds_that_would_all_be_the_same_are_one(plugin_file: Callable[..., str]) -> None:
    """A pretrained model on a file; a model that is trained, or data that is drawn, has a trial for every seed."""
    path = plugin_file(PRETRAINED)
    (planned,) = plan(f"{path}:M", tasks=(f"{path}:File",), seeds=5).trials
    assert (planned.trial.seed, planned.for_all_seeds) == (0, True)
    for model, task in ((f"{path}:M", SHORT), ("lstm", f"{path}:File")):
        assert [each.for_all_seeds for each in plan(model, tasks=(task,), seeds=5).trials] == [False] * 5


def test_planning_builds_no_task_that_advises_epochs(plugin_file: Callable[..., str]) -> None:
    """It may be a large data set, and has a size if its author counts in epochs."""
    source = """
        from harness import Task

        class T(Task):
            recommended_training = {"epochs": 2}

            def __init__(self) -> None:
                raise SystemExit
        """
    assert plan("lstm", tasks=(plugin_file(source) + ":T",), seeds=1).trials


def test_stages_can_be_chosen() -> None:
    """`--stage initial` leaves nothing that needs training."""
    made = plan("lstm", probes=("grad_reach", "accuracy"), seeds=1, stages=["initial"])
    assert [cell.stage for cell in made.cells] == ["initial"]
    with pytest.raises(RequestError, match="there is no stage 'final'; choose from initial, trained"):
        plan("lstm", stages=["final"])


def test_a_suite_with_claims_may_be_run_in_part() -> None:
    """`harness run recall --stage initial` is a quick look; its other claims are kept and stay undecided."""
    suite = find_suite("recall")
    made = make_plan(suite, default_registry(), stages=["initial"])
    assert {cell.stage for cell in made.cells} == {"initial"}
    assert all(planned.cells for planned in made.trials)
    assert made.suite.planned == [cell.id for cell in made.cells]
    assert made.suite.model_copy(update={"planned": []}) == suite


@pytest.mark.parametrize(
    ("training", "said"),
    [
        ({"stpes": 3}, "Did you mean 'steps'"),
        ({"lr": -1}, "lr: should be greater than 0"),
        ({"steps": 3, "epochs": 2}, "either steps or epochs"),
        ({"steps": True}, "steps: should be a number"),
        *(
            ({name: value}, f"{name}: should be (a finite number|greater than)")
            for name in ("lr", "weight_decay", "clip", "epochs")
            for value in (math.inf, math.nan, "inf", "nan")
        ),
        ({"epochs": 2}, "'recall:train_max=5,distances=\\[1,5,10\\]' has no end; give steps instead"),
    ],
)
def test_wrong_training_settings_are_refused(training: dict[str, Any], said: str) -> None:
    """Before anything is trained."""
    with pytest.raises(RequestError, match=said):
        plan("lstm", training=training)


def test_epochs_of_a_finite_task_that_advises_steps(plugin_file: Callable[..., str]) -> None:
    """Only an instance knows its size, and one that cannot be built is the trial's business."""
    source = """
        from harness import Task

        class T(Task):
            def __init__(self, *, size: int = 100) -> None:
                self.examples = size or None
                assert size >= 0, "no such size"
        """
    path = plugin_file(source)
    assert plan("lstm", tasks=(f"{path}:T",), training={"epochs": 2}, seeds=1).trials[0].trial.training.epochs == 2
    assert plan("lstm", tasks=(f"{path}:T:size=-1",), training={"epochs": 2}, seeds=1).trials
    with pytest.raises(RequestError, match="has no end"):
        plan("lstm", tasks=(f"{path}:T:size=0",), training={"epochs": 2})


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


def test_an_alias_is_no_part_of_an_identity() -> None:
    """Nor does a second request for the same, without the alias, become a second trial or a second name."""
    first, second = plan("lstm:hidden=4", seeds=1), plan("small=lstm:hidden=4", "lstm:hidden=4", "small", seeds=1)
    assert [cell.id for cell in first.cells] == [cell.id for cell in second.cells]
    assert [planned.trial.model.called for planned in second.trials] == ["small"]


@pytest.mark.parametrize(
    ("models", "said"),
    [
        (
            ["small=lstm", "small=gpt"],
            "'small' is the alias of two models, lstm and gpt; choose another",
        ),
        (["small=lstm", "tiny=lstm:hidden=64"], "model 'lstm' has two aliases, small and tiny; keep one"),
        (["gpt=lstm"], "'gpt' is the name of a model; choose another alias for lstm"),
        (["small=lstn"], "no model 'lstn'. Did you mean 'lstm'"),
        (["small"], "there is no model 'small'"),
    ],
)
def test_an_alias_means_one_thing(models: list[str], said: str) -> None:
    """Whoever reads the report knows which one."""
    with pytest.raises(RequestError, match=said):
        plan(*models)


def test_claims_may_name_an_alias() -> None:
    """As long as the suite has it."""
    experiment = {"models": [{"name": "lstm", "hidden": 4, "alias": "small"}, "gpt"]}
    suite = Suite.model_validate({"experiments": [experiment], "claims": [CLAIM | {"model": "small"}]})
    assert make_plan(suite, default_registry()).trials
    suite = Suite.model_validate({"experiments": [experiment], "claims": [CLAIM | {"model": "elman"}]})
    with pytest.raises(RequestError, match="'elman', which the suite does not cross; it has gpt, small"):
        make_plan(suite, default_registry())


def test_suites_from_files(tmp_path: Any) -> None:
    """TOML says the same as the command line; tables say what the short form says."""
    path = tmp_path / "mine.toml"
    path.write_text(
        'seeds = 1\n[[experiments]]\nmodels = ["lstm:hidden=8", {name = "lstm", hidden = 8}]\n', encoding="utf-8"
    )
    suite = load_suite(path)
    assert suite.name == "mine"
    assert len(make_plan(suite, default_registry()).trials) == 1


NO_FOLDERS = ("", ".", "..", "a/b", ".hidden", "-x", "x" * 101)
CLAIMED = """
[[experiments]]
models = ['lstm']
[[claims]]
text = 'it works'
metric = 'accuracy'
probe = 'accuracy'
comparison = '>'
value = 0.5
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[experiments]\n", "is not TOML"),
        ("sedes = 3\n[[experiments]]\nmodels = ['lstm']\n", "sedes: unknown key. Did you mean 'seeds'"),
        ("[[experiments]]\nmodels = []\n", "models"),
        ("[[experiments]]\nmodel = ['lstm']\n", "Did you mean 'models'"),
        ("seeds = 2\n", "experiments: missing"),
        ("seeds = 0\n[[experiments]]\nmodels = ['lstm']\n", "seeds"),
        ("seeds = true\n[[experiments]]\nmodels = ['lstm']\n", "seeds: should be a number"),
        ("experiments = 3\n", r"experiments: write each as a table under \[\[experiments\]\]"),
        ("[[experiments]]\nmodels = [3]\n", "experiment 1, model 1: name a plugin: .*received 3"),
        (
            "[[experiments]]\nmodels = ['lstm']\ntraining = 3\n",
            "training: a table .*; or: a list of such tables",
        ),
        ("[[experiments]]\nmodels = ['lstm']\ntraining = []\n", "experiment 1, training: .*; or: .*give at least one"),
        *((f"name = '{name}'\n[[experiments]]\nmodels = ['lstm']\n", "becomes a folder") for name in NO_FOLDERS),
        (CLAIMED + "at = {a = 1}\n", "claim 1, at: should be a valid number .*; or: .* valid string"),
        (CLAIMED + "at = []\n", r"`at` = \[\] is no place.* \(in the claim 'it works'\)"),
    ],
)
def test_a_wrong_suite_is_explained(tmp_path: Any, text: str, said: str) -> None:
    """Where it is wrong, what was received, what would be right."""
    path = tmp_path / "s.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(RequestError, match=said) as caught:
        load_suite(path)
    assert len(str(caught.value).splitlines()) <= 3


def test_a_suite_with_many_faults_is_explained_on_one_screen(tmp_path: Any) -> None:
    """The first ten, and how many there are."""
    path = tmp_path / "s.toml"
    path.write_text("[[experiments]]\nmodels = ['lstm']\n" + 30 * "[[claims]]\ntext = 'it works'\n", encoding="utf-8")
    with pytest.raises(RequestError, match="and 50 more") as caught:
        load_suite(path)
    assert len(str(caught.value).splitlines()) == 12


def test_a_file_may_have_any_name_if_the_suite_has_one(tmp_path: Any) -> None:
    """And the message says so."""
    path = tmp_path / "my suite.toml"
    path.write_text("[[experiments]]\nmodels = ['lstm']\n", encoding="utf-8")
    with pytest.raises(RequestError, match=r"becomes a folder.*received 'my suite'"):
        load_suite(path)
    path.write_text("name = 'mine'\n" + path.read_text(encoding="utf-8"), encoding="utf-8")
    assert load_suite(path).name == "mine"


def test_built_in_suites_are_valid() -> None:
    """Every suite that is installed can be planned, claims included."""
    for entry in default_registry().all("suite"):
        assert make_plan(find_suite(entry.spec.name), default_registry()).cells, entry.spec.name


def test_nothing_to_measure_is_a_wrong_request() -> None:
    """`accuracy` looks at trained models only."""
    with pytest.raises(RequestError, match="nothing to measure"):
        plan("lstm", stages=["initial"])


def test_plans_are_immutable() -> None:
    """What was planned is what runs."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        plan("lstm", seeds=1).suite = None  # type: ignore[misc,assignment]
