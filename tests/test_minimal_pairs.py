"""Minimal pairs: words and tokens match exactly, whole words are scored, and nothing is dropped silently."""

import math
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from harness_plugins.models.lstm import LSTM
from harness_plugins.tasks.minimal_pairs import MinimalPairs
from harness_plugins.tasks.pair_files import Pair, Sentence
from harness_plugins.tasks.pair_tokens import ROLES, Unscorable, batch, rows, words_of
from hf_models import KINDS, TEXT, blimp, tokenizer
from torch import Tensor, nn

import harness
from harness import Condition, Skip
from harness.errors import RequestError
from harness.examples import standard_error
from harness.subject import Subject

ALL = Condition(0.0, inside=True)


class Silent:
    """A tokenizer of single letters, spaces included, that lacks `#` and `%`. It does not say where words end."""

    size = 128
    start: int | None = 1
    unknown: int | None = 2

    def encode(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        return [2 if c in "#%" else ord(c) for c in text], [(i, i + 1) for i in range(len(text))]

    def token(self, name: str) -> int | None:
        return {"<s>": 1}.get(name)

    def name(self, token: int) -> str:
        return {1: "<s>"}.get(token, chr(token))


class Letters(Silent):
    """The same, which says that a word goes on with letters and digits."""

    @property
    def ends_word(self) -> list[bool]:
        return [not chr(token).isalnum() for token in range(self.size)]


class Fixed(nn.Module):
    """Predicts each token with a probability of its own, whatever came before."""

    def __init__(self, logits: Tensor) -> None:
        super().__init__()
        self.logits = logits

    def forward(self, tokens: Tensor) -> Tensor:
        return self.logits.expand(*tokens.shape, -1)


def table(folder: Path, *lines: str) -> Path:
    path = folder / "pairs.tsv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def standard_errors(task: MinimalPairs, model: nn.Module) -> dict[str, float]:
    subject = Subject(model.eval(), task, stage="trained", seed=0, device=torch.device("cpu"))
    return task.standard_errors(subject.scores(ALL))


def scores(task: MinimalPairs, model: nn.Module, condition: Condition = ALL, **more: Any) -> dict[str, float]:
    subject = Subject(model.eval(), task, stage="trained", seed=0, device=torch.device("cpu"), **more)
    return task.summarise(subject.scores(condition))


@pytest.mark.parametrize("kind", KINDS)
def test_words_and_tokens_match_exactly(kind: str) -> None:
    """The tokens of every word, read back, are that word: whatever the tokenizer does with spaces and pieces."""
    pytest.importorskip("transformers")
    from harness_plugins.models.hf_tokenizer import TextTokenizer

    inner = tokenizer(kind)
    reader = TextTokenizer(inner, len(inner))
    known = kind in ("words", "lower case")
    more = [] if known else ["keys  the   hotels", "naïve authors , here", "unheard words"]
    for text in [*TEXT, *(more if kind != "pieces" else [])]:
        tokens, spans = reader.encode(text)
        words = words_of(text, spans)
        assert len(words) == len(tokens)
        for index, word in enumerate(text.split()):
            own = [token for token, each in zip(tokens, words, strict=True) if each == index]
            back = inner.decode(own).replace(" ", "")
            assert back == (word.lower() if kind == "lower case" else word), (text, word)


def test_a_tokenizer_without_characters_is_asked_word_by_word() -> None:
    """Exact, or refused where a word's tokens depend on what follows."""
    pytest.importorskip("transformers")
    from harness_plugins.models.hf_tokenizer import TextTokenizer

    class Slow:
        """Pieces of two letters; with `join`, across the border of words."""

        is_fast = False

        def __init__(self, join: bool) -> None:
            self.join = join

        def __call__(self, text: str, add_special_tokens: bool) -> dict[str, list[int]]:
            parts = [text] if self.join else re.findall(r"\s*\S+", text)
            return {"input_ids": [hash(p[i : i + 2]) % 97 for p in parts for i in range(0, len(p), 2)]}

    _, spans = TextTokenizer(Slow(join=False), 97).encode("The keys are")
    assert words_of("The keys are", spans) == [0, 0, 1, 1, 1, 2, 2]
    with pytest.raises(ValueError, match="differently when more text follows"):
        TextTokenizer(Slow(join=True), 97).encode("The keys are")


def test_a_token_of_two_words_is_refused() -> None:
    """And so is a word without a token."""
    with pytest.raises(Unscorable, match="parts of two words"):
        words_of("New York is", [(0, 8), (8, 11)])
    with pytest.raises(Unscorable, match="no token of its own"):
        words_of("New York is", [(0, 3), (8, 11)])
    assert words_of("a  b", [(0, 1), (1, 2), (2, 4)]) == [0, 1, 1]


def test_whole_words_are_scored_as_the_sum_over_their_tokens(tmp_path: Path) -> None:
    """By hand: log-probabilities of ` are` and ` is` letter by letter, the space included; a long word is no bonus."""
    torch.manual_seed(0)
    logits = torch.randn(128)
    log_probs = logits.log_softmax(-1)
    task = MinimalPairs(Letters(), file=table(tmp_path, "The keys are here\tThe keys is here\t1\t2"))
    found = scores(task, Fixed(logits))
    expected = sum(log_probs[ord(c)] for c in " are") - sum(log_probs[ord(c)] for c in " is")
    assert found["log_odds"] == pytest.approx(float(expected), abs=1e-5)
    assert found["accuracy"] == float(expected > 0)
    whole = scores(MinimalPairs(Letters(), file=tmp_path / "pairs.tsv", scoring="sentence"), Fixed(logits))
    assert whole["log_odds"] == pytest.approx(float(expected), abs=1e-4)  # all other letters are the same


def test_the_end_of_a_word_is_scored_where_one_form_begins_the_other(tmp_path: Path) -> None:
    """By hand: `key` and `keys` have the probability that neither a letter nor a digit follows, as one more token;
    else the shorter form wins whatever the model."""
    torch.manual_seed(0)
    logits = torch.randn(128)
    logits[ord("s")] = 9.0
    log_probs = logits.log_softmax(-1)
    end = log_probs[[not chr(token).isalnum() for token in range(128)]].logsumexp(0)
    lines = ["They saw keys\tThey saw key\t0\t2", "They saw me\tThey saw us\t0\t2"]
    task = MinimalPairs(Letters(), file=table(tmp_path, *lines))
    subject = Subject(Fixed(logits).eval(), task, stage="trained", seed=0, device=torch.device("cpu"))
    found = subject.scores(ALL)
    form = sum(log_probs[ord(c)] for c in " key")
    assert found["good"][0].item() == pytest.approx((form + log_probs[ord("s")] + end).item(), abs=1e-5)
    assert found["bad"][1].item() == pytest.approx((form + end).item(), abs=1e-5)
    assert found["good_tokens"].tolist() == [6, 0, 3, 0]
    assert found["bad_tokens"].tolist() == [0, 5, 0, 3]
    assert (
        task.notes[2] == "in 1 pairs the end of the word is scored too, since the tokens of one form begin the other's"
    )
    assert scores(MinimalPairs(Letters(), file=table(tmp_path, lines[0])), Fixed(torch.zeros(128)))["accuracy"] == 0
    whole = MinimalPairs(Letters(), file=table(tmp_path, "She walks\tShe walk"))
    assert scores(whole, Fixed(logits))["log_odds"] == pytest.approx(log_probs[ord("s")].item(), abs=1e-5)


def test_what_the_end_of_a_word_cannot_tell_apart_is_set_aside(tmp_path: Path) -> None:
    """Where one side adds a word or a mark, it is less likely whatever the model; some tokenizers say no ends."""
    lines = ["They walk\tThey walks", "They walk\tThey walk now", "They walk !\tThey walk", "They walk.\tThey walk"]
    task = MinimalPairs(Letters(), file=table(tmp_path, *lines))
    assert list(task.rows) == [1]
    reason = "one form is the beginning of the other, which adds a word or a punctuation mark"
    assert task.notes[-1] == f"3 pairs not scored, since {reason}: line 2, 3, 4"
    silent = MinimalPairs(Silent(), file=table(tmp_path, lines[0], "They are\tThey is"))
    assert list(silent.rows) == [2]
    assert "the tokenizer does not say where a word ends: line 1" in silent.notes[-1]


def test_all_words_of_a_target_are_scored(tmp_path: Path) -> None:
    """By hand, after one prefix and after two; where only the second word differs, too."""
    torch.manual_seed(0)
    logits = torch.randn(128)
    log_probs = logits.log_softmax(-1)

    def form(text: str) -> float:
        return sum(log_probs[ord(c)].item() for c in text)

    sentences = {"sentence_good": "x", "sentence_bad": "y"}
    words = {"one_prefix_word_good": "ice rink", "one_prefix_word_bad": "ice rank", "one_prefix_prefix": "That"}
    one = MinimalPairs(Letters(), file=blimp(tmp_path / "a.jsonl", [{**sentences, **words}]))
    assert scores(one, Fixed(logits))["log_odds"] == pytest.approx(form("i") - form("a"), abs=1e-5)
    two = {"two_prefix_prefix_good": "This", "two_prefix_prefix_bad": "These", "two_prefix_word": "ice rink"}
    task = MinimalPairs(Letters(), file=blimp(tmp_path / "b.jsonl", [{**sentences, **two}]))
    subject = Subject(Fixed(logits).eval(), task, stage="trained", seed=0, device=torch.device("cpu"))
    found = subject.scores(ALL)
    assert found["good"][0].item() == found["bad"][1].item() == pytest.approx(form(" ice rink"), abs=1e-5)
    made = task.evaluate(ALL, 1, torch.Generator())
    assert made.roles is not None
    verb = [(row == ROLES.index("verb")).sum().item() for row in made.roles]
    assert verb == [len(" ice rin")] * 2


def test_the_mean_per_token_beside_the_sum(tmp_path: Path) -> None:
    """A longer form may be less likely as a whole and likelier per token."""
    task = MinimalPairs(Letters(), file=table(tmp_path, "a bbbb\ta c\t0\t1"))
    logits = torch.full((128,), -20.0)
    logits[[ord("b"), ord("c"), ord(" ")]] = torch.tensor([0.9, 0.0, 0.0])
    found = scores(task, Fixed(logits))
    assert found["accuracy"] == 0.0
    assert found["accuracy_per_token"] == 1.0


def test_a_pair_is_marked_in_both_sequences_or_in_neither(tmp_path: Path) -> None:
    """A subject at the verb, after it, or known on one side only marks nothing; nobody crashes, nothing is dropped."""
    lines = ["The keys are\tThe keys is\t1\t2", "It are us\tIt is us\t1\t1", "It are us\tIt is us\t2\t1"]
    made = MinimalPairs(Letters(), file=table(tmp_path, *lines)).evaluate(ALL, 9, torch.Generator())
    assert made.cue is not None
    assert made.query is not None
    assert [(c >= 0, q >= 0) for c, q in zip(made.cue.tolist(), made.query.tolist(), strict=True)] == [
        *[(True, True)] * 2,
        *[(False, False)] * 4,
    ]
    assert bool((made.cue <= made.query).all())
    fields = {"sentence_good": "x", "sentence_bad": "y", "two_prefix_word": "shine"}
    contexts = {"two_prefix_prefix_good": "Keys of gold", "two_prefix_prefix_bad": "Gold"}
    path = blimp(tmp_path / "a.jsonl", [{**fields, **contexts}])
    other = MinimalPairs(Letters(), file=path, subject_before="of").evaluate(ALL, 9, torch.Generator())
    assert other.cue is None
    assert len(other) == 2


def test_ties_count_one_half(tmp_path: Path) -> None:
    """And standard errors are those of means over pairs, not over sequences."""
    torch.manual_seed(0)
    lines = ["x y a\tx y b\t0\t2", "x y c\tx y d\t0\t2", "x y e\tx y f\t0\t2", "x y g\tx y h\t0\t2"]
    logits = torch.zeros(128)
    logits[ord("c")], logits[ord("f")] = 2.0, 2.0
    task = MinimalPairs(Letters(), file=table(tmp_path, *lines))
    found, errors = scores(task, Fixed(logits)), standard_errors(task, Fixed(logits))
    assert found["pairs"] == 4
    assert found["accuracy"] == found["accuracy_per_token"] == (0.5 + 1 + 0 + 0.5) / 4
    assert errors["accuracy"] == standard_error(torch.tensor([0.5, 1, 0, 0.5]), share=True)
    assert errors["accuracy_per_token"] == errors["accuracy"]
    assert errors["log_odds"] == pytest.approx(standard_error(torch.tensor([0.0, 2, -2, 0])))
    assert math.isnan(errors["pairs"])


def test_two_words_that_a_tokenizer_does_not_know_are_told_from_equal_ones(tmp_path: Path) -> None:
    """Their tokens are the same, and the reason is the vocabulary."""
    lines = ["The keys are\tThe keys is\t1\t2", "The keys #\tThe keys %\t1\t2"]
    task = MinimalPairs(Letters(), file=table(tmp_path, *lines))
    reason = "both sentences have the same tokens: the tokenizer does not know some of their words"
    assert f"1 pair not scored, since {reason}: line 2" in task.notes


def test_pairs_that_cannot_be_scored_are_counted_and_named(tmp_path: Path) -> None:
    """By reason and by line; all others are scored."""
    lines = [
        "The keys are\tThe keys is\t1\t2",
        "The keys #\tThe keys is\t1\t2",
        "The keys are\tThe keys is",
        "The keys are\tThe keys is\t\t2",
        "There are keys\tThere is keys\t2\t1",
        "A keys are\tThe key is\t1\t2",
    ]
    task = MinimalPairs(Letters(), file=table(tmp_path, *lines))
    assert scores(task, Fixed(torch.zeros(128)))["pairs"] == 3
    assert task.notes == [
        "3 pairs scored by one_prefix, 3 not scored",
        "start token before every text: <s> (1)",
        "2 pairs not scored, since the file does not offer one_prefix for them: line 3, 6",
        "1 pair not scored, since the tokenizer does not know the word: line 2",
        "1 pair without marks of subject and verb, since the file does not say where they are: line 4",
        "1 pair without marks of subject and verb, since the subject does not come before the verb: line 5",
    ]
    with pytest.raises(ValueError, match=r"no pair of .* can be scored: 1 pair not scored, since the tokenizer"):
        MinimalPairs(Letters(), file=table(tmp_path, lines[1]))


def test_the_start_token_is_chosen_and_recorded(tmp_path: Path) -> None:
    """What the model expects, none, or one by name; a sentence is refused where its first token has no context."""
    path = table(tmp_path, "Keys are\tKeys is\t0\t1", "They walk\tKeys walk\t0\t1")
    task = MinimalPairs(Letters(), file=path, scoring="sentence", start="none")
    assert task.notes[1] == "no start token"
    assert task.notes[2] == (
        "1 pair not scored, since the sentences differ in their first token, which no start token comes before: line 2"
    )
    assert task.evaluate(ALL, 9, torch.Generator()).tokens[0, 0] == ord("K")
    assert MinimalPairs(Letters(), file=path, start="<s>").evaluate(ALL, 9, torch.Generator()).tokens[0, 0] == 1
    with pytest.raises(ValueError, match="the tokenizer has no token '<bos>'"):
        MinimalPairs(Letters(), file=path, start="<bos>")


def test_one_sequence_where_both_forms_are_one_token_else_two() -> None:
    """The same context is not computed twice."""

    class Words(Letters):
        def encode(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
            spans = [match.span() for match in re.finditer(r"\S+", text)]
            return [3 + sum(map(ord, text[slice(*span)])) % 120 for span in spans], spans

    pair = Pair(7, Sentence("The keys are", 2, 1), Sentence("The keys is", 2, 1))
    (row,) = rows(pair, "one_prefix", Words(), 1)
    assert (len(row.tokens), row.first, row.query, row.cue) == (3, 2, 2, 2)
    assert len(row.good) == len(row.bad) == 1
    assert row.good != row.bad
    right, wrong = rows(pair, "one_prefix", Letters(), 1)
    assert right.bad == wrong.good == []
    assert right.tokens[: right.query] == wrong.tokens[: wrong.query]
    two = Pair(7, Sentence("The keys shine", 2, 1), Sentence("The key shine", 2, 1))
    assert len(rows(two, "two_prefix", Words(), 1)) == 2


def test_cue_query_and_roles(tmp_path: Path) -> None:
    """The subject's last token, the token before the verb (its space belongs to it), and a role for every token."""
    path = table(tmp_path, "The keys to doors are\tThe keys to doors is\t1\t4")
    made = MinimalPairs(Letters(), file=path).evaluate(ALL, 1, torch.Generator())
    assert made.cue is not None
    assert made.query is not None
    assert made.roles is not None
    text = "^The keys to doors are"
    assert [text[i] for i in made.cue.tolist()] == ["s", "s"]
    assert set(made.cue.tolist()) == {text.index("keys") + 3}
    assert set(made.query.tolist()) == {text.index(" are") - 1}
    marked = {role: "".join(text[i] for i in (made.roles[0] == n).nonzero().flatten()) for n, role in enumerate(ROLES)}
    assert marked == {"start": "^", "subject": " keys", "function": "The to", "other": " doors", "verb": " ar"}
    assert made.targets[0, made.query[0]] == made.targets[1, made.query[1]] == ord(" ")


def test_the_user_may_say_where_the_subject_is(tmp_path: Path) -> None:
    """Where the file does not: by its index or by the word that follows it."""
    fields = {"sentence_good": "x", "sentence_bad": "y", "one_prefix_word_good": "are", "one_prefix_word_bad": "is"}
    texts = ("The keys of doors", "Three old keys that rust", "Keys")
    path = blimp(tmp_path / "a.jsonl", [{**fields, "one_prefix_prefix": text} for text in texts])
    assert MinimalPairs(Letters(), file=path).evaluate(ALL, 9, torch.Generator()).cue is None
    task = MinimalPairs(Letters(), file=path, subject_before="of/that")
    cue = task.evaluate(ALL, 9, torch.Generator()).cue
    assert cue is not None
    assert sorted(set(cue.tolist())) == [-1, len("The keys"), len("Three old keys")]
    unmarked = "1 pair without marks of subject and verb, since"
    assert task.notes[-1] == f"{unmarked} no subject stands before of/that: line 3"
    task = MinimalPairs(Letters(), file=path, subject=1)
    second = task.evaluate(ALL, 9, torch.Generator()).cue
    assert second is not None
    assert sorted(set(second.tolist())) == [-1, len("The keys"), len("Three old")]
    assert task.notes[-1] == f"{unmarked} the subject does not come before the verb: line 3"


def test_conditions_are_numbers_of_attractors_where_they_are_known(tmp_path: Path) -> None:
    """Else all pairs are one."""
    lines = ["a b c\ta b d\t0\t2\t1", "a b e\ta b f\t0\t2\t0", "a b g\ta b h\t0\t2\t1"]
    task = MinimalPairs(Letters(), file=table(tmp_path, *lines))
    assert [c.x for c in task.conditions()] == [0, 1]
    assert [scores(task, Fixed(torch.zeros(128)), c)["pairs"] for c in task.conditions()] == [1, 2]
    assert MinimalPairs(Letters(), file=table(tmp_path, lines[0], "a b c\ta b e\t0\t2")).conditions() == [ALL]


def test_pairs_are_drawn_without_repetition_and_halves_do_not_count(tmp_path: Path) -> None:
    """A file with fewer pairs than asked for is used whole, in order; from a larger one every seed has the same."""
    lines = [f"ab {chr(97 + i)}x\tab {chr(97 + i)}y\t0\t1" for i in range(20)]
    task = MinimalPairs(Letters(), file=table(tmp_path, *lines))
    generator = torch.Generator().manual_seed(0)
    few = task.evaluate(ALL, 5, generator)
    assert few.extra is not None
    assert len(few.extra["pair"].unique()) == 5
    assert few.extra["pair"].tolist() == sorted(few.extra["pair"].tolist())
    assert few.extra["pair"].tolist() != [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert MinimalPairs.fixed_data
    again = MinimalPairs(Letters(), file=tmp_path / "pairs.tsv").evaluate(ALL, 5, torch.Generator().manual_seed(9))
    assert torch.equal(again.tokens, few.tokens)
    more = task.evaluate(ALL, 6, generator).extra
    assert more is not None
    assert set(few.extra["pair"].tolist()) < set(more["pair"].tolist())
    everything = task.evaluate(ALL, 512, generator)
    assert len(everything) == 40
    outputs = torch.zeros(7, everything.tokens.shape[1], 128)
    assert task.summarise(task.score(outputs, everything[:7]))["pairs"] == 3


def test_padding_changes_nothing(tmp_path: Path) -> None:
    """Each sequence alone gives the scores that it has in a batch with longer ones."""
    lines = ["a b c\ta b d\t0\t2", "aaaa bbbb cc\taaaa bbbb dddd\t0\t2"]
    task = MinimalPairs(Letters(), file=table(tmp_path, *lines))
    torch.manual_seed(0)
    model = LSTM(128, embedding=8, hidden=8).eval()
    whole = task.evaluate(ALL, 9, torch.Generator())
    assert not whole.mask.all()
    together = task.score(model(whole.tokens), whole)
    each = [batch([(line, row)]) for line, of_line in task.rows.items() for row in of_line]
    for name in ("good", "bad"):
        alone = [task.score(model(one.tokens), one)[name].item() for one in each]
        assert together[name].tolist() == pytest.approx(alone, abs=1e-5)


def test_a_model_without_a_tokenizer_is_skipped_with_the_reason(tmp_path: Path) -> None:
    """Nothing fails, nothing is trained."""
    path = table(tmp_path, "They walk\tThey walks\t0\t1")
    results = harness.run(["lstm"], [f"minimal_pairs:file={path}"], ["accuracy"], seeds=1, out=tmp_path / "run")
    assert results.records[0].status == "skipped"
    assert "the model has no tokenizer" in (results.records[0].reason or "")


def test_what_pairs_cannot_do_is_said(tmp_path: Path) -> None:
    """No training, no exchange of subjects; NaN stays NaN."""
    task = MinimalPairs(Letters(), file=table(tmp_path, "They walk\tThey walks\t0\t1"))
    with pytest.raises(Skip, match="for testing"):
        next(task.train(4, torch.Generator()))
    with pytest.raises(Skip, match="cannot exchange subjects"):
        task.partners(task.evaluate(ALL, 1, torch.Generator()), torch.Generator())
    broken = Fixed(torch.full((128,), math.nan))
    for each in (task, MinimalPairs(Letters(), file=table(tmp_path, "key is\tkeys is\t\t0"))):
        found = {**scores(each, broken), **standard_errors(each, broken)}
        assert [name for name, value in found.items() if not math.isnan(value)] == []
        assert scores(each, broken)["pairs"] == 1


def test_what_is_wrong_is_refused_before_anything_runs(tmp_path: Path) -> None:
    """The file is read when the plan is made."""
    path = table(tmp_path, *["They walk\tThey walks"] * 16, "one sentence only")
    for request, problem in (
        (f"minimal_pairs:file={path}", "line 17: 1 columns"),
        (f"minimal_pairs:file={path},first_index=2", "'first_index' = '?2"),
        (f"minimal_pairs:file={path}x", "there is no file .*did you mean 'pairs.tsv'"),
        (f"minimal_pairs:file={path},subject=1,subject_before=of", "subject or subject_before, not both"),
        (f"minimal_pairs:file={path},scoring=prefix", "'scoring' = 'prefix'"),
    ):
        with pytest.raises(RequestError, match=f"(?i){problem}"):
            harness.run(["lstm"], [request], seeds=1, out=tmp_path / "run")
