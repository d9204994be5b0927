"""Faults of every kind that one plugin can have: what it does, and where."""

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field

SOURCE = """
import ctypes, json, os, random, resource, signal, sys, threading, time
from pathlib import Path
import numpy, torch
import torch.nn.functional as F
from torch import nn
from harness import Scalar, Skip
from harness_plugins.tasks.recall import Recall

OUT = Path(__file__).parent / "run"

def once():
    try:
        Path(__file__).with_suffix(".once").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True

def forever(do=lambda: None, pause=0.0):
    while True:
        do()
        time.sleep(pause)

def draw():
    torch.rand(1), random.random(), numpy.random.rand()

def thread(**how):
    threading.Thread(target=forever, args=(draw,), **how).start()

def orphan():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            forever(pause=1.0)
        os._exit(0)

{top}

class M(nn.Module):
    def __init__(self, vocab_size: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, 8)
        self.out = nn.Linear(8, vocab_size)
{construct}

    def forward(self, tokens):
{forward}
        return self.out(self.embedding(tokens).cumsum(1))

class T(Recall):
    check_arguments = None

    def __init__(self) -> None:
        super().__init__(train_max=4, distances=[1, 4])

    def evaluate(self, condition, examples, generator):
{evaluate}
        return super().evaluate(condition, examples, generator)

def p(subject):
    model, task = subject.model, subject.task
    condition = task.conditions()[0]
{probe}
    yield Scalar(name="done", unit="", value=1)

p.stages = ("initial", "trained")
"""

PLACES = {"top": "M", "construct": "M", "forward": "M", "evaluate": "T", "probe": "p"}
"""Places for code in the source, and the plugin that a run is asked to use so that it is reached."""


@dataclass(frozen=True)
class Fault:
    """What a hostile plugin does."""

    place: str
    """One of `PLACES`."""
    body: str
    """The code."""
    before: str = ""
    """Definitions that it needs."""
    limits: Mapping[str, float] = field(default_factory=dict)
    """Of the trials, without which nobody could say what is wrong."""
    whole: bool = False
    """Whether it takes the time of all cells of its trial, which fail with it."""
    damages: bool = False
    """Whether it damages checkpoints, so that they are none any more."""
    asked: str = ""
    """The plugin that a run is asked to use, if it is not that of the place."""

    @property
    def plugin(self) -> str:
        """The name of the plugin in `source`."""
        return self.asked or PLACES[self.place]

    @property
    def source(self) -> str:
        """The file with the plugin."""
        found = dict.fromkeys(PLACES, "pass") | {self.place: self.body}
        top = f"{self.before}\n{found.pop('top')}"
        return SOURCE.format(top=top, **{place: _within(place, body) for place, body in found.items()})


def _within(place: str, body: str) -> str:
    return textwrap.indent(body, "    " if place == "probe" else "        ")


PATCHES = """
plain = F.cross_entropy
F.cross_entropy = lambda *given, **named: plain(*given, **named) * 2
torch.softmax = torch.sigmoid
torch.Tensor.argmax = torch.Tensor.argmin
"""

ERRORS = """
class Base(BaseException):
    pass

class Unpicklable(Exception):
    def __init__(self, *given):
        super().__init__(lambda: None, threading.Lock())
    def __reduce__(self):
        raise self

class Mute(Exception):
    def __str__(self):
        raise SystemExit("no text")
    __repr__ = __str__
"""

FILES = """
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
keep = globals().setdefault("keep", [])
try:
    while True:
        keep.append(open(os.devnull))
except OSError:
    pass
""".strip()

WITHIN_TORCH = """
class Doubled:
    def __getattr__(self, name):
        plain = getattr(F, name)
        return lambda *given, **named: plain(*given, **named) * 2

nn.modules.linear.F = nn.modules.sparse.F = Doubled()
plain = torch._VF.lstm
torch._VF.lstm = lambda *given: tuple(each * 2 for each in plain(*given))
"""

OPERATOR = """
global library
library = torch.library.Library("aten", "IMPL")
library.impl("tanh", lambda x: x * 0, "CPU")
library.impl("embedding", lambda weight, places, *given: weight[places] * 0, "CPU")
"""

GARBAGE = """
class Garbage:
    def __del__(self):
        draw()

import gc
gc.disable()
for _ in range(50):
    found = Garbage()
    found.own = found
gc.enable()
"""

SOCKET = """
words = Path(f"/proc/{os.getppid()}/environ").read_bytes().split(b"\\0")
import shutil
(folder,) = [each.partition(b"=")[2] for each in words if each.startswith(b"HARNESS_SOCKETS=")]
shutil.rmtree(folder, ignore_errors=True)
"""

TEXT = r"'\ud800 \x1b[2J\x00 \u202e [x](javascript:y) <b> =1+1 $\\input{z}$'"

LIMIT = {"timeout": 30.0}

KINDS: dict[str, Fault] = {
    # settings of torch
    "default dtype at a probe's import": Fault("top", "torch.set_default_dtype(torch.float64)", asked="p"),
    "default dtype at import": Fault("top", "torch.set_default_dtype(torch.float64)"),
    "default dtype in a task": Fault("evaluate", "torch.set_default_dtype(torch.float64)"),
    "default dtype in a probe": Fault("probe", "torch.set_default_dtype(torch.float64)"),
    "default device at import": Fault("top", "torch.set_default_device('meta')"),
    "precision and backends at import": Fault(
        "top",
        "torch.set_float32_matmul_precision('medium')\ntorch.backends.mkldnn.enabled = False\n"
        "torch.backends.cuda.enable_math_sdp(False)\ntorch.backends.mha.set_fastpath_enabled(False)",
    ),
    "SDPA backends in a probe": Fault(
        "probe", "torch.backends.cuda.enable_flash_sdp(False)\ntorch.backends.cuda.enable_mem_efficient_sdp(False)"
    ),
    "threads at import": Fault("top", "torch.set_num_threads(3)\nos.environ['OMP_NUM_THREADS'] = '3'"),
    "threads in a probe": Fault("probe", "torch.set_num_threads(3)"),
    "autocast at import": Fault("top", "torch.autocast('cpu', dtype=torch.bfloat16).__enter__()"),
    "autocast in forward": Fault("forward", "torch.autocast('cpu', dtype=torch.bfloat16).__enter__()"),
    "gradient mode at construction": Fault("construct", "torch.set_grad_enabled(False)"),
    "gradient mode in a probe": Fault("probe", "torch.set_grad_enabled(False)"),
    "deterministic algorithms in forward": Fault("forward", "torch.use_deterministic_algorithms(True)"),
    "smallest numbers flushed in a probe": Fault("probe", "torch.set_flush_denormal(True)"),
    # functions and hooks of others
    "global hooks at construction": Fault(
        "construct", "nn.modules.module.register_module_forward_hook(lambda module, given, output: output * 0)"
    ),
    "global hooks in a probe": Fault(
        "probe", "nn.modules.module.register_module_forward_hook(lambda module, given, output: output * 0)"
    ),
    "torch patched at import": Fault("top", PATCHES),
    "torch patched in a probe": Fault("probe", PATCHES.strip()),
    "layers patched at a probe's import": Fault("top", "nn.Linear.forward = lambda self, x: x", asked="p"),
    "Python patched at import": Fault("top", "json.dumps = lambda *given, **named: '{}'"),
    "hooks on parameters": Fault(
        "probe", "for each in model.parameters(): each.register_hook(lambda gradient: gradient * 0)"
    ),
    "Python patched at construction": Fault(
        "construct",
        "json.dumps = json.loads = lambda *given, **named: 1 / 0\ntime.time = time.monotonic = lambda: 0.0\n"
        "os.replace = os.fsync = os._exit = sys.exit = lambda *given: None",
    ),
    "the harness patched in forward": Fault(
        "forward", "import harness.store\nharness.store.RunDirectory.write_record = lambda *given: None"
    ),
    "Python's own functions patched in a probe": Fault(
        "probe", "import builtins\nbuiltins.max, builtins.sum = min, lambda *given, **named: 7"
    ),
    "copies patched in a probe": Fault("probe", "import copy\ncopy.deepcopy = lambda value, *given: value"),
    "what layers call patched in a probe": Fault("probe", WITHIN_TORCH.strip()),
    "an operator replaced in a probe": Fault("probe", OPERATOR.strip()),
    "gradients hidden by a probe": Fault("probe", "nn.Parameter.grad = property(lambda self: None, setattr)"),
    "a level of functorch entered in a probe": Fault("probe", "torch._C._functorch._grad_increment_nesting()"),
    "numbers rounded up after a probe": Fault("probe", "ctypes.CDLL(None).fesetround(0x800)"),
    # random numbers
    "numpy's generator replaced in a probe": Fault(
        "probe", "numpy.random.set_bit_generator(numpy.random.PCG64(1))\nnumpy.random.seed = lambda *given: None"
    ),
    "a tracer that draws, from a probe": Fault("probe", "sys.setprofile(lambda *given: draw())"),
    "garbage that draws, from a probe": Fault("probe", GARBAGE.strip()),
    "seeds at import": Fault("top", "torch.manual_seed(0); numpy.random.seed(0); random.seed(0)"),
    "seeds in forward": Fault("forward", "torch.manual_seed(0); numpy.random.seed(0); random.seed(0)"),
    "seeds in a probe": Fault("probe", "torch.manual_seed(0); numpy.random.seed(0); random.seed(0)"),
    "threads that draw, from import": Fault("top", "thread(daemon=True)"),
    "threads that draw, from a probe's import": Fault("top", "thread(daemon=True)", asked="p"),
    "threads that draw, from a probe": Fault("probe", "thread(daemon=True)"),
    # the process
    "current folder and variables at import": Fault("top", "os.chdir('/')\nos.environ.clear()"),
    "current folder and variables in a probe": Fault("probe", "os.chdir('/')\nos.environ.clear()"),
    "rights of files in a probe": Fault("probe", "os.umask(0o777)"),
    "an alarm in a probe": Fault("probe", "signal.setitimer(signal.ITIMER_REAL, 0.002)"),
    "closes every file in forward": Fault("forward", "os.closerange(0, 256)"),
    "closes every file in a probe": Fault("probe", "os.closerange(0, 256)"),
    "closes Python's outputs in a probe": Fault("probe", "sys.stdout.close(); sys.stderr.close()"),
    "opens files until none is left": Fault("forward", FILES),
    "opens files in a probe until none is left": Fault("probe", FILES),
    "may write no more": Fault("forward", "resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))"),
    "a probe may write no more": Fault("probe", "resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))"),
    "a probe lets its process take less": Fault("probe", "resource.setrlimit(resource.RLIMIT_DATA, (10**6, 10**6))"),
    "recursion and warnings in a probe": Fault(
        "probe", "import warnings\nwarnings.simplefilter('error')\nsys.setrecursionlimit(200)\nsys.setswitchinterval(9)"
    ),
    # ends
    "sys.exit at import": Fault("top", "sys.exit(0)"),
    "exit 0 at a probe's import": Fault("top", "os._exit(0)", asked="p"),
    "sys.exit in forward": Fault("forward", "sys.exit(0)"),
    "exit 0 at import": Fault("top", "os._exit(0)"),
    "exit 0 at construction": Fault("construct", "os._exit(0)"),
    "exit 0 in training": Fault("forward", "if self.training: os._exit(0)"),
    "exit 0 in a probe": Fault("probe", "os._exit(0)"),
    "exit 1 in a task": Fault("evaluate", "os._exit(1)"),
    "kills itself in a probe": Fault("probe", "os.kill(os.getpid(), signal.SIGKILL)"),
    "kills its group in forward": Fault("forward", "os.killpg(0, signal.SIGTERM)"),
    "kills the server in training": Fault(
        "forward", "if self.training and once(): os.kill(os.getppid(), signal.SIGKILL)"
    ),
    "interrupts itself in a probe": Fault("probe", "os.kill(os.getpid(), signal.SIGINT)"),
    "a crash in forward": Fault("forward", "ctypes.string_at(0)"),
    "a crash in a probe": Fault("probe", "ctypes.string_at(0)"),
    # errors and what they say
    "BaseException in forward": Fault("forward", "raise Base('gone')", ERRORS),
    "BaseException in a probe": Fault("probe", "raise Base('gone')", ERRORS),
    "an error that cannot be pickled": Fault("forward", "raise Unpicklable()", ERRORS),
    "an error without words": Fault("probe", "raise Mute()", ERRORS),
    "text that nothing can show": Fault("forward", f"print({TEXT})\nraise ValueError({TEXT})"),
    "output that is no text": Fault("probe", "os.write(1, b'\\xff\\x00' * 10000); os.write(2, b'\\xff\\x00' * 10000)"),
    # no end
    "hangs at import": Fault("top", "if once(): forever(pause=1.0)", limits=LIMIT),
    "hangs at a probe's import": Fault("top", "if once(): forever(pause=1.0)", limits=LIMIT, asked="p"),
    "hangs in forward": Fault("forward", "if once(): forever()", limits=LIMIT),
    "hangs in a probe": Fault("probe", "if once(): forever()", limits=LIMIT, whole=True),
    "ignores signals and hangs": Fault(
        "construct",
        "for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:\n"
        "    signal.signal(number, signal.SIG_IGN)\nif once(): forever(pause=1.0)",
        limits=LIMIT,
    ),
    "stops itself": Fault("forward", "if once(): os.kill(os.getpid(), signal.SIGSTOP)", limits=LIMIT),
    "threads that never end": Fault("construct", "thread(daemon=False)"),
    # what it starts
    "leaves a process": Fault("probe", "orphan()"),
    "stops the server in a probe": Fault("probe", "if once(): os.kill(os.getppid(), signal.SIGSTOP)"),
    "deletes the server's socket in a probe": Fault("probe", SOCKET.strip()),
    "gives up its rights in a probe": Fault("probe", "if os.getuid() == 0: os.setuid(65534)"),
    "leaves a process at import": Fault("top", "orphan()"),
    "forks, and both go on": Fault("forward", "if not getattr(self, 'twin', 0): self.twin = os.fork() + 1"),
    "a probe forks, and both go on": Fault("probe", "os.fork()"),
    # what it takes
    "more memory than is allowed": Fault(
        "forward", "keep = []\nwhile True: keep.append(torch.empty(2**26))", limits={"memory": 2.0}
    ),
    "a probe takes all memory": Fault(
        "probe", "keep = []\nwhile True: keep.append(torch.empty(2**26))", limits={"memory": 2.0}
    ),
    # what others look at
    "writes into its input": Fault("forward", "tokens.zero_()"),
    "writes into its input in training": Fault("forward", "if self.training: tokens.zero_()"),
    "a probe replaces forward": Fault("probe", "model.forward = lambda tokens: 0 / 0\ntype(model).forward = None"),
    "a probe changes weights": Fault("probe", "for each in model.parameters(): each.data.zero_()"),
    "a probe changes batches and scores": Fault(
        "probe",
        "batch = subject.batch(condition)\nbatch.tokens.zero_(); batch.targets.fill_(-100)\n"
        "for each in subject.scores(condition).values(): each.zero_()\nsubject.scores(condition).clear()",
    ),
    "a probe changes the task": Fault(
        "probe", "task.distances.append(2)\ntask.train_max = 1\ntype(task).score = lambda self, outputs, batch: {}"
    ),
    # the run directory
    "deletes records": Fault("forward", "for each in (OUT / 'records').glob('*.json'): each.unlink(missing_ok=True)"),
    "deletes checkpoints": Fault(
        "probe", "for each in (OUT / 'checkpoints').glob('*s'): each.unlink(missing_ok=True)", damages=True
    ),
    "damages checkpoints and curves": Fault(
        "probe",
        "for each in [*(OUT / 'checkpoints').glob('*s'), *(OUT / 'trials').glob('*n')]: each.write_bytes(b'1')",
        damages=True,
    ),
}
"""By name."""

TELLING = (
    *("threads that draw, from a probe's import", "threads that draw, from a probe", "an alarm in a probe"),
    *("a probe forks, and both go on", "rights of files in a probe", "closes Python's outputs in a probe"),
    *("closes every file in a probe", "opens files until none is left", "deletes records"),
    *("an operator replaced in a probe", "a level of functorch entered in a probe", "numbers rounded up after a probe"),
    "stops the server in a probe",
)
"""Those that no other test has, for the default run."""
