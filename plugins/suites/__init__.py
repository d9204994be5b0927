"""The built-in suites."""

from collections.abc import Iterator

from harness import SuiteSpec, hookimpl


@hookimpl
def harness_suites() -> Iterator[SuiteSpec]:
    yield SuiteSpec(
        "recall",
        "harness_plugins.suites:recall.toml",
        "long-range recall: who learns it from which distances, who extrapolates, and what gradient has to do with it",
    )
    yield SuiteSpec(
        "agreement",
        "harness_plugins.suites:agreement.toml",
        "subject-verb agreement across distractors: perplexity, positions, attention to the subject, and cutting it",
    )
    yield SuiteSpec(
        "memory",
        "harness_plugins.suites:memory.toml",
        "what a recurrent state holds, shows and learns: hand-set cells, Jacobians, gates, truncation, adding",
    )
    yield SuiteSpec(
        "translation",
        "harness_plugins.suites:translation.toml",
        "copying and reversing strings: the bottleneck, five scores of attention, alignment, and models of one stream",
    )
    yield SuiteSpec(
        "baselines",
        "harness_plugins.suites:baselines.toml",
        "what scores mean: guessing, tokens without order, counts of n-grams, a window; on agreement and recall",
    )
    yield SuiteSpec(
        "bench",
        "harness_plugins.suites:bench.toml",
        "what sequential and parallel sequence models cost on this machine: attention forms, lengths, threads",
    )
    yield SuiteSpec(
        "laws",
        "harness_plugins.suites:laws.toml",
        "what must be so to rounding: attention, softmax, positions, layer norms, recurrent states, entropy, counts",
    )
    yield SuiteSpec(
        "depth",
        "harness_plugins.suites:depth.toml",
        "plain against residual nets of up to 64 layers, from three initialisations; gradient by layer",
    )
    yield SuiteSpec(
        "known-answers",
        "harness_plugins.suites:known-answers.toml",
        "what recurrent nets, attention, linear attention and state spaces are known to learn, and known not to",
    )
    yield SuiteSpec(
        "state-tracking",
        "harness_plugins.suites:state-tracking.toml",
        "parity, modular sums, word problems of groups, flip-flop and Dyck languages: who tracks a state, and how far",
    )
    yield SuiteSpec(
        "recall-family",
        "harness_plugins.suites:recall-family.toml",
        "recall by key, by neighbour, in noise and in filler, and copying: what a state holds, and who looks back",
    )
    yield SuiteSpec(
        "battery-small",
        "harness_plugins.suites:battery-small.toml",
        "recall, copying and state tracking on five small tasks",
    )
    yield SuiteSpec(
        "battery",
        "harness_plugins.suites:battery.toml",
        "recall, copying, memory and state tracking on seventeen tasks",
    )
