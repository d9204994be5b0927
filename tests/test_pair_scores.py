"""Scores of pairs against a direct computation, one text at a time, which shares no code with the task."""

import json
import math
import re
import unicodedata
from pathlib import Path
from typing import Any

import pytest
import torch
from hf_models import save, tokenizer

from harness import Skip
from harness.measurements import Scalar
from harness.needs import unmet
from harness.subject import Subject

pytest.importorskip("transformers")

from harness_plugins.models.hf import HF
from harness_plugins.tasks.minimal_pairs import MinimalPairs

FOLDERS = [parent / "shared" / "data" / "blimp" for parent in Path(__file__).resolve().parents]
BLIMP = [path for folder in FOLDERS for path in sorted(folder.glob("*.jsonl"))]
KINDS = ("bytes", "bytes, unmerged", "pieces", "lower case", "words")
START = 1

Texts = tuple[str, str, str, str]
"""What comes before the right form, the right form; what comes before the wrong form, the wrong form."""


class Naive:
    """A model and its tokenizer, asked for one text at a time."""

    def __init__(self, folder: Path, kind: str, inner: Any) -> None:
        from transformers import AutoModelForCausalLM

        self.inner = inner
        self.model = AutoModelForCausalLM.from_pretrained(folder).eval()
        self.ends = [self._ends(kind, inner.convert_ids_to_tokens(token)) for token in range(len(inner))]

    @staticmethod
    def _ends(kind: str, name: str) -> bool:
        """By the marks that the kinds of tokenizer put on the tokens of their vocabularies."""
        if kind == "words" or name.startswith("<"):
            return True
        if kind == "lower case":
            return not name.startswith("##")
        if name[0] in ("Ġ", "▁"):
            return True
        # bytes that are no printable sign have a letter above Latin-1 for a name; all others stand for themselves
        control = name[0] > "\xff" and ord(name[0]) - 256 <= 33
        return control or (name[0] < "\x80" and unicodedata.category(name[0])[0] in "PS" and name[0] not in "'-_")

    def ids(self, text: str) -> list[int]:
        return list(self.inner(text, add_special_tokens=False)["input_ids"])

    def __call__(self, texts: Texts) -> tuple[float, float, int, int] | None:
        """Log-probabilities of both forms and their numbers of tokens; None where they cannot be compared."""
        sides = []
        for before, form in (texts[:2], texts[2:]):
            whole = self.ids(f"{before} {form}".strip())
            context = self.ids(before) if before else []
            if whole[: len(context)] != context:
                return None
            sides.append((context, whole[len(context) :]))
        (context, right), (other, wrong) = sides
        known = [token for token in (*right, *wrong) if token == self.inner.unk_token_id]
        if known or (context, right) == (other, wrong):
            return None
        short, long = sorted((right, wrong), key=len)
        ending = context == other and long[: len(short)] == short
        if ending and self.ends[long[len(short)]]:
            return None
        good, bad = (self._log_prob(*side, ending) for side in sides)
        return good, bad, len(right) + ending, len(wrong) + ending

    def _log_prob(self, context: list[int], form: list[int], ending: bool) -> float:
        tokens = [START, *context, *form]
        with torch.no_grad():
            log_probs = self.model(input_ids=torch.tensor([tokens])).logits[0].double().log_softmax(-1)
        total: float = sum(log_probs[len(context) + i, token].item() for i, token in enumerate(form))
        if not ending:
            return total
        return total + math.log(sum(log_probs[-1, token].exp().item() for token, ends in enumerate(self.ends) if ends))


def compare(folder: Path, kind: str, file: Path, texts: dict[int, Texts], examples: int, **more: Any) -> int:
    """Hold the task's scores against the naive ones; returns how many pairs were scored."""
    text = [f"{before} {form}".strip() for each in texts.values() for before, form in (each[:2], each[2:])]
    inner = tokenizer(kind, text)
    save(folder, "llama", inner)
    naive = Naive(folder, kind, inner)
    task = MinimalPairs(HF.tokenizer(str(folder), None, False), file=file, **more)
    model = HF(task.interface, path=str(folder)).eval()
    subject = Subject(model, task, stage="trained", seed=0, device=torch.device("cpu"), examples=examples)
    (condition,) = task.conditions()
    extra = subject.batch(condition).extra
    assert extra is not None
    asked = sorted(set(extra["pair"].tolist()))
    expected = {line: naive(texts[line]) for line in (texts if examples >= len(texts) else asked)}
    scored = {line: each for line, each in expected.items() if each is not None}
    assert sorted(scored) == asked
    scores = subject.scores(condition)
    for line, numbers in scored.items():
        rows = extra["pair"] == torch.tensor(line)
        for name, number in zip(("good", "bad", "good_tokens", "bad_tokens"), numbers, strict=True):
            assert scores[name][rows].sum().item() == pytest.approx(number, abs=2e-4), (kind, line, name, texts[line])
    found = task.summarise(scores)
    right = [good > bad for good, bad, _, _ in scored.values()]
    per_token = [good / n > bad / m for good, bad, n, m in scored.values()]
    assert found["accuracy"] == pytest.approx(sum(right) / len(right))
    assert found["accuracy_per_token"] == pytest.approx(sum(per_token) / len(per_token))
    assert found["log_odds"] == pytest.approx(sum(g - b for g, b, _, _ in scored.values()) / len(scored), abs=2e-4)
    return len(scored)


def blimp_texts(row: dict[str, str]) -> Texts:
    if "one_prefix_prefix" in row:
        prefix = row["one_prefix_prefix"]
        return prefix, row["one_prefix_word_good"], prefix, row["one_prefix_word_bad"]
    word = row["two_prefix_word"]
    return row["two_prefix_prefix_good"], word, row["two_prefix_prefix_bad"], word


@pytest.mark.skipif(not BLIMP, reason="no files of BLiMP are here")
@pytest.mark.parametrize("kind", KINDS)
def test_files_of_blimp(tmp_path: Path, kind: str) -> None:
    """Every two hundredth line, by the word that differs and as whole sentences."""
    for path in BLIMP:
        lines = path.read_text(encoding="utf-8").splitlines()[::200]
        (tmp_path / path.name).write_text("\n".join(lines), encoding="utf-8")
        rows = {number: json.loads(line) for number, line in enumerate(lines, 1)}
        texts = {number: blimp_texts(row) for number, row in rows.items()}
        assert compare(tmp_path / "model", kind, tmp_path / path.name, texts, 99) == len(lines)
        whole: dict[int, Texts] = {n: ("", row["sentence_good"], "", row["sentence_bad"]) for n, row in rows.items()}
        assert compare(tmp_path / "model", kind, tmp_path / path.name, whole, 5, scoring="sentence") == 5


PAIRS: dict[str, tuple[str, str, str, str, str]] = {
    "other forms": ("The keys to the cabinet", "are", "The keys to the cabinet", "is", "here ."),
    "one begins the other": ("The author", "laughs", "The author", "laugh", "near us ."),
    "the other way round": ("The authors , here ,", "laugh", "The authors , here ,", "laughs", "."),
    "two contexts": ("The keys", "shine", "The key", "shine", "."),
    "several words": ("They saw the", "ice rink", "They saw the", "ice rinks", "there ."),
    "several words after two contexts": (
        "They saw that",
        "grocery store",
        "They saw those",
        "grocery store",
        "there .",
    ),
    "nothing follows": ("Here", "it is", "Here", "it iss", ""),
    "nothing is before": ("", "is", "", "are", "he here ?"),
    "quotes and commas": ('"Yes" , they', "walk", '"Yes" , they', "walks", '" home "'),
}
ONE = {name: pair for name, pair in PAIRS.items() if pair[0] == pair[2]}
TWO = {name: pair for name, pair in PAIRS.items() if pair[1] == pair[3]}
WORD = {name: pair for name, pair in ONE.items() if " " not in pair[1]}


def sentences(pair: tuple[str, str, str, str, str]) -> tuple[str, str]:
    before, form, other, wrong, after = pair
    return f"{before} {form} {after}".strip(), f"{other} {wrong} {after}".strip()


def quoted(cell: str) -> str:
    return '"' + cell.replace('"', '""') + '"'


def blimp_line(pair: tuple[str, str, str, str, str]) -> str:
    good, bad = sentences(pair)
    fields = {"sentence_good": good, "sentence_bad": bad}
    if pair[0] == pair[2]:
        words = {"one_prefix_prefix": pair[0], "one_prefix_word_good": pair[1], "one_prefix_word_bad": pair[3]}
    else:
        words = {"two_prefix_prefix_good": pair[0], "two_prefix_prefix_bad": pair[2], "two_prefix_word": pair[1]}
    return json.dumps({**fields, **words})


def gulordava(number: int, pair: tuple[str, str, str, str, str]) -> list[str]:
    length = str(len(pair[0].split()))
    start = ["P", str(number), "1", "x"]
    return [
        "\t".join([*start, form, side, "original", quoted(pair[0]), "0", "1", length, quoted(pair[0])])
        for form, side in ((pair[1], "correct"), (pair[3], "wrong"))
    ]


def written(name: str) -> tuple[list[str], dict[int, Texts]]:
    """A made file, and what is to be scored in each of its lines."""
    words = {n: pair[:4] for n, pair in enumerate(WORD.values(), 2)}
    whole: list[Texts] = [("", good, "", bad) for good, bad in map(sentences, PAIRS.values())]
    if name in ("one.jsonl", "two.jsonl"):
        pairs = ONE if name == "one.jsonl" else TWO
        return [blimp_line(pair) for pair in pairs.values()], {n: p[:4] for n, p in enumerate(pairs.values(), 1)}
    if name == "marks.csv":  # the subject is the first word, in every other line
        rows = [
            (*map(quoted, sentences(p)), "0" * (n % 2), str(len(p[0].split()))) for n, p in enumerate(WORD.values())
        ]
        return ["Grammatical,Ungrammatical,subject,verb", *map(",".join, rows)], words
    if name == "counted.tsv":
        rows = [(str(len(p[0].split()) + 1), *reversed(sentences(p))) for p in WORD.values()]
        return ["verb\tsentence_bad\tsentence_good", *map("\t".join, rows)], words
    if name == "whole.tsv":
        return ["\t".join(sentences(pair)) for pair in PAIRS.values()], dict(enumerate(whole, 1))
    if name == "lines.txt":
        lines = [sentence for pair in PAIRS.values() for sentence in sentences(pair)]
        return lines, {2 * n + 1: each for n, each in enumerate(whole)}
    header = "pattern constr_id sent_id number form class type prefix n_attr len_context len_prefix sent"
    numbered = {number: pair for number, pair in enumerate(WORD.values()) if pair[0]}
    lines = [line for number, pair in numbered.items() for line in gulordava(number, pair)]
    return [header.replace(" ", "\t"), *lines], {2 + 2 * n: p[:4] for n, p in enumerate(numbered.values())}


ARGUMENTS: dict[str, dict[str, Any]] = {
    "one.jsonl": {},
    "two.jsonl": {},
    "marks.csv": {},
    "counted.tsv": {"first_index": 1},
    "whole.tsv": {},
    "lines.txt": {"format": "lines"},
    "generated.tab": {},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ARGUMENTS)
def test_made_files(tmp_path: Path, name: str, kind: str) -> None:
    """In every form in which pairs are written, and with every kind of tokenizer: nothing is left out."""
    lines, texts = written(name)
    path = tmp_path / name
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert compare(tmp_path / "model", kind, path, texts, 99, **ARGUMENTS[name]) == len(texts)


MARKED = [
    "The keys to the cabinet are here .\tThe keys to the cabinet is here .\t1\t5",
    "The authors near the hotel laugh .\tThe authors near the hotel laughs .\t1\t5",
    "The key is here .\tThe key are here .\t1\t2",
]
UNMARKED = [
    "There are keys .\tThere is keys .\t2\t1",
    "The hotels are here .\tThe hotels is here .\t\t2",
    "It is here .\tIt are here .\t1\t1",
]


def test_probes_of_the_subject_take_the_marked_pairs(tmp_path: Path) -> None:
    """Beside pairs without marks, of which all are scored, they measure what they measure without them."""
    from harness_plugins.probes.accuracy import accuracy
    from harness_plugins.probes.attention_to_subject import AttentionToSubject
    from harness_plugins.probes.edge_cut import EdgeCut
    from harness_plugins.probes.grad_reach import GradReach
    from harness_plugins.probes.input_swap import input_swap

    folder = save(tmp_path / "model", "llama", tokenizer("bytes"))

    def subject(*lines: str) -> Subject:
        path = tmp_path / "pairs.tsv"
        path.write_text("\n".join(("good\tbad\tsubject\tverb", *lines)), encoding="utf-8")
        task = MinimalPairs(HF.tokenizer(str(folder), None, False), file=path)
        model = HF(task.interface, path=str(folder)).eval()
        return Subject(model, task, stage="trained", seed=0, device=torch.device("cpu"))

    mixed = subject(UNMARKED[0], MARKED[0], UNMARKED[1], *MARKED[1:], UNMARKED[2])
    assert unmet(("cue", "attention"), mixed) == ""
    scored = {each.name: each for each in accuracy(mixed)}
    assert isinstance(pairs := scored["pairs"], Scalar)
    assert pairs.value == 6
    for probe in (AttentionToSubject(), EdgeCut(layer=1, head=1), GradReach()):
        alone = {each.name: rounded(each.model_dump_json()) for each in probe(subject(*MARKED))}
        beside = subject(UNMARKED[0], MARKED[0], UNMARKED[1], *MARKED[1:], UNMARKED[2])
        found = {each.name: rounded(each.model_dump_json()) for each in probe(beside)}
        assert {name: found[name] for name in alone} == alone
    with pytest.raises(Skip, match="cannot exchange subjects"):
        list(input_swap(mixed))
    none = subject(*UNMARKED)
    assert unmet(("cue",), none) == "the task marks no cue and query positions"
    assert len(list(GradReach()(none))) > 0


def rounded(text: str) -> str:
    """Without the digits that the width of a batch may change."""
    return re.sub(r"-?\d+\.\d+(e-?\d+)?", lambda number: f"{float(number[0]):.3g}", text)
