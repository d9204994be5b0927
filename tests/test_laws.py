"""Every law catches what breaks it, and holds of what does not."""

import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from harness_plugins.models import gpt as gpt_module
from harness_plugins.models.attention_forms import AttentionForms
from harness_plugins.models.elman import Elman
from harness_plugins.models.gpt import GPT
from harness_plugins.models.gru import GRU
from harness_plugins.models.hand_set import Contraction
from harness_plugins.models.lstm import LSTM
from harness_plugins.probes.laws.attention import AttentionLaws
from harness_plugins.probes.laws.counts import CountLaws
from harness_plugins.probes.laws.languages import LanguageLaws
from harness_plugins.probes.laws.norms import NormLaws
from harness_plugins.probes.laws.positions import PositionLaws
from harness_plugins.probes.laws.recurrence import RecurrenceLaws
from harness_plugins.probes.laws.softmax import SoftmaxLaws
from harness_plugins.tasks.both_seen import BothSeen
from harness_plugins.tasks.copying import Copy
from harness_plugins.tasks.farm_agreement import FarmAgreement
from harness_plugins.tasks.farm_grammar import Grammar
from harness_plugins.tasks.noise import Noise
from harness_plugins.tasks.recall import Recall
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pad_packed_sequence

import harness
from harness import Subject, Task
from harness.laws import Case, Judged, Laws, judge, name_of, sentence_of

WORDS = 18
ALL = (AttentionLaws, SoftmaxLaws, PositionLaws, NormLaws, RecurrenceLaws, LanguageLaws, CountLaws)


class Bare(nn.Module):
    """An attention without weights, by a function."""

    def __init__(self, attend: Callable[[Tensor], Tensor], sees: str = "past") -> None:
        super().__init__()
        self.attend = attend
        self.sees = sees

    def forward(self, vectors: Tensor) -> Tensor:
        return self.attend(vectors)


def scores(x: Tensor, scale: float | None = None) -> Tensor:
    return x @ x.mT * (x.shape[-1] ** -0.5 if scale is None else scale)


def masked(s: Tensor) -> Tensor:
    return s.masked_fill(torch.ones_like(s, dtype=torch.bool).triu(1), -math.inf)


def distance(s: Tensor) -> Tensor:
    at = torch.arange(s.shape[-1], dtype=s.dtype)
    return (at[:, None] - at).abs()


def unstable(s: Tensor) -> Tensor:
    return s.exp() / s.exp().sum(-1, keepdim=True)


def with_one_more(s: Tensor) -> Tensor:
    """The softmax with 1 added to its sum."""
    return s.exp() / (1 + s.exp().sum(-1, keepdim=True))


def squares(s: Tensor) -> Tensor:
    known = s.masked_fill(s == -math.inf, 0.0).square()
    return known / known.sum(-1, keepdim=True)


def kernel(x: Tensor, dropout: float = 0.0) -> Tensor:
    heads = x[:, None]
    return F.scaled_dot_product_attention(heads, heads, heads, is_causal=True, dropout_p=dropout)[:, 0]


def honest(x: Tensor) -> Tensor:
    return masked(scores(x)).softmax(-1) @ x


ATTENTION: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "no sqrt(d)": (
        lambda x: masked(scores(x, 1.0)).softmax(-1) @ x,
        "equals_its_formula scores_are_scaled example_by_hand small_scores large_scores jacobian_has_its_norm",
    ),
    "softmax over queries": (
        lambda x: (
            scores(x).mT.masked_fill(torch.ones(x.shape[1], x.shape[1]).tril(-1) > 0, -math.inf).softmax(-1).mT @ x
        ),
        "equals_its_formula weights_sum_to_one zero_query_averages",
    ),
    "mask after the softmax": (
        lambda x: scores(x).softmax(-1).tril() @ x,
        "equals_its_formula weights_sum_to_one future_is_unseen prefixes_agree",
    ),
    "mask by multiplication": (lambda x: scores(x).tril().softmax(-1) @ x, "future_has_no_weight future_is_unseen"),
    "no mask": (lambda x: scores(x).softmax(-1) @ x, "future_has_no_weight future_is_unseen prefixes_agree"),
    "values one place off": (
        lambda x: masked(scores(x)).softmax(-1) @ x.roll(1, 1),
        "equals_its_formula value_moves_output_by_its_weight example_by_hand",
    ),
    "own token left out": (
        lambda x: (
            masked(scores(x) - 30 * torch.eye(x.shape[1])).softmax(-1) @ x  # where there is another
        ),
        "equals_its_formula zero_query_averages random_vectors_find_themselves",
    ),
    "near keys preferred": (
        lambda x: masked(scores(x) - distance(scores(x))).softmax(-1) @ x,
        "order_of_keys_is_unseen zero_query_averages equals_its_formula",
    ),
    "averages over the batch": (lambda x: honest(x - x.mean(0)), "examples_do_not_mix"),
    "divided by the length": (lambda x: honest(x) / x.shape[1], "prefixes_agree"),
    "scores without gradient": (lambda x: masked(scores(x)).softmax(-1).detach() @ x, "gradient_is_the_slope"),
    "a way around the attention": (lambda x: kernel(x) + x.cumsum(1), "cut_leaks_nothing"),
    "divided by its own size": (
        lambda x: kernel(x) / kernel(x).norm(dim=-1, keepdim=True),
        "query_without_keys_is_finite",
    ),
    "dropout left on": (lambda x: kernel(x, 0.5), "fused_equals_open"),
    "base 2": (
        lambda x: masked(scores(x) * math.log(2)).softmax(-1) @ x,
        "small_scores large_scores ratio_is_exponential hard_at_low_temperature one_above_equals "
        "largest_weight_nears_one jacobian_has_its_norm",
    ),
    "largest score not taken off": (lambda x: unstable(masked(scores(x))) @ x, "huge_scores_stay_finite"),
    "one more in the sum": (lambda x: with_one_more(masked(scores(x))) @ x, "last_query_sums_to_one small_scores"),
    "squares for exponentials": (lambda x: squares(masked(scores(x))) @ x, "common_shift_is_unseen"),
}


def subject(model: nn.Module, task: Task | None = None) -> Subject:
    return Subject(model.eval(), task or Recall(), stage="initial", seed=0, device=torch.device("cpu"), examples=4)


def put(probe: type[Laws], law: str, about: Subject, expected: Mapping[str, Any] | None = None) -> Judged:
    """One law, put to one model."""
    (found,) = [each for each in probe.laws if getattr(each, "__name__", "") == law]
    judged = judge(found, Case(about, expected or {}))
    assert judged.answer is not None, judged.reason
    return judged


def broken_pairs() -> Iterator[tuple[type[Laws], str, str]]:
    for mutant, (_, laws) in ATTENTION.items():
        for law in laws.split():
            for probe in (AttentionLaws, SoftmaxLaws):
                if any(getattr(each, "__name__", "") == law for each in probe.laws):
                    yield probe, law, mutant


@pytest.mark.parametrize(("probe", "law", "mutant"), [*broken_pairs()])
def test_wrong_attention_is_caught(probe: type[Laws], law: str, mutant: str) -> None:
    assert put(probe, law, subject(Bare(ATTENTION[mutant][0]), Noise())).broken


def test_attention_that_depends_on_place_does_not_permute() -> None:
    def near(x: Tensor) -> Tensor:
        at = torch.arange(x.shape[1], dtype=x.dtype)
        return (scores(x) + at).softmax(-1) @ x

    law = "permutes_with_its_input"
    assert put(AttentionLaws, law, subject(Bare(near, sees="all"), Noise())).broken
    assert not put(AttentionLaws, law, subject(Bare(lambda x: scores(x).softmax(-1) @ x, sees="all"), Noise())).broken


@pytest.mark.parametrize("probe", [AttentionLaws(), SoftmaxLaws()])
def test_an_attention_of_ones_own_is_put_to_the_same_laws(probe: Laws) -> None:
    judged = probe.judged(subject(Bare(honest), Noise()))
    assert not [each.name for each in judged if each.broken]
    assert sum(each.answer is not None for each in judged) >= 8


def a_gpt(**arguments: Any) -> GPT:
    torch.manual_seed(0)
    return GPT(WORDS, **arguments)


def without_places() -> GPT:
    model = a_gpt(layers=1)
    nn.init.zeros_(model.positions)
    return model


@pytest.mark.parametrize(
    ("law", "model", "said"),
    [
        ("order_is_seen", without_places, "learned"),
        ("equal_tokens_are_alike_without_positions", lambda: a_gpt(position="alibi"), "none"),
        ("scores_depend_on_distance_alone", lambda: a_gpt(position="sinusoidal"), "rope"),
        ("distance_is_seen", lambda: a_gpt(position="none"), "rope"),
        ("slopes_halve", lambda: a_gpt(position="rope"), "alibi"),
    ],
)
def test_positions_that_are_not_what_they_say(law: str, model: Callable[[], nn.Module], said: str) -> None:
    assert put(PositionLaws, law, subject(model()), {"position": said}).broken


def test_slopes_that_begin_one_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpt_module, "alibi_slopes", lambda heads: [2 ** (-8 * i / heads) for i in range(heads)])
    assert put(PositionLaws, "slopes_halve", subject(a_gpt(position="alibi"))).broken


def sines(length: int, width: int, first: int = 0, base: float = 10_000.0, scale: float = 1.0) -> Tensor:
    at = torch.arange(first, first + length, dtype=torch.float64)[:, None]
    angle = at * base ** -(torch.arange(0, width, 2, dtype=torch.float64) / width)
    return scale * torch.stack((angle.sin(), angle.cos()), -1).flatten(1)


@pytest.mark.parametrize(
    ("law", "wrong"),
    [
        ("first_position_is_all_cosines", {"first": 1}),
        ("second_position_turns_by_one", {"first": 1}),
        ("products_depend_on_distance_alone", {"base": 1_000.0}),
        ("all_positions_are_equally_long", {"scale": 1.1}),
        ("a_step_is_a_rotation", {"base": 1_000.0}),
    ],
)
def test_sinusoids_by_another_formula(law: str, wrong: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpt_module, "sinusoids", lambda length, width, like: sines(length, width))
    assert not put(PositionLaws, law, subject(a_gpt(position="sinusoidal"))).broken
    monkeypatch.setattr(gpt_module, "sinusoids", lambda length, width, like: sines(length, width, **wrong))
    assert put(PositionLaws, law, subject(a_gpt(position="sinusoidal"))).broken


class WrongLayerNorm(nn.Module):
    """A layer norm with a mistake."""

    def __init__(self, width: int, mistake: str) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((width,), 3.0))
        self.eps = 1e-5
        self.mistake = mistake

    def forward(self, x: Tensor) -> Tensor:
        along = 0 if self.mistake == "over the batch" else -1
        mean = 0.0 if self.mistake == "no mean" else x.mean(along, keepdim=True)
        correction = 1 if self.mistake == "all but one" else 0
        variance = x.var(along, correction=correction, keepdim=True)
        if self.mistake == "no epsilon":
            return self.weight * (x - mean) / variance.sqrt()
        if self.mistake == "epsilon outside":
            return self.weight * (x - mean) / (variance.sqrt() + self.eps)
        return self.weight * (x - mean) / (variance + self.eps).sqrt()


@pytest.mark.parametrize(
    ("law", "mistake"),
    [
        ("ramp", "all but one"),
        ("ramp", "epsilon outside"),
        ("ten_times_the_input", "epsilon outside"),
        ("ten_times_the_input", "no epsilon"),
        ("common_shift_is_unseen", "no mean"),
        ("mean_is_zero", "no mean"),
        ("variance_is_one", "all but one"),
        ("constant_is_finite", "no epsilon"),
        ("positions_do_not_mix", "over the batch"),
    ],
)
def test_wrong_norms_are_caught(law: str, mistake: str) -> None:
    assert not put(NormLaws, law, subject(nn.Sequential(WrongLayerNorm(4, "")))).broken
    assert put(NormLaws, law, subject(nn.Sequential(WrongLayerNorm(4, mistake)))).broken


class Cell(nn.Module):
    """A cell by hand that offers its state, with a mistake."""

    def __init__(self, mistake: str, kind: str) -> None:
        super().__init__()
        self.mistake = mistake
        self.kind = kind
        self.w = nn.Parameter(torch.tensor([0.3, -0.7, 0.5, 0.9]))

    def initial_state(self, batch_size: int) -> Any:
        zero = self.w.new_zeros(batch_size, 3)
        return {"hidden": zero, "cell": zero} if self.kind == "lstm" else zero

    def step(self, x: Tensor, state: Any) -> Any:
        drive = x.to(self.w.dtype)[:, None].expand(-1, 3) / WORDS
        if self.kind == "lstm":
            h = state["hidden"]
            i, f, g, o = ((w * drive + h).sigmoid() for w in self.w)
            c = f * state["cell"] + (1 - f if self.mistake == "coupled" else i) * g
            h = o * c if self.mistake == "no tanh" else o * c.tanh()
            return h, {"hidden": h, "cell": c}, {"input": i, "forget": f, "candidate": g, "output": o}
        seen = state.detach() if self.mistake == "detached" else state
        z, n = (self.w[0] * drive + seen).sigmoid(), (self.w[1] * drive + seen).tanh()
        h = (1 - z) * state + z * n if self.mistake == "the other way round" else z * state + (1 - z) * n
        return h, h, {"update": z, "new": n}

    def forward(self, tokens: Tensor) -> Tensor:
        state, outputs = self.initial_state(len(tokens)), []
        for x in tokens.unbind(1):
            h, state, _ = self.step(x, state)
            outputs.append(h)
        return torch.stack(outputs, 1)


class Aside(LSTM):
    """A second way for the past to go on."""

    def forward(self, tokens: Tensor) -> Tensor:
        return super().forward(tokens) + tokens.cumsum(1)[..., None]


class PaddedLSTM(nn.LSTM):
    """Reads the padding."""

    def forward(self, given: Any, hx: Any = None) -> Any:
        return super().forward(
            pad_packed_sequence(given, batch_first=True)[0] if isinstance(given, PackedSequence) else given
        )


class MovedLSTM(nn.LSTM):
    """Final states with the batch first."""

    def forward(self, given: Any, hx: Any = None) -> Any:
        outputs, (h, c) = super().forward(given)
        return outputs, (h.transpose(0, 1), c.transpose(0, 1))


class LeakyLSTM(nn.LSTM):
    """Cells that lose a little more than the forget gate says."""

    def forward(self, given: Any, hx: Any = None) -> Any:
        outputs, (h, c) = super().forward(given, hx)
        return outputs, (h, 0.99 * c)


def both_filled() -> LSTM:
    model = LSTM(WORDS)
    for name, parameter in model.rnn.named_parameters():
        if "bias" in name:
            nn.init.ones_(parameter)
    return model


@pytest.mark.parametrize(
    ("law", "good", "wrong"),
    [
        ("state_is_all_that_goes_on", lambda: LSTM(WORDS), lambda: Aside(WORDS)),
        ("cell_equation", lambda: Cell("", "lstm"), lambda: Cell("coupled", "lstm")),
        ("cell_equation", lambda: LSTM(WORDS), lambda: Cell("no tanh", "lstm")),
        ("update_gate_keeps", lambda: Cell("", "gru"), lambda: Cell("the other way round", "gru")),
        ("jacobian_is_the_slope", lambda: Cell("", "gru"), lambda: Cell("detached", "gru")),
        ("forget_bias_is_the_sum", lambda: LSTM(WORDS), both_filled),
        (
            "forget_bias_sets_the_half_life",
            lambda: nn.LSTM(4, 4, 2, batch_first=True),
            lambda: LeakyLSTM(4, 4, 2, batch_first=True),
        ),
        ("padding_is_not_read", lambda: GRU(WORDS), lambda: PaddedLSTM(4, 4, batch_first=True)),
        (
            "batch_first_leaves_final_states",
            lambda: nn.LSTM(4, 4, batch_first=True),
            lambda: MovedLSTM(4, 4, batch_first=True),
        ),
    ],
)
def test_wrong_recurrence_is_caught(law: str, good: Callable[[], nn.Module], wrong: Callable[[], nn.Module]) -> None:
    torch.manual_seed(0)
    expected = {"forget_bias": 1.0}
    assert not put(RecurrenceLaws, law, subject(good()), expected).broken
    assert put(RecurrenceLaws, law, subject(wrong()), expected).broken


@pytest.mark.parametrize(("kept", "broken"), [(0.5, False), (0.4, True)])
def test_what_a_state_keeps(kept: float, broken: bool) -> None:
    task = BothSeen()
    about = subject(Contraction(task.interface), task)
    assert put(RecurrenceLaws, "state_keeps_its_share", about, {"kept": kept}).broken is broken


class WrongGrammar(Grammar):
    """A grammar that is wrong about its own entropy."""

    def bound(self) -> tuple[float, float]:
        nats, targets = super().bound()
        return nats * 1.1, targets


@pytest.mark.parametrize(
    "law", ["entropy_by_words", "entropy_by_sentences", "entropy_is_as_stated", "perplexity_is_as_stated"]
)
def test_a_wrong_entropy_is_caught(law: str) -> None:
    task, stated = FarmAgreement(), {"entropy": 10.15517, "perplexity": 2.52796}
    about = subject(LSTM(task.interface.input_size), task)
    assert not put(LanguageLaws, law, about, stated).broken
    task.grammar = WrongGrammar(3)
    assert put(LanguageLaws, law, about, stated).broken


def test_probabilities_that_do_not_sum_to_one_are_caught() -> None:
    task = FarmAgreement()
    task.grammar.probabilities[3] *= 0.9
    about = subject(LSTM(task.interface.input_size), task)
    assert put(LanguageLaws, "next_words_sum_to_one", about).broken


@pytest.mark.parametrize(
    ("law", "stated"),
    [
        ("parameters_are_as_stated", {"parameters": 29_887}),
        ("blocks_have_their_formula", {"d_model": 33}),
        ("blocks_cost_their_formula", {"d_model": 33}),
    ],
)
def test_wrong_counts_are_caught(law: str, stated: dict[str, int]) -> None:
    assert put(CountLaws, law, subject(a_gpt()), stated).broken
    right = {"parameters": 29_888, "d_model": 32}
    assert not put(CountLaws, law, subject(a_gpt()), right).broken


def test_a_second_bias_is_counted() -> None:
    law = "recurrent_layers_are_as_stated"
    assert put(CountLaws, law, subject(LSTM(WORDS)), {"recurrence": 4 * 64 * (32 + 64 + 1)}).broken
    assert not put(CountLaws, law, subject(LSTM(WORDS)), {"recurrence": 4 * 64 * (32 + 64 + 2)}).broken


def test_every_law_has_a_mutant_here() -> None:
    source = Path(__file__).read_text(encoding="utf-8")
    for probe in ALL:
        for law in probe.laws:
            assert getattr(law, "__name__", "") in source, f"{probe.__name__}: {name_of(law)}"
            assert sentence_of(law).endswith((".", ")")), name_of(law)


def test_a_law_that_raises_is_broken() -> None:
    def explode(x: Tensor) -> Tensor:
        raise ValueError("no")

    judged = put(AttentionLaws, "future_is_unseen", subject(Bare(explode), Noise()))
    assert judged.broken
    assert "ValueError: no" in judged.reason


def test_the_model_is_left_alone() -> None:
    model = a_gpt()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    AttentionLaws().judged(subject(model))
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


BROKEN = """
from torch import nn


class Attention(nn.Module):
    accepts = ("vectors",)

    def __init__(self) -> None:
        super().__init__()

    def forward(self, vectors):
        scores = vectors @ vectors.mT / vectors.shape[-1] ** 0.5
        return scores.softmax(-1).tril() @ vectors
"""


def test_a_mask_after_the_softmax_in_a_file_is_named(tmp_path: Path) -> None:
    """What a plugin author sees of a broken attention."""
    file = tmp_path / "broken.py"
    file.write_text(BROKEN, encoding="utf-8")
    results = harness.run(
        models=[f"{file}:Attention"], tasks=["noise"], probes=["attention_laws"], seeds=1, out=tmp_path / "run"
    )
    (record,) = results.records
    scalar = next(each for each in record.measurements if isinstance(each, harness.Scalar))
    assert scalar.value > 0
    assert scalar.verdict is not None
    assert scalar.verdict.startswith("breaks: ")
    assert "weights sum to one" in scalar.verdict
    assert "the mask comes before the softmax" in (scalar.meaning or "")


def test_where_no_law_applies_the_reason_is_told() -> None:
    with pytest.raises(harness.Skip, match="ask for it on task noise"):
        list(SoftmaxLaws()(subject(LSTM(WORDS))))


def test_a_source_and_its_target_are_cut_around_the_separator() -> None:
    """So that a model which reads a source has one in the few positions that laws look at."""
    task = Copy(train_max=20, lengths=[20])
    few = Case(subject(Elman(task.interface.input_size), task), {}).tokens
    assert few.shape == (2, 12)
    assert [row.index(task.interface.separator) for row in few.tolist()] == [6, 6]


def test_infinity_agrees_with_itself_alone() -> None:
    """A number beside it is held to the same rounding as ever."""
    case = Case(subject(AttentionForms(Noise().interface), Noise()), {})
    found, wanted = torch.tensor([math.inf, 1.0]), torch.tensor([math.inf, 5.0])
    assert not case.compare(found, wanted).holds
    assert case.compare(found, found).holds
