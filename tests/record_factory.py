"""Records for tests, as short as a test can say them."""

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from harness.measurements import Curve, Matrix, Measurement, Scalar
from harness.schema import Failure, ModelUse, PluginUse, Provenance, Record, Timing, Trained, Training
from harness.suites import Claim
from harness.written import parse_request

INSIDE = [True, True, True, False, False]
"""Which of the five places of a curve are within the trained range."""


def use(
    label: str, defaults: dict[str, Any] | None = None, distribution: str = "sequence-harness", digest: str = "d1"
) -> dict[str, Any]:
    """A plugin as used: the label's arguments over the defaults."""
    request = parse_request(label)
    return {
        "name": request["name"],
        "label": label,
        "arguments": {**(defaults or {}), **request["arguments"]},
        "distribution": distribution,
        "version": "1",
        "target": "package.module:Name",
        "digest": digest,
    }


def record(
    *measurements: Measurement,
    model: str = "lstm",
    task: str = "recall",
    probe: str = "accuracy",
    stage: Literal["initial", "trained"] = "trained",
    seed: int = 0,
    skipped: str | None = None,
    failed: str | None = None,
    error: str = "RuntimeError",
    training: dict[str, Any] | None = None,
    parameters: int | None = 26_834,
    defaults: dict[str, Any] | None = None,
    distribution: str = "sequence-harness",
    digest: str = "d1",
    minutes: int = 0,
    examples: int = 256,
    loss: float | None = None,
    steps: int | None = None,
    fitted: bool = False,
    pretrained: bool = False,
    data: str = "",
    warnings: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> Record:
    """A record of one seed; `defaults` are the model's, `error` is the class of what `failed` tells, `minutes` says how
    late it was finished, `loss` is that of the validation after so many `steps` (those asked for, if not said) or, of a
    model that is `fitted`, batches."""
    outcome = "skipped" if skipped is not None else "failed" if failed is not None else "ok"
    return Record.model_validate(
        {
            "id": f"{model}-{task}-{probe}-{stage}-{seed}-{digest}-{minutes}",
            "trial": "-".join(
                [model, task, str(seed), *(f"{name}={value}" for name, value in (training or {}).items())]
            ),
            "status": outcome,
            "reason": skipped,
            "error": None if failed is None else Failure(type=error, message=failed),
            "model": ModelUse(**use(model, defaults, distribution, digest), parameters=parameters),
            "task": PluginUse(**use(task)),
            "probe": PluginUse(**use(probe)),
            "training": (settings := Training.model_validate(training or {})),
            "trained": None if loss is None else trained(settings.steps if steps is None else steps, loss, fitted),
            "pretrained": pretrained,
            "data": data,
            "warnings": list(warnings),
            "notes": list(notes),
            "stage": stage,
            "seed": seed,
            "examples": examples,
            "measurements": measurements,
            "timing": Timing(probe=0.5),
            "provenance": Provenance(
                harness="0.1.0",
                python="3.11",
                torch="2.13",
                platform="Linux",
                device="cpu",
                threads=1,
                finished=datetime(2030, 1, 1, tzinfo=UTC) + timedelta(minutes=minutes),
            ),
        }
    )


def trained(steps: int | None, loss: float, fitted: bool = False) -> Trained:
    """How training went."""
    return Trained(steps=steps or 0, stopped="budget", fitted=fitted, loss=loss, validation_loss=loss, seconds=1.0)


def curve(
    y: Sequence[float],
    x: Sequence[float] | Sequence[str] = (1, 10, 20, 50, 100),
    *,
    name: str = "accuracy",
    inside: Sequence[bool] | None = None,
    unit: str = "share",
    **more: Any,
) -> Curve:
    """A headline curve along a distance."""
    about = {"x_label": "distance (tokens)", "y_label": name, "headline": True, **more}
    return Curve.model_validate(
        {"name": name, "unit": unit, "x": list(x), "y": list(y), "inside": inside and list(inside), **about}
    )


def cut(seed: int, model: str = "gpt") -> Record:
    """What cutting does, in all and by head."""
    columns = ["attention", "accuracy", "leak", "before", "effect"]
    return record(
        *(
            curve(y, [1, 100], name=name)
            for name, y in (("untouched", [1, 1]), ("cue_cut", [0.1, 0.2]), ("sham_cut", [1, 1]))
        ),
        Matrix(
            name="by_head",
            unit="",
            values=[[math.nan, 1.0, math.nan, math.nan, 0.0], [0.9, 0.4, 1.0, 0.0, 3.0], [0.1, 1.0, 1.0, 0.0, 0.1]],
            rows=["nothing", "layer 1 head 1", "layer 1 head 2"],
            columns=columns,
            row_label="cut",
            column_label="",
        ),
        model=model,
        probe="edge_cut",
        seed=seed,
    )


def timed(seed: int) -> Record:
    """How long a forward pass takes."""
    return record(
        curve([1.0, 2.0, 4.0], [64, 128, 256], name="forward", unit="ms", scale="log", x_label="length (tokens)"),
        Scalar(name="time_exponent", unit="", value=1.0),
        probe="speed",
        stage="initial",
        seed=seed,
    )


def claim(**fields: Any) -> Claim:
    """A claim that the accuracy of the only model is above 0.9, unless told otherwise."""
    if "than" not in fields:
        fields = {"value": 0.9, **fields}
    base = {"text": "it works", "probe": "accuracy", "metric": "score"}
    if "within" not in fields:
        base["comparison"] = ">"
    return Claim.model_validate({**base, **fields})


def scores(*values: float, **more: Any) -> list[Record]:
    """One record per seed with that score."""
    return [record(Scalar(name="score", unit="share", value=v), seed=seed, **more) for seed, v in enumerate(values)]


Seeds = Sequence[tuple[float, float]]
"""Score and validation loss of each seed."""


def cell(
    lr: float, seeds: Seeds, model: str = "lstm", levels: dict[str, float] | None = None, task: str = "recall"
) -> list[Record]:
    """Records of one learning rate."""
    scale = {"chance": 0.125, "best": 1.0} if levels is None else levels
    return [
        record(
            curve([score], [1], inside=[True], levels=scale),
            Scalar(name="worst_inside", unit="share", value=score, headline=True),
            model=model,
            task=task,
            training={"lr": lr},
            seed=seed,
            loss=loss,
        )
        for seed, (score, loss) in enumerate(seeds)
    ]
