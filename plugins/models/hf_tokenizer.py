"""How a tokenizer of `transformers` reads text: token ids, and which characters each of them stands for."""

import re
from functools import cached_property
from typing import Any

SEPARATOR = "<|endoftext|>"
"""What stands between the documents of most models that were trained without a beginning-of-text token."""


class TextTokenizer:
    """A `harness.offers.Tokenizer`.

    Args:
        inner: the tokenizer of transformers.
        size: the number of token ids that the model takes and predicts; often more than the tokenizer knows.
    """

    def __init__(self, inner: Any, size: int) -> None:
        self.inner = inner
        self.size = size

    @cached_property
    def start(self) -> int | None:
        """What the tokenizer itself puts before a text; or else what separates texts in training, by its name or as
        the token that begins or ends one."""
        plain, whole = (self.inner("a", add_special_tokens=special)["input_ids"] for special in (False, True))
        if len(whole) > len(plain) and whole[0] != plain[0]:
            return int(whole[0])
        known = (self.token(SEPARATOR), self.inner.bos_token_id, self.inner.eos_token_id)
        return next((each for each in known if each is not None), None)

    @property
    def unknown(self) -> int | None:
        """The token that stands for what the vocabulary lacks, if there is one."""
        token: int | None = self.inner.unk_token_id
        return token

    def token(self, name: str) -> int | None:
        """The id of one token by name."""
        token: int | None = self.inner.get_vocab().get(name)
        return token

    def name(self, token: int) -> str:
        """The inverse of `token`."""
        return str(self.inner.convert_ids_to_tokens(token))

    @cached_property
    def ends_word(self) -> list[bool]:
        """For every token id, whether a word is over when it comes next: whether, after a letter, it adds text that
        begins with neither a letter nor a digit, an apostrophe or a hyphen. A byte that is no whole letter goes on."""
        letter = self._ids("a")
        known = sorted(self.inner.get_vocab().values())
        texts = self.inner.batch_decode(
            [letter, *([*letter, token] for token in known)],
            skip_special_tokens=False,
            clean_up_tokenization_spaces=False,
        )
        ends = [False] * self.size
        for token, text in zip(known, texts[1:], strict=True):
            if token < self.size and text.startswith(texts[0]):
                ends[token] = re.match(r"[^\w'’\-\ufffd]", text[len(texts[0]) :]) is not None
        return ends

    def encode(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """Token ids and the characters of each.

        Raises:
            ValueError: the tokenizer does not say which characters, and cannot be asked word by word.
        """
        if not self.inner.is_fast:
            return self._word_by_word(text)
        read = self.inner(text, add_special_tokens=False, return_offsets_mapping=True)
        return list(read["input_ids"]), [(int(first), int(last)) for first, last in read["offset_mapping"]]

    def _word_by_word(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """For tokenizers written in Python: the tokens of a word are those that come when it is added to the words
        before it, if those keep theirs."""
        ids = self._ids(text)
        spans: list[tuple[int, int]] = []
        for word in re.finditer(r"\S+", text):
            until = self._ids(text[: word.end()])
            if ids[: len(until)] != until:
                raise ValueError(f"the tokenizer reads {text[: word.end()]!r} differently when more text follows")
            spans += [word.span()] * (len(until) - len(spans))
        if len(spans) != len(ids):
            raise ValueError(f"the tokenizer ends {text!r} with tokens that belong to no word")
        return ids, spans

    def _ids(self, text: str) -> list[int]:
        return list(self.inner(text, add_special_tokens=False)["input_ids"])
