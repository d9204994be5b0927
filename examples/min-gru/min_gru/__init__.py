"""minGRU for the harness."""

from collections.abc import Iterator

from harness import ModelSpec, hookimpl


@hookimpl
def harness_models() -> Iterator[ModelSpec]:
    yield ModelSpec(
        "min-gru",
        "min_gru.model:MinGRU",
        summary="gated recurrence without hidden-to-gate weights, trained by a parallel scan (Feng et al., 2024)",
        contract=1,
    )
