"""Parts of a batch: slices, chosen examples, consecutive pieces."""

import pytest
import torch

from harness import Batch


def batch(examples: int = 7) -> Batch:
    tokens = torch.arange(3 * examples).view(examples, 3)
    place = torch.arange(examples)
    mask = torch.ones_like(tokens, dtype=torch.bool)
    return Batch(tokens, tokens + 1, mask, cue=place, extra={"number": 10 * place})


def numbers(part: Batch) -> list[int]:
    """Which examples of `batch` these are; all of their tensors must say so."""
    assert part.cue is not None
    assert part.extra is not None
    assert torch.equal(part.tokens[:, 0], 3 * part.cue)
    assert torch.equal(part.targets, part.tokens + 1)
    assert torch.equal(part.extra["number"], 10 * part.cue)
    assert part.mask.shape == part.tokens.shape
    assert part.query is part.source is part.roles is None
    return part.cue.tolist()


def test_examples_are_chosen_as_from_a_tensor() -> None:
    """By a slice, by places, also counted from the end, and by a mask; a place that is not there is an error."""
    whole = batch()
    assert numbers(whole[2:4]) == [2, 3]
    assert numbers(whole[torch.tensor([5, 0, -1, 5])]) == [5, 0, 6, 5]
    assert numbers(whole[torch.arange(7) % 3 == 0]) == [0, 3, 6]
    assert numbers(whole[torch.zeros(7, dtype=torch.bool)]) == []
    for places in ([7], [-8]):
        with pytest.raises(IndexError):
            whole[torch.tensor(places)]


def test_pieces_are_consecutive_and_the_last_may_be_smaller() -> None:
    """Of no examples there is none."""
    assert [numbers(piece) for piece in batch().split(3)] == [[0, 1, 2], [3, 4, 5], [6]]
    assert [numbers(piece) for piece in batch(2).split(5)] == [[0, 1]]
    assert list(batch(0).split(4)) == []
    tokens = torch.zeros(4, 2, dtype=torch.long)
    plain = Batch(tokens, tokens, tokens == 0)
    assert [piece.extra for piece in plain.split(2)] == [None, None]
