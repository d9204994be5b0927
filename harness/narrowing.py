"""Which records of a run somebody wants to see, by the words of requests; told before a record is read as a whole."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache

from pydantic_core import from_json

from harness.errors import RequestError, did_you_mean
from harness.suites import Suite
from harness.vocabulary import CROSSED
from harness.written import parse_request

MOST_LABELS = 50
"""Of more, a message names the plugins only, without their arguments."""


class Narrowing:
    """The records of some models, tasks and probes.

    Args:
        words: of a kind the names (`gpt`: all its configurations), labels (`gpt:position=none`) and aliases that are
            wanted; any, if there are none.
        suite: the run's, which gives the aliases.
    """

    def __init__(self, words: Mapping[str, Sequence[str]], suite: Suite | None) -> None:
        self.words = {kind: tuple(words[kind]) for kind in CROSSED if words.get(kind)}
        self.known: dict[str, set[str]] = {kind: set() for kind in self.words}
        """All labels that were seen."""
        self.aliases: dict[str, set[str]] = {kind: set() for kind in CROSSED}
        self.fitting = {kind: set(each) for kind, each in self.words.items()}
        """Names and labels of what may be wanted: of what an alias stands for, all configurations."""
        for kind in self.words if suite else ():
            for request in suite.requests(kind) if suite else ():
                if request.alias:
                    self.aliases[kind].add(request.alias)
                    self.fitting[kind] |= {request.name} if request.alias in self.words[kind] else set()

    def labels(self, kind: str, labels: Iterable[str]) -> list[str]:
        """Those that may be wanted."""
        self.known[kind] |= (found := set(labels))
        return [each for each in found if not self.fitting[kind].isdisjoint((each, _name(each)))]

    def fits(self, content: bytes) -> bool:
        """Whether a record may be wanted, by its JSON.

        Raises:
            ValueError: it is none.
        """
        read = from_json(content)
        try:
            found = [self._wanted(kind, read[kind]) for kind in self.words]  # all, so that all are known
        except (KeyError, TypeError) as error:
            raise ValueError("it is no record") from error
        return all(found)

    def _wanted(self, kind: str, use: Mapping[str, str]) -> bool:
        alias = use.get("alias", "")  # of an earlier request, perhaps, which the suite does not know
        self.aliases[kind] |= {alias} if alias else set()
        return bool(self.labels(kind, [use["label"]])) or alias in self.words[kind]

    def check(self) -> None:
        """Refuse words that match nothing, once all labels were seen.

        Raises:
            RequestError: the run has nothing of that name; with those it has.
        """
        for kind, words in self.words.items():
            names = {_name(label) for label in self.known[kind]}
            for word in words:
                if word not in self.known[kind] | names | self.aliases[kind]:
                    several = len(self.known[kind]) > MOST_LABELS
                    there = sorted((names if several else self.known[kind]) | self.aliases[kind])
                    guess = did_you_mean(word, [*there, *names])
                    listed = ", ".join(there) or "none"
                    raise RequestError(f"this run has no {kind} {word!r}.{guess} There are: {listed}")


@lru_cache(maxsize=4096)
def _name(label: str) -> str:
    with suppress(RequestError):  # of a label that nobody could have typed
        return str(parse_request(label)["name"])
    return label
