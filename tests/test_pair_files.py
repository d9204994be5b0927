"""Files of minimal pairs, as people have them: what is read, what is refused and where."""

import json
from pathlib import Path

import pytest
from harness_plugins.tasks.pair_files import Pair, Sentence, read_pairs

ONE = {
    "sentence_good": "The keys to the cabinet are here.",
    "sentence_bad": "The keys to the cabinet is here.",
    "one_prefix_prefix": "The keys to the cabinet",
    "one_prefix_word_good": "are",
    "one_prefix_word_bad": "is",
    "UID": "invented",
}
TWO = {
    "sentence_good": "The keys shine.",
    "sentence_bad": "The key shine.",
    "two_prefix_prefix_good": "The keys",
    "two_prefix_prefix_bad": "The key",
    "two_prefix_word": "shine",
}


def write(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_blimp_with_one_prefix(tmp_path: Path) -> None:
    """The two forms after the prefix; whole sentences if asked."""
    path = write(tmp_path / "a.jsonl", json.dumps(ONE))
    found = read_pairs(path)
    assert (found.format, found.scoring, found.left_out) == ("blimp", "one_prefix", {})
    prefix = "The keys to the cabinet"
    assert found.pairs == [Pair(1, Sentence(f"{prefix} are", 5), Sentence(f"{prefix} is", 5))]
    whole = read_pairs(path, scoring="sentence").pairs[0]
    assert (whole.good.text, whole.bad.text) == (ONE["sentence_good"], ONE["sentence_bad"])
    assert whole.good.words[whole.good.verb or 0] == "are"


def test_blimp_with_two_prefixes(tmp_path: Path) -> None:
    """The word in which the contexts differ is the subject, if there is just one."""
    other = {**TWO, "two_prefix_prefix_bad": "An old key"}
    found = read_pairs(write(tmp_path / "a.jsonl", json.dumps(TWO), json.dumps(other)))
    assert found.scoring == "two_prefix"
    assert found.pairs[0] == Pair(1, Sentence("The keys shine", 2, 1), Sentence("The key shine", 2, 1))
    assert found.pairs[1].bad == Sentence("An old key shine", 3, None)


def test_pairs_without_the_chosen_scoring_are_left_out_by_line(tmp_path: Path) -> None:
    """Empty lines do not shift the numbers."""
    found = read_pairs(write(tmp_path / "a.jsonl", json.dumps(ONE), "", json.dumps(TWO)), scoring="two_prefix")
    assert [pair.line for pair in found.pairs] == [3]
    assert found.left_out == {"the file does not offer two_prefix for them": [1]}
    with pytest.raises(ValueError, match="scored by two_prefix; the file offers one_prefix, sentence"):
        read_pairs(write(tmp_path / "b.jsonl", json.dumps(ONE)), scoring="two_prefix")


def test_a_table(tmp_path: Path) -> None:
    """Two sentences, then perhaps word indices from 0; the verb decides how the pair is scored."""
    rows = (
        "The keys to the door are here .\tThe keys to the door is here .\t1\t5\t1",
        "The keys shine .\tThe key shine .\t1\t2",
        "Keys shine .\tKey shines .",
    )
    found = read_pairs(write(tmp_path / "a.tsv", *rows))
    assert (found.format, found.scoring) == ("tsv", "one_prefix")
    assert [pair.line for pair in found.pairs] == [1]
    assert found.pairs[0].attractors == 1
    assert found.pairs[0].good == Sentence("The keys to the door are here .", 5, 1)
    assert found.left_out == {"the file does not offer one_prefix for them": [2, 3]}
    assert [pair.line for pair in read_pairs(tmp_path / "a.tsv", scoring="two_prefix").pairs] == [2]
    assert len(read_pairs(tmp_path / "a.tsv", scoring="sentence").pairs) == 3


def test_a_table_may_name_its_columns(tmp_path: Path) -> None:
    """In any order, then."""
    found = read_pairs(write(tmp_path / "a.tsv", "verb\tbad\tgood", "1\tThey walks .\tThey walk ."))
    assert found.pairs == [Pair(2, Sentence("They walk .", 1), Sentence("They walks .", 1))]


HEADER = "pattern\tconstr_id\tsent_id\tcorrect_number\tform\tclass\ttype\tprefix\tn_attr\tlen_context\tlen_prefix\tsent"


def gulordava(number: str, form: str, side: str, prefix: str = "The <unk> that I saw", sent: str = "") -> str:
    sentence = sent or "The wugs that I saw sing . <eos>"
    return "\t".join(["N", "1", number, "plur", form, side, "generated", prefix, "2", "4", "5", sentence])


def test_the_table_of_gulordava(tmp_path: Path) -> None:
    """Two lines a pair; the context begins at the subject; a word their vocabulary lacked comes from the sentence."""
    lines = (gulordava("1", "sing", "correct"), gulordava("1", "sings", "wrong"), gulordava("2", "run", "correct"))
    quoted = (
        gulordava("3", "use", "correct", '"Say ""wugs"" that I saw"'),
        gulordava("3", "uses", "wrong", '"Say ""wugs"" that I saw"'),
    )
    found = read_pairs(write(tmp_path / "generated.tab", HEADER, *lines, *quoted))
    assert (found.format, found.scoring) == ("gulordava", "one_prefix")
    assert found.pairs[0] == Pair(
        2, Sentence("The wugs that I saw sing", 5, 1), Sentence("The wugs that I saw sings", 5, 1), 2
    )
    assert found.pairs[1].good.text == 'Say "wugs" that I saw use'
    assert found.left_out == {"the file does not offer one_prefix for them": [4]}  # its other half is missing


def table_row(text: str) -> list[str]:
    return [*["They walk .\tThey walks .\t0\t1"] * 16, text]


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ([*[json.dumps(ONE)] * 16, '{"sentence_good": "The'], "it is no JSON object"),
        ([*[json.dumps(ONE)] * 16, "[1]"], "it is no JSON object"),
        ([*[json.dumps(ONE)] * 16, '{"sentence_good": "Yes."}'], "the field 'sentence_bad' is missing"),
        ([*[json.dumps(ONE)] * 16, json.dumps({**ONE, "one_prefix_word_bad": 3})], "the field 'one_prefix_word_bad'"),
        (table_row("only one sentence"), "1 columns, where good, bad, subject, verb, attractors"),
        (table_row("They walk .\t"), "the bad sentence is empty"),
        (table_row("They walk .\tThey walks .\tfirst"), "subject = 'first', where a number"),
        (table_row("They walk .\tThey walks .\t0\t3"), "verb = 3, but the words are counted from 0 to 2"),
        ([HEADER, *[gulordava(str(i), "sing", "correct") for i in range(15)], "N\t1"], "2 columns, where 12"),
        ([HEADER, *[gulordava(str(i), "sing", "correct") for i in range(15)], gulordava("9", "x", "odd")], "class"),
        ([HEADER, *[gulordava(str(i), "sing", "correct") for i in range(15)], gulordava("3", "x", "correct")], "secon"),
    ],
)
def test_a_broken_line_is_named(tmp_path: Path, lines: list[str], problem: str) -> None:
    """With its file and its number."""
    path = write(tmp_path / "pairs.txt", *lines)
    with pytest.raises(ValueError, match=f"line 17: .*{problem}") as caught:
        read_pairs(path)
    assert str(path) in str(caught.value)


def test_text_that_is_not_utf_8_is_named(tmp_path: Path) -> None:
    """And a byte-order mark does no harm."""
    path = tmp_path / "a.tsv"
    path.write_bytes(b"\xef\xbb\xbfgood\tbad\nThey walk\tThey walks\nCaf\xe9 is\tCaf\xe9 are\n")
    with pytest.raises(ValueError, match="line 3: it is not UTF-8"):
        read_pairs(path)
    path.write_bytes(b"\xef\xbb\xbfgood\tbad\r\nThey walk\tThey walks\r\n")
    assert read_pairs(path).pairs == [Pair(2, Sentence("They walk"), Sentence("They walks"))]
    path.write_bytes(b"\n")
    with pytest.raises(ValueError, match="is empty"):
        read_pairs(path)
