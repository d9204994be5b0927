"""Under which conditions a report's numbers were measured."""

from typing import Any

import pytest
from record_factory import record, use

from harness.measurements import Scalar
from harness.report import render, rows
from harness.report.blocks import document
from harness.report.elements import Block, Paragraph, Table
from harness.report.export import COLUMNS
from harness.report.grouping import group
from harness.schema import PluginUse, Record

SCORE = Scalar(name="score", unit="", value=0.5, headline=True)


def seeds(n: int = 3, **more: Any) -> list[Record]:
    """Seeds of one model."""
    return [record(SCORE, seed=seed, **more) for seed in range(n)]


def paragraph(blocks: list[Block], word: str) -> str:
    """The only paragraph with that word."""
    (found,) = (block.text for block in blocks if isinstance(block, Paragraph) and word in block.text)
    return found


def table(blocks: list[Block], header: str) -> dict[str, list[str]]:
    """The first table that has a column of that name: cells by header."""
    tables = ({column.header: column.cells for column in block.columns} for block in blocks if isinstance(block, Table))
    return next(found for found in tables if header in found)


DIFFERENT = [
    *seeds(model="lstm", training={"lr": 3e-3, "optimizer": "adam", "clip": None}, loss=0.5),
    *seeds(model="gpt", training={"lr": 1e-3, "optimizer": "adam", "clip": None}, loss=1.5),
]


def test_what_is_the_same_for_all_is_said_once() -> None:
    """Every training setting with its value, defaults too; examples, seeds and machine; what differs is announced."""
    blocks = document(DIFFERENT)
    said = paragraph(blocks, "Training")
    settings = "optimizer=adam, weight_decay=0, warmup=0, schedule=constant, clip=none, steps=1000, batch_size=64"
    assert said.startswith(
        f"Training: {settings}; lr as listed below. "
        "Evaluation: at most 256 examples per condition, seeds 0-2. Measured on cpu,"
    )
    assert "optimizer" not in render(DIFFERENT).split("after training")[1]


def test_tables_show_the_settings_in_which_their_rows_differ() -> None:
    """And no others."""
    shown = table(document(DIFFERENT), "score")
    assert list(shown) == ["model", "parameters", "lr", "seeds", "score"]
    assert dict(zip(shown["model"], shown["lr"], strict=True)) == {"gpt": "0.001", "lstm": "0.003"}
    assert "lr" not in table(document(DIFFERENT[:3]), "score")


def test_a_model_that_was_not_measured_makes_no_setting_differ() -> None:
    """It has no row."""
    skipped = record(model="gpt", skipped="no attention", training={"lr": 1e-3})
    assert "lr" not in table(document([*DIFFERENT[:3], skipped]), "score")


def test_how_training_went() -> None:
    """The validation loss of every model with its range over seeds, however many probes looked at it."""
    records = [
        record(SCORE, probe=probe, seed=seed, loss=loss)
        for seed, loss in enumerate((0.5, 0.25, 4.0))
        for probe in ("accuracy", "leak")
    ]
    shown = table(document(records), "validation loss")
    assert shown == {"model": ["lstm"], "validation loss": ["0.500 [0.250..4]"]}


def test_steps_that_were_taken_are_told_where_they_are_not_those_asked_for() -> None:
    """Early stops and epochs."""
    early = [
        record(SCORE, seed=seed, loss=1.0, steps=steps, training={"patience": 3})
        for seed, steps in enumerate((300, 500, 900))
    ]
    blocks = document(early)
    assert table(blocks, "validation loss")["steps taken"] == ["500 [300..900]"]
    assert "validate_every=100, patience=3" in paragraph(blocks, "Training")
    epochs = document(seeds(training={"epochs": 2, "steps": None}, loss=1.0, steps=70))
    assert table(epochs, "validation loss")["steps taken"] == ["70"]
    assert "epochs=2" in paragraph(epochs, "Training")
    assert "steps" not in paragraph(epochs, "Training")


def test_trainings_of_several_tasks_are_listed_by_task() -> None:
    """With the settings that the tasks differ in, which no other table tells."""
    records = seeds(task="recall", loss=1.0) + seeds(task="farm", loss=2.0, training={"steps": 3000})
    shown = table(document(records), "validation loss")
    assert list(zip(shown["task"], shown["steps"], shown["validation loss"], strict=True)) == [
        ("farm", "3000", "2"),
        ("recall", "1000", "1.00"),
    ]


def test_a_model_that_occurs_twice_is_labelled_with_what_differs() -> None:
    """The label, which every table has, tells its rows apart; other models then say the same, and no column does."""
    records = [r for lr in (1e-3, 3e-3) for r in seeds(training={"lr": lr})] + seeds(model="gpt", training={"lr": 1e-2})
    shown = table(document(records), "score")
    assert shown["model"] == ["gpt (lr=0.01)", "lstm (lr=0.001)", "lstm (lr=0.003)"]
    assert "lr" not in shown


def test_a_model_is_called_alike_wherever_it_was_measured() -> None:
    """Where another one was trained in several ways, also by a probe that measured none of these: one row of answers,
    one colour."""
    accuracy = [r for lr in (1e-3, 1e-2) for r in seeds(model="elman", training={"lr": lr})]
    accuracy += seeds(training={"lr": 3e-3}) + seeds(model="ngram", training={"lr": 2e-3}, loss=1.0, fitted=True)
    reach = [r for at in ("initial", "trained") for r in seeds(probe="grad_reach", stage=at, training={"lr": 3e-3})]
    found = {(each.probe, each.stage): [row.label for row in each.rows] for each in group(accuracy + reach)}
    assert found["accuracy", "trained"] == ["elman (lr=0.001)", "elman (lr=0.01)", "lstm (lr=0.003)", "ngram"]
    assert found["grad_reach", "initial"] == found["grad_reach", "trained"] == ["lstm (lr=0.003)"]


def test_training_has_no_say_at_initialisation() -> None:
    """Models as constructed are not told apart by how they would have been trained, but their examples count."""
    records = seeds(stage="initial", training={"lr": 1e-3}, model="gpt") + seeds(stage="initial", training={"lr": 3e-3})
    blocks = document(records)
    assert "lr" not in table(blocks, "score")
    assert paragraph(blocks, "Evaluation").startswith("Evaluation: at most 256 examples")
    fewer = document(records[:3] + seeds(stage="initial", examples=64))
    assert table(fewer, "score")["examples"] == ["256", "64"]
    assert "64 or 256 examples per condition" in paragraph(fewer, "Evaluation")


def test_a_pretrained_model_has_no_training_settings() -> None:
    """Beside a trained one it makes no setting differ; alone it makes the report say nothing of training."""
    given = record(SCORE, model="hf", pretrained=True, training={"steps": 0})
    mixed = document([given, *seeds(loss=1.0)])
    assert list(table(mixed, "score")) == ["model", "parameters", "seeds", "score"]
    assert table(mixed, "validation loss")["model"] == ["lstm"]
    assert "Training" not in render([given])


def test_steps_of_a_model_that_was_not_trained() -> None:
    """Zero steps beside a thousand: the other settings mean nothing."""
    shown = table(document([*seeds(model="gpt", training={"steps": 0, "lr": 1e-2}), *seeds()]), "score")
    assert (shown["steps"], "lr" in shown) == (["0", "1000"], False)


def test_a_probe_that_looks_at_fewer_examples_is_named() -> None:
    """As its arguments say."""
    probe = PluginUse(**use("grad_reach", {"examples": 64}))
    records = [each.model_copy(update={"probe": probe}) for each in seeds()]
    assert "256 examples per condition (64 for grad_reach)" in paragraph(document(records), "Evaluation")


def test_rows_say_how_the_model_was_trained() -> None:
    """A column for each setting, defaults too; what training gave; nothing of it for a pretrained model."""
    (row,) = rows([record(SCORE, training={"lr": 0.003, "clip": None}, examples=64, loss=0.25, steps=10)])
    assert tuple(row) == COLUMNS
    assert (row["training.lr"], row["training.clip"], row["training.optimizer"]) == (0.003, None, "adamw")
    assert (row["training.steps"], row["trained.steps"], row["validation_loss"]) == (1000, 10, 0.25)
    assert (row["examples"], row["pretrained"]) == (64, False)
    (row,) = rows([record(SCORE, pretrained=True, training={"steps": 0})])
    assert (row["pretrained"], row["training.lr"], row["training.steps"]) == (True, None, None)


@pytest.mark.parametrize("width", [60, 100])
def test_settings_fit_the_page(width: int) -> None:
    """However many differ."""
    settings = {"lr": 1e-2, "optimizer": "adam", "weight_decay": 0.1, "warmup": 10, "clip": None, "steps": 10}
    text = render(
        [*seeds(loss=1.0), *seeds(model="gpt", training={**settings, "batch_size": 8}, loss=2.0)], width=width
    )
    assert max(map(len, text.split("\n"))) <= width


def with_torch(version: str, records: list[Record]) -> list[Record]:
    return [r.model_copy(update={"provenance": r.provenance.model_copy(update={"torch": version})}) for r in records]


def test_tables_show_the_versions_of_torch_if_there_are_several() -> None:
    """Beside the rows, also if the seeds of one model have several; they stay the seeds of one model."""
    old, new = seeds(model="lstm"), with_torch("2.14", [*seeds(model="gpt"), record(SCORE, model="lstm", seed=3)])
    shown = table(document([*old, *new]), "score")
    assert dict(zip(shown["model"], shown["torch"], strict=True)) == {"gpt": "2.14", "lstm": "2.13, 2.14"}
    assert shown["seeds"] == ["3", "4"]
    assert "torch" not in table(document(old), "score")


def test_models_are_called_as_in_the_rest_of_the_report() -> None:
    """Also where another one, which its label tells it from, was skipped and never trained."""
    records = [record(model="lstm", skipped="one layer"), record(model="lstm", defaults={"layers": 3}, loss=0.5)]
    deep = records[1].model.model_copy(update={"label": "lstm:layers=3", "arguments": {"layers": 3}})
    records[1] = records[1].model_copy(update={"model": deep})
    assert table(document(records), "validation loss")["model"] == ["lstm:layers=3"]
