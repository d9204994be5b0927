"""What plugins are called: short, never two alike, and the same in whatever order they come."""

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from record_factory import record, use

from harness.errors import RequestError
from harness.labels import full_labels, short_labels
from harness.results import Results
from harness.schema import PluginUse

LONG = "/data/checkpoints/2026"


def plugin(label: str, *, distribution: str = "sequence-harness", alias: str = "", target: str = "") -> PluginUse:
    """A plugin as used; one of a file has no distribution, and its path as target."""
    made = use(label, distribution=distribution)
    return PluginUse(**made | {"alias": alias, "target": target or made["target"]})


def file(path: str, arguments: str = "") -> PluginUse:
    """A plugin in a file, as it was typed."""
    return plugin(path + arguments, distribution="", target=path.replace("./", "/home/me/"))


def short(*uses: PluginUse) -> list[str]:
    """Their short labels in order."""
    return [*short_labels(uses).values()]


def test_equal_arguments_are_left_out_and_what_differs_stays() -> None:
    """A column of labels says in what its rows differ."""
    assert short(plugin("gpt:layers=2,width=64"), plugin("gpt:layers=4,width=64"), plugin("gpt:width=64")) == [
        "gpt:layers=2",
        "gpt:layers=4",
        "gpt",
    ]


def test_each_name_is_shortened_for_itself() -> None:
    """The width of an LSTM does not tell two transformers apart."""
    labels = short(plugin("gpt:width=64"), plugin("lstm:hidden=64,layers=1"), plugin("lstm:hidden=64,layers=2"))
    assert labels == ["gpt", "lstm:layers=1", "lstm:layers=2"]


def test_the_only_plugin_of_a_name_keeps_words_and_loses_sizes() -> None:
    """`gpt` alone would hide that it has no positions; how wide it is stands with the settings."""
    assert short(plugin("gpt:layers=4,position=none,width=256")) == ["gpt:position=none"]
    assert short(plugin("recall:distances=[1,2,4,8,16,32],pairs=8")) == ["recall"]


def test_a_slash_makes_no_path_of_a_text() -> None:
    """The name of the model stays, and so does that of the argument."""
    assert short(file("./mark.py:M", ":title=1/2")) == ["M:title=1/2"]
    assert short(file("./mark.py:M", ":title=1/2"), file("./mark.py:M", ":title=3/2")) == ["M:title=1/2", "M:title=3/2"]


@pytest.mark.parametrize("separator", ["/", "\\"])
def test_a_path_is_called_by_its_end(separator: str) -> None:
    """In JSON a backslash is written twice."""
    path = separator.join(["", "data", "tiny-gpt", ""])
    written = path.replace("\\", "\\\\")
    assert short(plugin(f'hf:path="{written}"')) == ["tiny-gpt"]


def test_as_much_of_a_path_comes_back_as_is_needed() -> None:
    """Two folders of one name are told apart by the one above, a third is left alone."""
    paths = [f"{LONG}/a/best", f"{LONG}/b/best", f"{LONG}/tiny"]
    assert short(*(plugin(f"hf:path={path}") for path in paths)) == ["a/best", "b/best", "tiny"]


def test_a_path_keeps_what_else_differs() -> None:
    """The same model twice, in two precisions."""
    labels = short(plugin(f"hf:path={LONG}/tiny"), plugin(f"hf:path={LONG}/tiny,dtype=bfloat16"))
    assert labels == ["tiny", "tiny:dtype=bfloat16"]


def test_code_in_files_is_called_by_its_class() -> None:
    """However long the path; two classes of one name get the end of theirs, and arguments stay behind it."""
    assert short(file("./a/long/folder/mixers.py:Mixer")) == ["Mixer"]
    assert short(file("./a/mixers.py:Mixer"), file("./b/mixers.py:Mixer", ":kind=new")) == [
        "a/mixers.py:Mixer",
        "b/mixers.py:Mixer:kind=new",
    ]
    assert short(file("./a/mixers.py:Mixer"), file("./b/mixers.py:Mixer")) == ["a/mixers.py:Mixer", "b/mixers.py:Mixer"]


def test_distributions_come_back_where_they_are_needed() -> None:
    """Two plugins of one name, one of them somebody else's: no difference of arguments may look like that."""
    assert short(plugin("gru"), plugin("gru:kind=new", distribution="acme")) == [
        "sequence-harness:gru",
        "acme:gru:kind=new",
    ]
    assert short(plugin("gru:hidden=8"), plugin("gru:hidden=8", distribution="acme")) == [
        "sequence-harness:gru",
        "acme:gru",
    ]


def test_an_alias_stays_and_others_give_way() -> None:
    """The user has chosen it; a plugin of that very name is called in full."""
    labels = short(plugin("gpt:layers=1", alias="lstm"), plugin("lstm"))
    assert labels == ["lstm", "sequence-harness:lstm"]


def test_full_labels_are_what_a_user_types() -> None:
    """With distributions only where two are alike; an alias is no label."""
    uses = [plugin("gpt:layers=1", alias="small"), plugin("gru"), plugin("gru", distribution="acme")]
    assert [*full_labels(uses).values()] == ["gpt:layers=1", "sequence-harness:gru", "acme:gru"]


WORDS = st.sampled_from(
    ["a", "gpt", "gpt:a=1", "a/gpt", "./a.py:gpt", "gpt (2)", "acme:gpt", "x", "", "gpt:path=a/gpt"]
)
USES = st.builds(
    lambda name, label, alias, distribution, target: PluginUse(
        name=name,
        label=label,
        alias=alias,
        arguments={},
        distribution=distribution,
        version="",
        target=target,
        digest="",
    ),
    WORDS,
    st.one_of(WORDS, st.builds("gpt:layers={},path={}/b".format, st.integers(0, 2), WORDS), st.text(max_size=8)),
    st.sampled_from(["", "", "", "gpt", "x"]),
    st.sampled_from(["", "acme", "acme:gpt"]),
    WORDS,
)


@given(uses=st.lists(USES, max_size=8), seed=st.randoms(use_true_random=False))
def test_no_two_plugins_are_called_alike_in_whatever_order(uses: list[PluginUse], seed: random.Random) -> None:
    """Also where names, aliases and distributions look like one another's labels."""
    shuffled = seed.sample(uses, len(uses))
    for labels in (short_labels, full_labels):
        found = labels(uses)
        assert len({*found.values()}) == len(found)
        assert found == labels(shuffled)


def test_results_are_found_by_what_tables_call_them() -> None:
    """As well as by name and in full."""
    path = f"{LONG}/tiny"
    results = Results((record(model=f"hf:path={path}"), record(model="lstm")), Path("run"))
    for asked in ("tiny", "hf", f"hf:path={path}"):
        assert [each.model.name for each in results.filter(model=asked)] == ["hf"]
    with pytest.raises(RequestError, match="tiny"):
        results.filter(model="tinny")


def test_what_a_grid_makes_of_a_model_is_called_as_the_user_called_it() -> None:
    """With what it varies; other models of the same code are none of them."""
    variants = [plugin(f"gpt:width=8,layers={n}", alias="mine") for n in (1, 3)]
    assert short(*variants, plugin("gpt:width=64")) == ["mine:layers=1", "mine:layers=3", "gpt:width=64"]
    assert short(plugin("gpt:width=8", alias="mine"), variants[1]) == ["mine", "mine:layers=3"]
