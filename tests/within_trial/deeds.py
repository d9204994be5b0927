"""What a probe may do beside measuring, as lines of its code."""

SETTINGS = {
    "torch.set_default_dtype(torch.float64)": "default dtype at torch.float64 instead of torch.float32",
    "torch.set_default_device('meta')": "default device at meta instead of None",
    "torch.set_grad_enabled(False)": "gradient mode at False",
    "sys.kept = torch.inference_mode(); sys.kept.__enter__()": "inference mode at True",
    "torch.autocast('cpu', dtype=torch.bfloat16).__enter__()": "autocast on cpu at True",
    "torch.set_autocast_dtype('cpu', torch.float16)": "autocast's dtype on cpu at torch.float16",
    "torch.set_float32_matmul_precision('medium')": "float32 matmul precision at medium",
    "torch.backends.cudnn.deterministic = True": "torch.backends.cudnn.deterministic at True",
    "torch.backends.cudnn.benchmark = True": "torch.backends.cudnn.benchmark at True",
    "torch.backends.mkldnn.enabled = False": "torch.backends.mkldnn.enabled at False",
    "torch.backends.cuda.enable_math_sdp(False)": "torch.backends.cuda.math_sdp_enabled() at False",
    "torch.backends.mha.set_fastpath_enabled(False)": "get_fastpath_enabled() at False",
    "torch.backends.nnpack.set_flags(False)": "nnpack_enabled() at False",
    "torch._C._set_deterministic_algorithms(True, warn_only=True)": "deterministic algorithms",
    "torch.autograd.set_detect_anomaly(True)": "anomaly detection",
    "torch.set_flush_denormal(True)": "flushing of the smallest numbers",
    "import torch.overrides\ntorch.overrides.BaseTorchFunctionMode().__enter__()": "function modes at 1",
    "torch.autograd.graph.saved_tensors_hooks(abs, lambda x: x * 0).__enter__()": "hooks for saved tensors at",
    "os.chdir('/')": "the current folder at /",
}
"""What is left, and how it is called."""

FUNCTIONS = {
    "F.gelu = F.relu": "torch.nn.functional.gelu replaced",
    "torch.tanh = torch.sigmoid": "torch.tanh replaced",
    "torch.Tensor.cumsum = lambda self, dim: self": "Tensor.cumsum replaced",
    "nn.Module.__call__ = lambda self, *a, **k: self.forward(*a)": "Module.__call__ replaced",
    "nn.Module.__getattribute__ = object.__getattribute__": "Module.__getattribute__ replaced",
    "nn.modules.module.register_module_forward_hook(lambda module, args, output: output)": "forward hooks for all",
    "Subject.score = lambda self, batch: {}": "Subject.score replaced",
    "Task.loss = lambda self, outputs, batch: outputs.sum() * 0": "Task.loss replaced",
    "nn.utils.clip_grad_norm_ = lambda parameters, most: torch.zeros(())": "torch.nn.utils.clip_grad_norm_ replaced",
    "for name in ('adam', 'adamw'): setattr(sys.modules[f'torch.optim.{name}'], name, print)": "torch.optim.adam.adam",
    "torch.optim.AdamW.step = torch.optim.Adam.step = lambda self: None": "Adam.step replaced",
    "harness.training._set_learning_rate = lambda *given: None": "harness.training._set_learning_rate replaced",
    "harness.training.seeded = harness.subject.seeded = lambda *given: torch.Generator()": "harness.subject.seeded",
}

CHANGES = {
    "model.register_forward_hook(lambda module, args, output: output * 0)": "forward hooks of the model",
    "model.out.register_forward_pre_hook(lambda module, args: None)": "forward pre hooks of out",
    "model.forward = lambda tokens: 0 * tokens": "forward",
    "model.out.forward = model.out.forward": "out.forward",
    "type(model).forward = lambda self, tokens: tokens": "M.forward",
    "nn.Dropout.forward = lambda self, x: x * 0": "Dropout.forward",
    "type(model).depth = 3": "M.depth",
    "type(task).score = lambda self, outputs, batch: {}": "score",
    "model.dropout.p = 0.9": "dropout.p",
    "model.scale = 7.0": "scale",
    "model.depth = 7": "depth",
    "model.sizes.append(3)": "sizes",
    "random.shuffle(model.words)": "words",
    "model.words[500] = 'other'": "words",
    "model.shift += 1": "shift",
    "model.out.weight.requires_grad_(False)": "out.weight",
    "model.embedding.weight.register_hook(lambda gradient: gradient * 0)": "the hooks of embedding.weight",
    "model.out.weight.register_post_accumulate_grad_hook(print)": "the hooks of out.weight",
    "model.out = nn.Identity()": "the type of out",
    "model.extra = nn.Linear(2, 2)": "the modules of the model",
    "del model.dropout": "dropout",
    "model.__class__ = type('Other', (type(model),), {})": "the type of the model",
    "model.train()": "the mode of the model",
    "model.dropout.train()": "the mode of dropout",
    "task.score = lambda outputs, batch: {}": "the task's score",
    "task.distances = [1]": "the task's distances",
    "task.distances.append(99)": "the task's distances",
}
"""What is changed of the model or the task, and how it is called."""

HARMLESS = [
    "subject.batch(conditions[0]).tokens.zero_()",
    "subject.batch(conditions[0]).targets.fill_(-100)",
    "for numbers in subject.scores(conditions[0]).values(): numbers.zero_()",
    "subject.scores(conditions[0]).clear()",
    "handle = model.register_forward_hook(lambda module, args, output: output * 0)\n"
    "for condition in conditions: subject.scores(condition)\nhandle.remove()",
    "weight = model.out.weight.detach().clone()\nmodel.out.weight.data.zero_()\n"
    "for condition in conditions: subject.scores(condition)\nmodel.out.weight.data.copy_(weight)",
    "torch.manual_seed(5); numpy.random.seed(5); random.seed(5)",
    "torch.set_num_threads(3)",
    "numpy.seterr(all='raise')",
    "warnings.simplefilter('error')",
    "sys.setrecursionlimit(500)",
    "sys.path.insert(0, '/nowhere')",
    "os.environ['PATH'] = '/nowhere'",
    "signal.signal(signal.SIGINT, signal.SIG_IGN)",
    "model(subject.batch(conditions[0]).tokens).sum().backward()",
    "subject.task = subject.model = None",
    "subject.trial.task.arguments['train_max'] = subject.trial.__dict__['seed'] = 7",
    "subject.trial.model.__dict__['label'] = subject.trial.__dict__['id'] = 'other'",
]
"""What is the probe's own, or is put back without a word."""

GUILTY = {**SETTINGS, **FUNCTIONS, **CHANGES}

BODIES = [*GUILTY, *HARMLESS]
