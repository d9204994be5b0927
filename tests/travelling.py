"""A model that needs files around it, and what must be the same of its records wherever it is measured."""

import json
from pathlib import Path

from harness.schema import Record

MODEL = """
from pathlib import Path
from torch import nn
import inner.layers

class M(nn.Module):
    def __init__(self, vocab_size: int, words: Path, broken: bool = False) -> None:
        super().__init__()
        if broken:
            raise ValueError(f"{words} as asked")
        self.layer = inner.layers.Layer(vocab_size, int(Path(words).read_text(encoding="utf-8")))

    @staticmethod
    def files(words, **others):
        return [words]

    def forward(self, tokens):
        return self.layer(tokens)
"""

MIXER = """
from pathlib import Path
from torch import nn
import inner.layers

class M(nn.Module):
    def __init__(self, width: int, *, words: Path, broken: bool = False) -> None:
        super().__init__()
        if broken:
            raise ValueError(f"{words} as asked")
        self.layer = inner.layers.mixed(width, int(Path(words).read_text(encoding="utf-8")))

    @staticmethod
    def files(words, **others):
        return [words]

    def forward(self, x):
        return self.layer(x)
"""

BESIDE = """
from pathlib import Path
import model

WORDS = Path(__file__).parent / "words.txt"

class M(model.M):
    def __init__(self, vocab_size: int) -> None:
        super().__init__(vocab_size, WORDS)

    @staticmethod
    def files():
        return [WORDS]
"""

LAYERS = """
from inner import SCALE
from torch import nn

class Layer(nn.Module):
    def __init__(self, vocab_size, width):
        super().__init__()
        self.stack = nn.Sequential(nn.Embedding(vocab_size, width * SCALE), nn.Linear(width * SCALE, vocab_size))

    def forward(self, tokens):
        return self.stack(tokens)

def mixed(width, hidden):
    return nn.Sequential(nn.Linear(width, hidden * SCALE), nn.Linear(hidden * SCALE, width))
"""


def write_model(folder: Path) -> Path:
    """Write the model and what it needs: `./model.py:M:words=words.txt`. Beside it a mixer that needs the same, and a
    model that needs no argument."""
    (folder / "inner").mkdir(parents=True)
    (folder / "inner" / "__init__.py").write_text("SCALE = 2", encoding="utf-8")
    (folder / "inner" / "layers.py").write_text(LAYERS, encoding="utf-8")
    (folder / "model.py").write_text(MODEL, encoding="utf-8")
    (folder / "mixer.py").write_text(MIXER, encoding="utf-8")
    (folder / "beside.py").write_text(BESIDE, encoding="utf-8")
    (folder / "words.txt").write_text("4", encoding="utf-8")
    return folder


def outcome(record: Record) -> str:
    """All of a record but times, where it was made, and a traceback; NaN equals NaN."""
    said = json.loads(record.model_dump_json(exclude={"timing", "provenance"}))
    said["trained"] = said["trained"] and {**said["trained"], "seconds": 0}
    said["error"] = said["error"] and said["error"]["message"]
    return json.dumps(said)
