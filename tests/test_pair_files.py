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


def test_the_way_that_most_pairs_offer_is_chosen(tmp_path: Path) -> None:
    """One odd line does not decide for a whole file."""
    found = read_pairs(write(tmp_path / "a.jsonl", json.dumps(ONE), json.dumps(TWO), json.dumps(TWO)))
    assert found.scoring == "two_prefix"
    assert found.left_out == {"the file does not offer two_prefix for them": [1]}


def test_blimp_with_targets_of_several_words(tmp_path: Path) -> None:
    """All of them are scored, as many as each side has."""
    one = {**ONE, "one_prefix_word_good": "grocery stores", "one_prefix_word_bad": "grocery store"}
    two = {**TWO, "two_prefix_word": "shine very brightly"}
    first = read_pairs(write(tmp_path / "a.jsonl", json.dumps(one))).pairs[0]
    assert first.good == Sentence("The keys to the cabinet grocery stores", 5, None, 2)
    assert first.bad == Sentence("The keys to the cabinet grocery store", 5, None, 2)
    second = read_pairs(write(tmp_path / "b.jsonl", json.dumps(two))).pairs[0]
    assert second.good == Sentence("The keys shine very brightly", 2, 1, 3)


def test_an_empty_prefix_is_one(tmp_path: Path) -> None:
    """The words then come first; a field without a value is not there."""
    row = {**ONE, "one_prefix_prefix": "", "two_prefix_word": None}
    assert read_pairs(write(tmp_path / "a.jsonl", json.dumps(row))).pairs == [
        Pair(1, Sentence("are", 0), Sentence("is", 0))
    ]


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
        ([*[json.dumps(ONE)] * 16, '{"sentence_good": "Yes."}'], "no field is known to hold the bad sentence"),
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
    for content, problem in ((b"\n", "is empty"), (b",,\n", "is empty"), (b"good\tbad\n", "holds no pair")):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=problem):
            read_pairs(path, "csv" if b"," in content else "auto")


GOOD = 'He said "yes, they are" .'
BAD = 'He said "yes, they is" .'


def quoted(*cells: str, delimiter: str = ",") -> str:
    return delimiter.join('"' + cell.replace('"', '""') + '"' for cell in cells)


@pytest.mark.parametrize(
    ("name", "lines", "format"),
    [
        ("a.csv", ["sentence_good,sentence_bad", quoted(GOOD, BAD)], "csv"),
        ("a.csv", [quoted(GOOD, BAD)], "csv"),
        ("a.txt", ["id,Grammatical,Ungrammatical,verb", f"7,{quoted(GOOD, BAD)},4"], "csv"),
        ("a.txt", ["right;wrong", f"{quoted(GOOD)};{quoted(BAD)}"], "csv"),
        ("a.tsv", ["Acceptable sentence\tUnacceptable sentence", f"{GOOD}\t{BAD}"], "tsv"),
        ("a.tsv", ["incorrect\tcorrect\ttype", quoted(BAD, GOOD, "x", delimiter="\t")], "tsv"),
        ("a.jsonl", [json.dumps({"grammatical": GOOD, "ungrammatical": BAD, "verb": 4})], "blimp"),
    ],
)
def test_a_pair_is_the_same_in_every_form(tmp_path: Path, name: str, lines: list[str], format: str) -> None:
    """Names that people give columns, in any order and case; the quotes of spreadsheets are no text."""
    found = read_pairs(write(tmp_path / name, *lines), scoring="sentence")
    assert found.format == format
    assert [(pair.good.text, pair.bad.text) for pair in found.pairs] == [(GOOD, BAD)]
    assert found.pairs[0].line == len(lines)
    assert found.pairs[0].good.verb == (4 if any("verb" in line for line in lines) else None)


def test_quotes_that_begin_a_sentence_stay(tmp_path: Path) -> None:
    """In a table with tabs, where they do not enclose whole cells."""
    rows = ('"Yes ," they say .\t"Yes ," they says .', '"No .\t"No !')
    assert read_pairs(write(tmp_path / "a.tsv", "good\tbad", *rows)).pairs[0].good.text == '"Yes ," they say .'
    across = ('They say "yes\t"They says "yes', 'Keys are"\tKeys is"')
    assert read_pairs(write(tmp_path / "b.tsv", "good\tbad", *across)).pairs[1].good.text == 'Keys are"'


def test_a_cell_may_go_over_several_lines(tmp_path: Path) -> None:
    """A pair has the number of the line where it begins."""
    rows = ("good,bad", '"They\nwalk",They walks', "", "Keys are,Keys is")
    assert [(pair.line, pair.good.words) for pair in read_pairs(write(tmp_path / "a.csv", *rows)).pairs] == [
        (2, ["They", "walk"]),
        (5, ["Keys", "are"]),
    ]


def test_blimp_as_a_table(tmp_path: Path) -> None:
    """Its fields mean the same there, and an empty cell is no field."""
    fields = list(dict.fromkeys([*ONE, *TWO]))
    rows = (quoted(*(row.get(field, "") for field in fields)) for row in (ONE, TWO, ONE))
    found = read_pairs(write(tmp_path / "a.csv", ",".join(fields), *rows))
    assert found.scoring == "one_prefix"
    prefix = "The keys to the cabinet"
    assert found.pairs[0] == Pair(2, Sentence(f"{prefix} are", 5), Sentence(f"{prefix} is", 5))
    assert read_pairs(tmp_path / "a.csv", scoring="two_prefix").pairs[0].good == Sentence("The keys shine", 2, 1)


def test_alternating_lines(tmp_path: Path) -> None:
    """Only where the user says so; the error says how."""
    path = write(tmp_path / "a.txt", "They walk .", "They walks .", "", "Keys are .", "Keys is .")
    with pytest.raises(ValueError, match=r"line 1: one column, .* say format=lines"):
        read_pairs(path)
    assert read_pairs(path, "lines").pairs == [
        Pair(1, Sentence("They walk ."), Sentence("They walks .")),
        Pair(4, Sentence("Keys are ."), Sentence("Keys is .")),
    ]
    with pytest.raises(ValueError, match=r"line 3: the last sentence has no partner; 3 lines"):
        read_pairs(write(path, "They walk .", "They walks .", "Keys are ."), "lines")


def test_commas_may_be_columns_or_part_of_a_sentence(tmp_path: Path) -> None:
    """Where the name and the first line do not say, the user must."""
    path = write(tmp_path / "a.txt", "If they walk, they are here .", "If they walks, they are here .")
    with pytest.raises(ValueError, match=r"2 columns with ',' .* format=csv for a table, or format=lines"):
        read_pairs(path)
    assert len(read_pairs(path, "lines").pairs) == 1
    assert len(read_pairs(write(path, "They walk,They walks", "Keys are,Keys is"), "csv").pairs) == 2
    with pytest.raises(ValueError, match=r"line 2: 3 columns, where good, bad are expected \(a cell with commas"):
        read_pairs(write(path, "good,bad", "Yes, they walk,They walks"))
    with pytest.raises(ValueError, match="line 2: the quotes do not enclose a cell"):
        read_pairs(write(path, "good,bad", '"Yes," they walk,They walks'))


@pytest.mark.parametrize(
    ("first", "problem"),
    [
        ("first\tsecond", "is 'first', 'second' a pair of sentences or the names of columns"),
        ("Sentence 1\tSentence 2", "or the names of columns"),
        ("item\tThey walk .\tThey walks .", "or the names of columns"),
        ("They walk .\tThey walks .\tagreement", "or the names of columns"),
        ("good\tother", "no column is known to hold the bad sentence; say bad_column=NAME. There are good, other"),
        ("good\tcorrect\tbad", "good and correct may hold the good sentence; say good_column=NAME"),
    ],
)
def test_a_first_line_that_may_be_names_is_asked_about(tmp_path: Path, first: str, problem: str) -> None:
    """It is never scored as a pair, nor a column chosen by its place."""
    path = write(tmp_path / "a.tsv", first, "They walk .\tThey walks .")
    with pytest.raises(ValueError, match=f"line 1: .*{problem}"):
        read_pairs(path)


def test_the_user_may_name_the_columns(tmp_path: Path) -> None:
    """By the names in the file, of tables and of JSON lines."""
    path = write(tmp_path / "a.tsv", "id\tsecond\tfirst", "1\tThey walks .\tThey walk .")
    expected = [Pair(2, Sentence("They walk ."), Sentence("They walks ."))]
    assert read_pairs(path, good_column="first", bad_column="second").pairs == expected
    write(tmp_path / "b.jsonl", "", json.dumps({"x": "They walk .", "y": "They walks ."}))
    assert read_pairs(tmp_path / "b.jsonl", good_column="x", bad_column="y").pairs == expected
    with pytest.raises(ValueError, match=r"no column is called 'third' \(good_column\); there are id, second, first"):
        read_pairs(path, good_column="third", bad_column="second")
    with pytest.raises(ValueError, match="cannot hold both"):
        read_pairs(path, good_column="first", bad_column="first")
    with pytest.raises(ValueError, match="good_column: a file of format=lines has none to name"):
        read_pairs(path, "lines", good_column="first")


COUNTED = ("The keys to it are here .\tThe keys to it is here .", "The key is here .\tThe key are here .")


CONTEXTS = (
    ("The keys are on the desk\tThe key are on the desk", 1, 2),
    ("The authors near it laugh at him\tThe author near it laugh at him", 1, 4),
)


def test_indices_from_1_are_asked_about_where_the_verb_stays_the_same(tmp_path: Path) -> None:
    """The subject is the word that differs, which tells from what words are counted; without it, nothing does."""
    ones = write(tmp_path / "a.tsv", "good\tbad\tsubject\tverb", *(f"{c}\t{s + 1}\t{v + 1}" for c, s, v in CONTEXTS))
    with pytest.raises(ValueError, match=r"of 2 pairs make sense only if words are counted from 1"):
        read_pairs(ones)
    zeros = write(tmp_path / "b.tsv", "good\tbad\tsubject\tverb", *(f"{c}\t{s}\t{v}" for c, s, v in CONTEXTS))
    for found in (read_pairs(ones, first_index=1), read_pairs(zeros)):
        words = [
            (pair.good.words[pair.good.subject or 0], pair.good.words[pair.good.verb or 0]) for pair in found.pairs
        ]
        assert words == [("keys", "are"), ("authors", "laugh")]
        assert found.scoring == "two_prefix"
    verbs = write(tmp_path / "c.tsv", "good\tbad\tverb", *(f"{c}\t{v}" for c, _, v in CONTEXTS))
    with pytest.raises(ValueError, match="those of 2 either way"):
        read_pairs(verbs)
    assert len(read_pairs(verbs, first_index=0).pairs) == 2


def test_indices_from_1_are_asked_about(tmp_path: Path) -> None:
    """Read from 0, the word after the verb would be scored after a right and a wrong context."""
    path = write(tmp_path / "a.tsv", f"{COUNTED[0]}\t2\t5", f"{COUNTED[1]}\t2\t3")
    with pytest.raises(
        ValueError, match=r"of 1 pairs make sense only if .* from 1, those of 0 only from 0, and those of 1"
    ):
        read_pairs(path)
    found = read_pairs(path, first_index=1)
    assert found.scoring == "one_prefix"
    assert [(pair.good.subject, pair.good.verb) for pair in found.pairs] == [(1, 4), (1, 2)]
    assert read_pairs(path, first_index=0).scoring == "two_prefix"
    zero = write(tmp_path / "b.tsv", f"{COUNTED[0]}\t1\t4", f"{COUNTED[1]}\t1\t2")
    assert [pair.good.verb for pair in read_pairs(zero).pairs] == [4, 2]
    with pytest.raises(ValueError, match="line 1: verb = 0, but the words are counted from 1 to 7"):
        read_pairs(write(tmp_path / "c.tsv", f"{COUNTED[0]}\t1\t0"), first_index=1)
    with pytest.raises(ValueError, match="counted from 0 to 2; say first_index=1 if the words are counted from 1"):
        read_pairs(write(tmp_path / "d.tsv", "They all walk\tThey all walks\t1\t2", "A b c\tA b d\t0\t3"))


def test_marks_that_fit_no_pair_are_not_left_unused(tmp_path: Path) -> None:
    """Whole sentences are scored if the user says so."""
    path = write(tmp_path / "a.tsv", f"{COUNTED[0]}\t1\t2", f"{COUNTED[1]}\t0\t1")
    with pytest.raises(ValueError, match=r"line 1: no pair can be scored by its marked verb \(here 'to' and 'to'\)"):
        read_pairs(path)
    assert len(read_pairs(path, scoring="sentence").pairs) == 2
