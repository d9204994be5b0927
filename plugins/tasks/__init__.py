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
    yield TaskSpec(
        "mqar",
        "harness_plugins.tasks.mqar:MultiQueryRecall",
        "name the value of each key that comes again, by pairs and length (Arora et al., 2023)",
    )
    yield TaskSpec(
        "induction",
        "harness_plugins.tasks.induction:Induction",
        "name what followed this letter before, for pairs of letters that training never asked for",
    )
    yield TaskSpec(
        "selective_copying",
        "harness_plugins.tasks.selective_copying:SelectiveCopying",
        "repeat the letters that stand among blanks (Gu and Dao, 2023)",
    )
    yield TaskSpec(
        "in_context_recall",
        "harness_plugins.tasks.in_context_recall:InContextRecall",
        "pairs of a key and a value, of which many come again (Poli et al., 2024)",
    )
    yield TaskSpec(
        "noisy_recall",
        "harness_plugins.tasks.noisy_recall:NoisyRecall",
        "in_context_recall among tokens that mean nothing (Poli et al., 2024)",
    )
    yield TaskSpec(
        "fuzzy_recall",
        "harness_plugins.tasks.fuzzy_recall:FuzzyRecall",
        "in-context recall of keys and values of one to three letters (Poli et al., 2024)",
    )
    yield TaskSpec(
        "memorisation",
        "harness_plugins.tasks.memorisation:Memorisation",
        "facts that are the same in all sequences, and told in none (Poli et al., 2024)",
    )
    yield TaskSpec(
        "compression",
        "harness_plugins.tasks.compression:Compression",
        "one output must tell the whole sequence (Poli et al., 2024)",
    )
    yield TaskSpec(
        "parity", "harness_plugins.tasks.parity:Parity", "say after every bit whether the number of ones so far is odd"
    )
    yield TaskSpec(
        "modular_sum",
        "harness_plugins.tasks.modular_sum:ModularSum",
        "say after every number what all so far add up to, modulo a number",
    )
    yield TaskSpec(
        "word_problem",
        "harness_plugins.tasks.word_problem:WordProblem",
        "say after every element of a group the product of all so far (Merrill et al., 2024)",
    )
    yield TaskSpec(
        "flip_flop",
        "harness_plugins.tasks.flip_flop:FlipFlop",
        "read the bit that was written last, however much was ignored since (Liu et al., 2023)",
    )
    yield TaskSpec(
        "dyck",
        "harness_plugins.tasks.dyck:Dyck",
        "which bracket may close here, with k kinds and at most m open (Hewitt et al., 2020)",
    )
    yield TaskSpec(
        "needle",
        "harness_plugins.tasks.needle:Needle",
        "name the one marked token of a long sequence, at every depth of every length",
    )
