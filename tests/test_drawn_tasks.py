"""Tasks of recall, copying and state tracking: their answers, held against the plainest way to find them."""

import math
import re
from collections.abc import Callable, Sequence
from functools import cache
from itertools import islice

import pytest
import torch

from harness import IGNORE, Batch, Condition, Task, token_metrics
from harness.examples import seeded
from harness.testing.case import as_definition
from harness.testing.tasks.case import TaskCase

Answers = list[str | None]
"""What is asked for at each position, by name."""


def built(request: str) -> Task:
    return TaskCase(*as_definition("task", request)).task


def recalled(names: Sequence[str]) -> Answers:
    """A key that is known already is asked for the value that stood behind it."""
    known: dict[str, str] = {}
    found: Answers = []
    for before, name in zip(["", *names], names, strict=False):
        found.append(known.get(name))
        if name.startswith("V"):
            known[before] = name
    return found


def words_recalled(names: Sequence[str]) -> Answers:
    known: dict[str, str] = {}
    found: Answers = [None] * len(names)
    for pair in re.finditer("([a-d]+)([A-D]+)", "".join(names)):
        key, value = pair.groups()
        for letter, character in enumerate(known.get(key, "")):
            found[pair.end(1) - 1 + letter] = character
        known[key] = value
    return found


def followed(names: Sequence[str]) -> Answers:
    return [*[None] * (len(names) - 1), names[names.index(names[-1]) + 1]]


def letters_repeated(names: Sequence[str]) -> Answers:
    letters = iter([name for name in names if name.startswith("x")])
    return [next(letters) if name == "?" else None for name in names]


def marked(names: Sequence[str]) -> Answers:
    return [names[names.index("!") + 1] if name == "?" else None for name in names]


def read(names: Sequence[str]) -> Answers:
    found: Answers = []
    bit = ""
    for instruction, shown in zip(names[::2], names[1::2], strict=True):
        bit = shown if instruction == "w" else bit
        found += [bit if instruction == "r" else None, None]
    return found


def closing(names: Sequence[str]) -> Answers:
    found: Answers = []
    stack: list[str] = []
    for name in names:
        if name in "([":
            stack.append(")" if name == "(" else "]")
        else:
            stack.pop()
        found.append(stack[-1] if stack else None)
    return found


def added(modulus: int) -> Callable[[Sequence[str]], Answers]:
    return lambda names: [str(sum(map(int, names[: n + 1])) % modulus) for n in range(len(names))]


def rearranged(names: Sequence[str]) -> Answers:
    things, found = sorted(names[0]), []
    for name in names:
        things = [things[int(place) - 1] for place in name]
        found.append("".join(things))
    return [*found]


def remembered(names: Sequence[str]) -> Answers:
    return [None if name != "?" else facts()[before] for before, name in zip(["", *names], names, strict=False)]


@cache
def facts() -> dict[str, str]:
    """What training tells of each key."""
    task = built("memorisation:vocabulary=16")
    batch = next(iter(task.train(64, seeded("facts of a run"))))
    pairs = zip(batch.tokens[:, ::2].flatten(), batch.targets[:, 1::2].flatten(), strict=True)
    return {key: value for each in pairs for key, value in [task.token_names(torch.stack(each))]}


REFERENCES: dict[str, Callable[[Sequence[str]], Answers]] = {
    "mqar": recalled,
    "mqar:pairs=[1,3],length=16,lengths=[12,16,40],power=1": recalled,
    "induction": followed,
    "selective_copying:train_min=8": letters_repeated,
    "in_context_recall": recalled,
    "noisy_recall:noise=0.5": recalled,
    "fuzzy_recall": words_recalled,
    "memorisation:vocabulary=16": remembered,
    "parity": added(2),
    "modular_sum:modulus=7": added(7),
    "word_problem:group=Z60": added(60),
    "word_problem": rearranged,
    "word_problem:group=S5,lengths=[1,9]": rearranged,
    "word_problem:group=A4,lengths=[16]": rearranged,
    "flip_flop": read,
    "dyck": closing,
    "dyck:m=1,lengths=[9]": closing,
    "needle": marked,
}


def batches(task: Task, examples: int) -> list[Batch]:
    """Of each use, and of each condition."""
    streams = (task.train(examples, seeded("train")), task.validation(examples, seeded("validation")))
    tested = [task.evaluate(each, examples, seeded("test", str(each))) for each in task.conditions()]
    return [*(batch for stream in streams for batch in islice(stream, 3)), *tested]


def named(task: Task, row: torch.Tensor) -> Answers:
    return [None if target == IGNORE else task.token_names(row[n : n + 1])[0] for n, target in enumerate(row)]


@pytest.mark.parametrize("request_", REFERENCES)
def test_answers_are_those_of_the_plainest_way(request_: str) -> None:
    """At each position of each sequence, and nothing is asked elsewhere."""
    task, reference = built(request_), REFERENCES[request_]
    for batch in batches(task, 12):
        for tokens, targets, mask in zip(batch.tokens, batch.targets, batch.mask, strict=True):
            rest = [None] * int((~mask).sum())
            assert [*reference(task.token_names(tokens[mask])), *rest] == named(task, targets)


@pytest.mark.parametrize("request_", [each for each in REFERENCES if not re.match("parity|modular|word", each)])
def test_another_token_at_the_source_is_another_answer(request_: str) -> None:
    """Each example takes the token from where another has its answer: the plainest way then gives the other's."""
    task, reference = built(request_), REFERENCES[request_]
    for batch in batches(task, 16):
        one = batch.asked()
        assert one.cue is not None
        assert one.query is not None
        assert one.marked.all()
        other = task.partners(one, seeded("partners"))
        rows = torch.arange(len(one))
        tokens = one.tokens.clone()
        tokens[rows, one.cue] = one.tokens[rows, one.cue][other]
        wanted = task.with_answers_of(one, other).targets[rows, one.query]
        for row, mask, query, answer in zip(tokens, one.mask, one.query, wanted, strict=True):
            found = reference(task.token_names(row[mask]))[int(query)]
            assert found == task.token_names(answer[None])[0]


SMALL = [
    "mqar:vocabulary=160,pairs=[1],length=4",
    "selective_copying:letters=2,train_min=8,train_max=8,lengths=[8]",
    "in_context_recall:train_min=8,train_max=8,lengths=[8]",
    "noisy_recall:noise=0.95,noises=1,train_min=128,train_max=128,lengths=[128]",
    "memorisation:vocabulary=128,train_min=4,train_max=4,lengths=[4]",
    "compression:vocabulary=8,train_max=4,lengths=[4]",
    "parity:train_min=12,train_max=12,lengths=[12]",
    "modular_sum:modulus=8,train_min=4,train_max=4,lengths=[4]",
    "word_problem:train_min=5,train_max=5,lengths=[5]",
    "dyck:train_min=12,train_max=12,lengths=[12]",
    "needle:vocabulary=8,train_min=6,train_max=6,lengths=[6]",
]


def sequences(batch: Batch) -> set[tuple[int, ...]]:
    return {tuple(row) for row in batch.tokens.tolist()}


@pytest.mark.parametrize("request_", SMALL)
def test_no_sequence_has_two_uses(request_: str) -> None:
    """Where all sequences are few enough that chance alone would have many in common."""
    task = built(request_)
    assert not task.notes
    train, validation = (sequences(next(iter(s(4000, seeded("a"))))) for s in (task.train, task.validation))
    test = set().union(*(sequences(task.evaluate(each, 1000, seeded("b"))) for each in task.conditions()))
    assert len(train) > 1000
    assert min(len(validation), len(test)) > 300
    assert not train & validation
    assert not (train | validation) & test


def test_no_bigram_is_asked_for_in_training_and_in_test() -> None:
    """In induction, where knowing bigrams by heart must be worth nothing; all others occur in training."""
    task = built("induction")

    def asked(batch: Batch) -> set[tuple[int, int]]:
        return set(zip(batch.tokens[:, -1].tolist(), batch.targets[:, -1].tolist(), strict=True))

    uses = [asked(next(iter(s(20_000, seeded("a"))))) for s in (task.train, task.validation)]
    uses.append(set().union(*(asked(task.evaluate(each, 2000, seeded("b"))) for each in task.conditions())))
    assert sum(map(len, uses)) == len(set().union(*uses)) == 32 * 31
    assert all(len(use) > 32 * 31 / 12 for use in uses)


def test_a_task_says_where_training_and_test_share_sequences() -> None:
    """Of the shortest lengths there are too few to divide."""
    assert built("parity").notes == [
        "length (tokens) 2, 8: fewer than 4096 sequences, too few to be divided; test has some that training has"
    ]
    assert "4 2" not in str(built("word_problem").notes)
    assert built("word_problem").notes
    assert not built("mqar").notes
    (note,) = built("parity:train_max=4,lengths=[40]").notes
    assert "validation has those that training has" in note
    assert not built("parity:train_max=12,lengths=[40]").notes
    assert "32" in built("noisy_recall:noise=0.95,noises=1").notes[0]


def test_two_axes_are_conditions() -> None:
    """Pairs by length, and depth by length; the needle is where its condition says."""
    task = built("mqar:pairs=[2,4],length=16,lengths=[16,64]")
    assert task.conditions() == [
        Condition(16, True, "2"),
        Condition(64, False, "2"),
        Condition(16, True, "4"),
        Condition(64, False, "4"),
    ]
    assert (task.group_axis, built("needle").group_axis) == ("pairs", "depth (%)")
    task = built("needle:lengths=[103],depths=[0,25,100],train_max=103")
    for condition, place in zip(task.conditions(), (0, 25, 100), strict=True):
        batch = task.evaluate(condition, 20, seeded("a"))
        assert (batch.tokens == 16).nonzero()[:, 1].tolist() == [place] * 20
        assert batch.source is not None
        assert batch.source[:, -1].tolist() == [place + 1] * 20
    depths = (next(iter(task.train(2000, seeded("a")))).tokens == 16).nonzero()[:, 1]
    assert depths.unique().tolist() == [*range(int(depths.max()) + 1)]


def test_data_has_the_stated_shares() -> None:
    """Of ignored instructions, of noise, of words of each size, of questions near the pairs, of elements."""
    task = built("flip_flop")
    for condition in task.conditions():
        tokens = task.evaluate(condition, 500, seeded("a")).tokens[:, 2:-2:2]
        shares = [(tokens == kind).double().mean().item() for kind in range(3)]
        left = (1 - condition.x) / 2
        assert shares == pytest.approx([left, left, condition.x], abs=0.01)
    task = built("noisy_recall:noise=0.4")
    tokens = task.evaluate(task.conditions()[-1], 500, seeded("a")).tokens
    assert (tokens[:, 2:-2] >= 16).double().mean().item() == pytest.approx(0.4, abs=0.01)
    task = built("fuzzy_recall:keys=2")
    rows = next(iter(task.train(4000, seeded("a")))).tokens
    sizes = [len(word) for row in rows for word in re.findall("[A-D]+", "".join(task.token_names(row)))[:1]]
    assert [sizes.count(n) / len(sizes) for n in (1, 2)] == pytest.approx([1 / 3, 1 / 3], abs=0.02)
    near, anywhere = (built(f"mqar:pairs=[2],length=64,power={power}") for power in (0.01, 1))
    places = [
        (next(iter(task.train(2000, seeded("a")))).targets[:, 4:] != IGNORE).nonzero()[:, 1].double().mean().item()
        for task in (near, anywhere)
    ]
    assert places[0] < 20 < places[1] == pytest.approx(29, abs=0.7)
    tokens = next(iter(built("word_problem:group=A5,train_min=16").train(2000, seeded("a")))).tokens
    assert tokens.unique().numel() == 60


@pytest.mark.parametrize(
    ("request_", "pairs"),
    [("word_problem:train_min=3,train_max=3", 6 * 6), ("mqar:vocabulary=10,pairs=[2],length=8", 5 * 4)],
)
def test_all_pairs_are_as_frequent(request_: str, pairs: int) -> None:
    """Of the first and the third token: elements of S3, and two different keys of five."""
    tokens = next(iter(built(request_).train(50_000, seeded("a")))).tokens
    counts = tokens[:, :4:2].unique(dim=0, return_counts=True)[1]
    assert counts.tolist() == pytest.approx([50_000 / pairs] * pairs, rel=0.15)


def test_batches_of_a_length_are_drawn_anew_each_time() -> None:
    """However many are drawn together: lengths are as frequent, in any order, and no sequence of 14 and more bits comes
    as often as one that is kept would."""
    batches = list(islice(built("parity:train_min=14,train_max=17").train(8, seeded("a")), 600))
    lengths = torch.tensor([batch.tokens.shape[1] for batch in batches])
    assert lengths.bincount()[14:].tolist() == pytest.approx([150] * 4, abs=45)
    assert (lengths[1:] == lengths[:-1]).double().mean().item() == pytest.approx(1 / 4, abs=0.08)
    assert len(set().union(*map(sequences, batches))) > 0.9 * 600 * 8


@pytest.mark.parametrize("request_", ["recall", "copy", "reverse:train_max=40", "adding:min_length=3", "both_seen"])
def test_batches_made_together_are_those_made_alone(request_: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """How many are got ready at a time changes no number."""
    together = list(islice(built(request_).train(5, seeded("a")), 40))
    monkeypatch.setattr("harness_plugins.tasks.drawing.AHEAD", 1)
    for batch, alone in zip(together, built(request_).train(5, seeded("a")), strict=False):
        assert vars(batch).keys() == vars(alone).keys()
        for ours, theirs in zip(vars(batch).values(), vars(alone).values(), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=0, atol=0, equal_nan=True)


def test_large_batches_are_drawn_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that memory stays within what one of them takes; of small ones some are drawn together, within a bound."""
    task, sizes = built("mqar"), list[int]()
    draw = type(task).draw  # type: ignore[attr-defined]

    def watched(self: Task, condition: Condition, examples: int, generator: torch.Generator) -> Batch:
        sizes.append(examples)
        found: Batch = draw(self, condition, examples, generator)
        return found

    monkeypatch.setattr(type(task), "draw", watched)
    next(iter(task.train(2000, seeded("a"))))
    assert max(sizes) <= 2000 * 3 // 2 + 4
    sizes.clear()
    next(iter(task.train(1, seeded("a"))))
    assert 1 < max(sizes) <= 2**15 // 32


def test_brackets_close_what_is_open() -> None:
    """What closes is what the position before named; as many are open as may be, and never more."""
    task = built("dyck:k=3,m=5,lengths=[100]")
    batch = task.evaluate(task.conditions()[0], 300, seeded("a"))
    opens = batch.tokens < 3
    assert torch.where(opens[:, 1:], batch.targets[:, :-1], batch.tokens[:, 1:]).equal(batch.targets[:, :-1])
    level = torch.where(opens, 1, -1).cumsum(1)
    assert level.unique().tolist() == [*range(6)]
    free = (level[:, :-1] > 0) & (level[:, :-1] < 5)
    assert opens[:, 1:][free].double().mean().item() == pytest.approx(0.5, abs=0.01)


def test_all_words_can_be_keys() -> None:
    """In fuzzy recall, where no key has two values; the first keys of sequences are of each size equally often."""
    task = built("fuzzy_recall:keys=40,train_min=246,train_max=246,lengths=[2000]")
    batch = task.evaluate(task.conditions()[0], 20, seeded("a"))
    for row in batch.tokens:
        pairs = re.findall("([a-d]+)([A-D]+)", "".join(task.token_names(row)))
        assert len({key for key, _ in pairs}) == len(set(pairs)) > 36
    rows = next(iter(built("fuzzy_recall:keys=2").train(4000, seeded("a")))).tokens
    keys = [dict.fromkeys(re.findall("[a-d]+", "".join(task.token_names(row)))) for row in rows]
    sizes = [[len(word) for word in two] for two in keys if len(two) == 2]
    assert len(sizes) > 3900
    shares = [sum(first == size for first, _ in sizes) / len(sizes) for size in (1, 2)]
    assert shares == pytest.approx([1 / 3, 1 / 3], abs=0.025)
    # after one of the four words of one letter, of which each has a chance of 1/12
    assert sum(two == [1, 1] for two in sizes) / len(sizes) == pytest.approx(1 / 3 * (3 / 12) / (11 / 12), abs=0.015)


def test_the_last_position_is_scored() -> None:
    """In running products; all of them besides."""
    task = built("parity:lengths=[20]")
    batch = task.evaluate(task.conditions()[0], 100, seeded("a"))
    outputs = 9.0 * torch.nn.functional.one_hot(batch.targets, 2)
    outputs[:, :-1] = outputs[:, :-1].flip(2)
    outputs[0, -1] = math.nan
    found = task.score(outputs, batch)
    assert found["accuracy"][1:].tolist() == [1.0] * 99
    assert found["every"][1:].tolist() == pytest.approx([0.05] * 99)
    assert all(values[0].isnan() for values in found.values())


def test_one_output_names_all_letters() -> None:
    """In compression: outputs elsewhere do not count, nor what is said of places behind the end."""
    task = built("compression:vocabulary=4,train_max=6,lengths=[3,6]")
    assert task.metrics == token_metrics(4)
    batch = task.evaluate(task.conditions()[0], 50, seeded("a"))
    outputs = torch.randn(50, 4, 24, generator=seeded("b"))
    outputs[:, -1, :12] = 30.0 * batch.targets[:, -1, :12]
    said = batch.targets[:, -1, :12].view(50, 3, 4).argmax(-1)
    assert torch.equal(said, batch.tokens[:, :3])
    found = task.score(outputs, batch)
    assert found["exact"].tolist() == [1.0] * 50
    assert task.loss(outputs, batch).item() < 1e-6
    outputs[:10, -1, :4] = outputs[:10, -1, :4].roll(1, 1)
    assert task.score(outputs, batch)["accuracy"].tolist() == pytest.approx([2 / 3] * 10 + [1.0] * 40)


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ("mqar:pairs=[64],length=512", "64 pairs need as many keys; a vocabulary of 64 has 32"),
        ("mqar:power=50", "power"),
        ("mqar:pairs=[16]", "take 64 tokens; the shortest sequence has 32"),
        ("induction:lengths=[40]", "need a vocabulary of as many, not 32"),
        ("selective_copying:lengths=[3]", "4 letters do not fit in a length of 3"),
        ("fuzzy_recall:lengths=[29]", "use lengths of 30 tokens or more"),
        ("parity:train_min=30", "train_min = 30 is larger than train_max = 20"),
        ("word_problem:group=Q8", "should be S2 to S5, A3 to A5 or Z2 to Z999"),
        ("in_context_recall:lengths=[33]", "multiple of 2"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(request_: str, words: str) -> None:
    """With what was wrong."""
    with pytest.raises(Exception, match=re.escape(words)):
        built(request_)
