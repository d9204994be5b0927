"""The built-in tasks."""

from collections.abc import Iterator

from harness import TaskSpec, hookimpl


@hookimpl
def harness_tasks() -> Iterator[TaskSpec]:
    yield TaskSpec(
        "adding", "harness_plugins.tasks.adding:Adding", "the sum of two marked numbers in a long sequence of numbers"
    )
    yield TaskSpec(
        "both_seen",
        "harness_plugins.tasks.both_seen:BothSeen",
        "say after every step whether both positions of a pair have been 1 so far",
    )
    yield TaskSpec("copy", "harness_plugins.tasks.copying:Copy", "repeat a string after a separator")
    yield TaskSpec(
        "farm_agreement",
        "harness_plugins.tasks.farm_agreement:FarmAgreement",
        "predict farm sentences; the verb agrees with its subject across k distractor nouns",
    )
    yield TaskSpec(
        "minimal_pairs",
        "harness_plugins.tasks.minimal_pairs:MinimalPairs",
        "prefer the right one of two real sentences, from a local file (BLiMP, a table, Gulordava et al.)",
    )
    yield TaskSpec("noise", "harness_plugins.tasks.noise:Noise", "random vectors, for timing; nothing to learn")
    yield TaskSpec("recall", "harness_plugins.tasks.recall:Recall", "name the key that stood d distractors ago")
    yield TaskSpec("reverse", "harness_plugins.tasks.copying:Reverse", "repeat a string from its end")
    yield TaskSpec(
        "teacher",
        "harness_plugins.tasks.teacher:Teacher",
        "imitate a random net; for deep nets, which fail where they do not train",
    )
