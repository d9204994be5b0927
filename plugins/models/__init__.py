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
        "depth",
        "harness_plugins.models.depth:Depth",
        summary="deep net of tanh layers, plain or residual, by three initialisations (He et al., 2016)",
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
        "uniform",
        "harness_plugins.models.uniform:Uniform",
        summary="baseline: equal logits, whatever the input",
        baseline=True,
    )
    yield ModelSpec(
        "bag",
        "harness_plugins.models.bag:Bag",
        summary="baseline: a mean of all embeddings so far, which knows no order",
        baseline=True,
    )
    yield ModelSpec(
        "ngram",
        "harness_plugins.models.ngram:NGram",
        summary="baseline: counts of n-grams, smoothed (Witten and Bell, 1991); no gradient steps",
        baseline=True,
    )
    yield ModelSpec(
        "window_mlp",
        "harness_plugins.models.window_mlp:WindowMLP",
        summary="baseline: the last n - 1 embeddings and a hidden layer (Bengio et al., 2003)",
        baseline=True,
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
    yield ModelSpec(
        "backbone",
        "harness_plugins.models.backbone:Backbone",
        summary="residual backbone with any mixer: ./my.py:Mixer or one of the models below",
    )
    yield ModelSpec(
        "hybrid",
        "harness_plugins.models.backbone:Hybrid",
        summary="residual backbone with two mixers in turn",
    )
    yield ModelSpec(
        "attention",
        "harness_plugins.models.attention:AttentionModel",
        summary="softmax attention in the backbone, with no, rotary or ALiBi positions (Vaswani et al., 2017)",
    )
    yield ModelSpec(
        "window_attention",
        "harness_plugins.models.attention:WindowAttentionModel",
        summary="attention to the last positions alone (Beltagy et al., 2020)",
    )
    yield ModelSpec(
        "linear_attention",
        "harness_plugins.models.linear_attention:LinearAttentionModel",
        summary="attention as a sum of outer products, which may fade (Katharopoulos et al., 2020)",
    )
    yield ModelSpec(
        "delta_net",
        "harness_plugins.models.delta_net:DeltaNetModel",
        summary="linear attention that writes what is not there yet (Schlag et al., 2021; Yang et al., 2024)",
    )
    yield ModelSpec(
        "mamba",
        "harness_plugins.models.mamba:MambaModel",
        summary="selective state space, also with negative eigenvalues (Dao and Gu, 2024; Grazzi et al., 2024)",
    )
    yield ModelSpec(
        "min_gru",
        "harness_plugins.models.min_rnn:MinGRUModel",
        summary="GRU whose gates do not see the state, in one pass (Feng et al., 2024)",
    )
    yield ModelSpec(
        "min_lstm",
        "harness_plugins.models.min_rnn:MinLSTMModel",
        summary="LSTM whose gates do not see the state, in one pass (Feng et al., 2024)",
    )
    yield ModelSpec(
        "m_lstm",
        "harness_plugins.models.m_lstm:MLSTMModel",
        summary="matrix memory with an exponential input gate (xLSTM; Beck et al., 2024)",
    )
    yield ModelSpec(
        "hyena",
        "harness_plugins.models.hyena:HyenaModel",
        summary="gated convolution as long as the sequence (Poli et al., 2023)",
    )


@hookimpl
def harness_unknown(kind: str, name: str) -> Iterator[str]:
    from harness_plugins.models.hf_names import causal_models

    plain = name.lower()
    if kind == "model" and re.fullmatch(r"[\w-]+", plain) and plain in causal_models():
        whole = f"The library transformers has an architecture of that name: hf:config={plain}"
        yield f"{whole}, or a small one: hf:config={plain},hidden_size=64,num_hidden_layers=2"
