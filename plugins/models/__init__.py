"""The built-in models."""

import re
from collections.abc import Iterator

from harness import ModelSpec, hookimpl


@hookimpl
def harness_models() -> Iterator[ModelSpec]:
    yield ModelSpec(
        "elman",
        "harness_plugins.models.elman:Elman",
        summary="simple recurrent network with tanh units (Elman, 1990)",
    )
    yield ModelSpec(
        "lstm",
        "harness_plugins.models.lstm:LSTM",
        summary="long short-term memory, in one direction or both (Hochreiter and Schmidhuber, 1997)",
    )
    yield ModelSpec(
        "gru",
        "harness_plugins.models.gru:GRU",
        summary="gated recurrent unit (Cho et al., 2014)",
    )
    yield ModelSpec(
        "contraction",
        "harness_plugins.models.hand_set:Contraction",
        summary="set by hand for both_seen: a state that halves at each step",
    )
    yield ModelSpec(
        "integrator",
        "harness_plugins.models.hand_set:Integrator",
        summary="set by hand for both_seen: a state that adds up its input, and noise",
    )
    yield ModelSpec(
        "latch",
        "harness_plugins.models.hand_set:Latch",
        summary="set by hand for both_seen: a state with two stable points (Bengio et al., 1994)",
    )
    yield ModelSpec(
        "lstm_by_hand",
        "harness_plugins.models.hand_set:LSTMByHand",
        summary="set by hand for both_seen: an LSTM whose input gate opens for a 1 alone",
    )
    yield ModelSpec(
        "gpt",
        "harness_plugins.models.gpt:GPT",
        summary="decoder-only transformer with five kinds of position, pre- or post-norm (Radford et al., 2018)",
    )
    yield ModelSpec(
        "hf",
        "harness_plugins.models.hf:HF",
        summary="any causal language model of transformers, from a folder or from its configuration",
    )
    yield ModelSpec(
        "seq2seq",
        "harness_plugins.models.seq2seq:Seq2seq",
        summary="recurrent encoder and decoder, without attention or with one of four scores (Bahdanau et al., 2015)",
    )
    yield ModelSpec(
        "transformer",
        "harness_plugins.models.transformer:Transformer",
        summary="transformer with encoder and decoder (Vaswani et al., 2017)",
    )
    yield ModelSpec(
        "encoder",
        "harness_plugins.models.encoder:Encoder",
        summary="encoder-only transformer, which sees the whole sequence (Devlin et al., 2019)",
    )
    yield ModelSpec(
        "attention_forms",
        "harness_plugins.models.attention_forms:AttentionForms",
        summary="one attention written five ways, from nested loops to the fused kernel; for timing",
    )


@hookimpl
def harness_unknown(kind: str, name: str) -> Iterator[str]:
    from harness_plugins.models.hf_names import causal_models

    plain = name.lower()
    if kind == "model" and re.fullmatch(r"[\w-]+", plain) and plain in causal_models():
        whole = f"The library transformers has an architecture of that name: hf:config={plain}"
        yield f"{whole}, or a small one: hf:config={plain},hidden_size=64,num_hidden_layers=2"
