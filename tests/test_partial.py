"""The file in which a training is kept on the way: doubted when it is read, and written now and then."""

import random
from pathlib import Path

import pytest
import torch

from harness.partial import Partial, State

STATE: State = {"step": 3, "losses": torch.arange(1000.0), "random": random.getstate()}


def test_a_damaged_file_counts_as_absent(tmp_path: Path) -> None:
    """Cut anywhere, with any byte changed, or something else altogether; and nothing in it is ever run."""
    path = tmp_path / "kept.partial"
    kept = Partial(path, "a")
    assert kept.load() is None
    kept.save(STATE)
    whole = path.read_bytes()
    for length in range(0, len(whole), 1 + len(whole) // 50):
        path.write_bytes(whole[:length])
        assert kept.load() is None, length
    found = 0
    for place in range(0, len(whole), 1 + len(whole) // 150):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        state = kept.load()
        found += state is not None  # between the parts of the archive nothing is written
        assert state is None or (state["step"], state["random"]) == (3, STATE["random"])
        assert state is None or torch.equal(state["losses"], STATE["losses"])
    assert found < 20
    torch.save({"origin": kept.origin, "state": {"step": Path}}, path)
    assert kept.load() is None
    path.unlink()
    path.mkdir()
    assert kept.load() is None


def test_a_file_of_another_trial_counts_as_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So does one of another version of torch."""
    path = tmp_path / "kept.partial"
    Partial(path, "a").save(STATE)
    assert Partial(path, "a").load() is not None
    assert Partial(path, "b").load() is None
    monkeypatch.setattr(torch, "__version__", "0.1")
    assert Partial(path, "a").load() is None


def test_a_training_is_kept_after_a_minute_and_then_every_minute(tmp_path: Path) -> None:
    """What takes long to write is written less often; a disk that is full stops nothing."""
    now = 0.0

    kept = Partial(tmp_path / "kept.partial", "a", clock=lambda: now)
    now = 1000.0
    kept.load()
    now = 1059.0
    assert not kept.due()
    now = 1060.0
    assert kept.due()
    kept.save(STATE)
    assert not kept.due()
    now += 60
    assert kept.due()

    times = iter([2000.0, 2010.0])  # before and after writing
    kept.clock = lambda: next(times)
    kept.save(STATE)
    assert kept.next == 2010 + 200
    kept.clock = lambda: 3000.0
    kept.path = tmp_path / "missing" / "kept.partial"
    kept.save(STATE)
    assert kept.next == 3060.0
