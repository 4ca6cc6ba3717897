"""attn_implementation="lssar" for models of Hugging Face transformers."""

import math
from typing import Optional, Union

import torch

from . import _plans, _rules
from ._attention import attention
from ._check import sink_dtype
from ._score_text import score_fields

# Arguments of attention functions that change the result, and have no meaning here.
_UNSUPPORTED = (
    *("softcap", "sliding_window", "position_bias", "cache", "head_mask", "layer_head_mask"),
    *("cu_seq_lens_q", "cu_seq_lens_k"),  # packed sequences
)


def register_transformers(
    name: str = "lssar",
    p: Optional[int] = None,
    offset: float = 1.0,
    score: "Union[str, _rules.Score, None]" = None,
) -> None:
    """Registers LSSAR with transformers, 4.53 or later, as the attention implementation `name`:

        lssar.register_transformers()
        model = AutoModelForCausalLM.from_config(config, attn_implementation="lssar")

    p, offset and score are as in lssar.attention. A model must be trained with it: weights that
    were trained with softmax fit the score "softmax" only. The model's own scale of scores is
    ignored where the score function's depends on N, as LSSAR's does; any other scale must be the
    model's. Padding, packed sequences, sliding windows, static caches, dropout and other changes to
    scores or masks raise an error, as does asking for the weights. Layers with sinks (GPT-OSS's)
    need a score that has one, "softmax,sink=per_head", and other layers a score without.
    """
    text, power = _rules.score_of(score, p)
    _rules.check_scalars(False, power, offset)
    has_sink = _plans.has_sink(text, power, float(offset))
    try:
        from transformers import AttentionInterface, AttentionMaskInterface
    except ImportError as error:
        raise ImportError(f"register_transformers needs transformers 4.53 or later: {error}")

    scale = score_fields(text or "lssar")["scale"]

    def attend(
        module,
        query,
        key,
        value,
        attention_mask,
        dropout=0.0,
        is_causal=None,
        scaling=None,
        output_attentions=False,
        s_aux=None,
        **others,
    ):
        """Returns [batch, length, heads, dim], and no weights."""
        if attention_mask is not None:
            raise ValueError(
                f"attention_mask: {tuple(attention_mask.shape)}; {name} takes no mask but causal"
            )
        if dropout:
            raise ValueError(
                f"dropout: {dropout}; {name} has none: set the model's attention dropout to 0"
            )
        for argument in _UNSUPPORTED:
            if others.get(argument) is not None:
                raise ValueError(f"{argument}: {name} does not support it; must be None")
        if output_attentions:
            raise ValueError(f"output_attentions: True; {name} never has the weights in memory")
        _check_scaling(name, scaling, scale, query.shape[-1])
        if is_causal is None:
            is_causal = getattr(module, "is_causal", True)
        options = {"causal": bool(is_causal), "p": p, "offset": offset, "score": score}
        sink = _sink_of_model(name, s_aux, has_sink, query)
        o = attention(query, key, value, **options, sink=sink)
        return o.transpose(1, 2).contiguous(), None

    AttentionInterface.register(name, attend)
    AttentionMaskInterface.register(name, _no_mask)


def _sink_of_model(name, s_aux, has_sink, q):
    """`s_aux`: the model's logits of sinks, [heads], in the model's dtype, or None."""
    if s_aux is None and has_sink:
        raise ValueError(
            f"s_aux: None; {name} has a score with sink=per_head, which needs the model's sinks"
        )
    if s_aux is not None and not has_sink:
        raise ValueError(
            f"s_aux: {tuple(s_aux.shape)}; {name} has a score without a sink: register it with "
            'score="softmax,sink=per_head"'
        )
    return s_aux if s_aux is None else s_aux.to(sink_dtype(q.dtype))


def _check_scaling(name, scaling, scale, dim):
    """`scaling`: the model's; `scale`: that field of the score function."""
    ours = 1 / math.sqrt(dim) if scale == "inv_sqrt_dim" else scale
    if scaling is None or isinstance(ours, str) or math.isclose(scaling, ours, rel_tol=1e-6):
        return
    raise ValueError(
        f"scaling: {scaling}; {name} has the scale {ours}: register a score with that of the model, as "
        f'in score="softmax,scale={scaling}"'
    )


def _no_mask(
    q_length, kv_length, q_offset=0, kv_offset=0, mask_function=None, attention_mask=None, **others
):
    """None, for causal attention and attention to everything; an error for any other mask."""
    from transformers import masking_utils

    bidirectional = getattr(masking_utils, "bidirectional_mask_function", None)
    if mask_function not in (masking_utils.causal_mask_function, bidirectional):
        raise ValueError(
            "lssar takes causal attention without packed sequences, windows or chunks only; "
            "this model asks for another mask"
        )
    causal = mask_function is masking_utils.causal_mask_function
    if causal and int(q_offset) + q_length != kv_offset + kv_length:
        raise ValueError(
            f"cache: {kv_length} keys for queries {int(q_offset)} to {int(q_offset) + q_length}; "
            "lssar needs a cache that holds no more than the tokens so far (DynamicCache)"
        )
    # Waits for the device, once per forward of the model, as transformers' other masks do.
    if attention_mask is not None and not bool(attention_mask.all()):
        raise ValueError("attention_mask: has padding; lssar takes batches without padding only")
    return None
