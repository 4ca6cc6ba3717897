"""attn_implementation="lssar" for models of Hugging Face transformers."""

import math
import sys
from typing import Optional, Union

import torch

from . import _padding, _plans, _rules
from ._attention import attention
from ._check import check_is_tensor, sink_dtype
from ._score_text import score_fields

# Arguments of attention functions that change the result, and are not passed on.
_UNSUPPORTED = (
    *("position_bias", "cache", "head_mask", "layer_head_mask"),
    *("cu_seq_lens_q", "cu_seq_lens_k"),  # packed sequences are known by their position_ids
)


def register_transformers(
    name: str = "lssar",
    p: Optional[int] = None,
    offset: float = 1.0,
    score: "Union[str, _rules.Score, None]" = None,
    alibi_slopes: Optional[torch.Tensor] = None,
) -> None:
    """Registers LSSAR with transformers, 4.53 or later, as the attention implementation `name`:

        lssar.register_transformers()
        model = AutoModelForCausalLM.from_config(config, attn_implementation="lssar")

    p, offset and score are as in lssar.attention. A model must be trained with it: weights that
    were trained with softmax fit the score "softmax" only. The model's own scale of scores is
    ignored where the score function's depends on N, as LSSAR's does; any other scale must be the
    model's. Padding masks, [batch, keys], and caches of any kind are taken: padding has no weight and
    is not counted in N, and its queries get 0. So are packed sequences, by their position_ids, and
    sliding windows of causal layers. Other masks, dropout and other changes to scores raise an error,
    as does asking for the weights. Layers with sinks (GPT-OSS's) need a score that has one,
    "softmax,sink=per_head", and other layers a score without. A soft cap of scores (Gemma 2's) must
    be that of the score, "softmax,soft_cap=50".

    A score with ALiBi, "softmax,alibi=per_head", needs slopes, [heads]: `alibi_slopes`, or in their
    place those of a call, model(tokens, alibi_slopes=slopes). No model of transformers brings its own.
    BLOOM, MPT and Falcon have ALiBi, but do not ask an attention implementation for it, and raise an
    error with this one. Distances count tokens, without padding, in the token's own sequence.
    """
    text, power = _rules.score_of(score, p)
    _rules.check_scalars(False, power, offset)
    has_sink = _plans.has_sink(text, power, float(offset))
    try:
        from transformers import AttentionInterface, AttentionMaskInterface
    except ImportError as error:
        raise ImportError(f"register_transformers needs transformers 4.53 or later: {error}")

    fields = score_fields(text or "lssar")
    scale, soft_cap = fields["scale"], fields["soft_cap"]
    has_alibi = fields["alibi"] != "none"
    registered_slopes = _registered_slopes(alibi_slopes, has_alibi)

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
        sliding_window=None,
        s_aux=None,
        softcap=None,
        alibi_slopes=None,
        **others,
    ):
        """Returns [batch, length, heads, dim], and no weights."""
        if attention_mask is not None and not _padding.is_mask(attention_mask, query, key):
            raise ValueError(
                f"attention_mask: {attention_mask.dtype} {tuple(attention_mask.shape)}; {name} takes "
                "padding masks only, [batch, keys], given to the model"
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
        _check_soft_cap(name, softcap, soft_cap)
        options = {"p": p, "offset": offset, "score": score}
        options["sink"] = _sink_of_model(name, s_aux, has_sink, query)
        slopes = registered_slopes if alibi_slopes is None else alibi_slopes
        options["alibi_slopes"] = _slopes_of_call(name, slopes, has_alibi, query)
        if is_causal is None:
            is_causal = getattr(module, "is_causal", True)
        if attention_mask is not None:
            is_causal = _padding.is_causal(attention_mask)
        if sliding_window is not None:
            options["window_size"] = _window_size(name, sliding_window, is_causal)
        if attention_mask is not None:
            return _padding.attention(query, key, value, attention_mask, **options), None
        o = attention(query, key, value, causal=bool(is_causal), **options)
        return o.transpose(1, 2).contiguous(), None

    AttentionInterface.register(name, attend)
    AttentionMaskInterface.register(name, _mask)


def _window_size(name, sliding_window, is_causal):
    """Of lssar.attention. `sliding_window`: how many keys a query sees, its own among them."""
    if not is_causal:
        raise ValueError(f"sliding_window: {sliding_window}; {name} has it in causal layers only")
    if sliding_window < 1:
        raise ValueError(f"sliding_window: {sliding_window}; must be at least 1")
    return (sliding_window - 1, -1)


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


def _registered_slopes(slopes, has_alibi):
    """What register_transformers was given: a copy."""
    if slopes is None:
        return None
    check_is_tensor("alibi_slopes", slopes)
    shape = tuple(slopes.shape)
    if len(shape) != 1:
        raise ValueError(f"alibi_slopes: shape {shape}; must be [heads]")
    _rules.check_is_due("alibi_slopes", "alibi", shape, has_alibi, shape[0], torch.float32)
    return slopes.detach().clone()


def _slopes_of_call(name, slopes, has_alibi, q):
    """As lssar.attention takes them. `slopes`: those of the call, else those that were registered, or
    None."""
    if slopes is None and has_alibi:
        raise ValueError(
            f"alibi_slopes: None; {name} has a score with alibi=per_head, and models bring no slopes: "
            "give them to register_transformers, or to each call of the model"
        )
    if slopes is not None and not has_alibi:
        raise ValueError(
            f"alibi_slopes: given; {name} has a score without ALiBi: register it with "
            'score="softmax,alibi=per_head"'
        )
    if not isinstance(slopes, torch.Tensor):
        return slopes
    return slopes.to(device=q.device, dtype=sink_dtype(q.dtype))


def _check_scaling(name, scaling, scale, dim):
    """`scaling`: the model's; `scale`: that field of the score function."""
    ours = 1 / math.sqrt(dim) if scale == "inv_sqrt_dim" else scale
    if scaling is None or isinstance(ours, str) or math.isclose(scaling, ours, rel_tol=1e-6):
        return
    raise ValueError(
        f"scaling: {scaling}; {name} has the scale {ours}: register a score with that of the model, as "
        f'in score="softmax,scale={scaling}"'
    )


def _check_soft_cap(name, softcap, soft_cap):
    """`softcap`: the model's, or None; `soft_cap`: that field of the score function."""
    if math.isclose(softcap or 0.0, soft_cap, rel_tol=1e-6):
        return
    raise ValueError(
        f"softcap: {softcap}; {name} has the soft cap {soft_cap}: register a score with that of the "
        f'model, as in score="softmax,soft_cap={softcap or 0}"'
    )


def _mask(
    batch_size,
    kv_length,
    q_length=None,
    q_offset=0,
    kv_offset=0,
    mask_function=None,
    attention_mask=None,
    device="cpu",
    cache_position=None,
    config=None,
    **others,
):
    """What the layers get as their attention_mask; an error for masks that are not of padding, packed
    sequences or windows. A window is not in it: layers give theirs with each call.

    transformers 4 gives cache_position, the positions of the queries, and transformers 5 q_length,
    q_offset and device."""
    from transformers import masking_utils

    if config is not None and _computes_its_own(type(config).__module__):
        raise ValueError(
            f"attn_implementation: lssar; must be another for the model type '{config.model_type}', "
            "whose code in transformers computes attention itself and would ignore this one"
        )
    if cache_position is not None:
        q_length, q_offset, device = len(cache_position), cache_position[0], cache_position.device

    causal, bidirectional = (
        getattr(masking_utils, f"{name}_mask_function", None) for name in ("causal", "bidirectional")
    )
    mask_function = _without_window(mask_function, causal)
    documents = _documents_of(mask_function, causal)
    if documents is not None:
        if attention_mask is not None:
            raise ValueError("attention_mask: given beside packed sequences; must be None with them")
        return _padding.mask_of_documents(documents.expand(batch_size, -1))
    if mask_function not in (causal, bidirectional):
        raise ValueError(
            "attention_mask: lssar takes causal attention, sliding windows, padding and packed "
            "sequences only; this model asks for another mask"
        )
    places = _padding.Places(q_length, q_offset, kv_length, kv_offset)
    return _padding.mask_of(places, mask_function is causal, attention_mask, batch_size, device)


@_rules.at_compile_time
def _computes_its_own(config_module):
    """Whether models of a configuration from this module of transformers ask an implementation of
    attention for masks, but not for attention, as BLOOM and MPT do: their code does not know the
    table of implementations."""
    if not config_module.startswith("transformers.models."):
        return False
    module = sys.modules.get(config_module.replace(".configuration_", ".modeling_"))
    if module is None or hasattr(module, "ALL_ATTENTION_FUNCTIONS"):
        return False
    classes = (x for x in vars(module).values() if isinstance(x, type))
    return not any(getattr(x, "_supports_attention_backend", False) for x in classes)


def _without_window(mask_function, causal):
    """`causal` for transformers' mask of a causal sliding window. Others stay as they are."""
    both = _parts_of(mask_function, "and_masks", "mask_functions")
    if both is None or len(both[0]) != 2 or both[0][1] is not causal:
        return mask_function
    is_window = _parts_of(both[0][0], "sliding_window_overlay", "sliding_window") is not None
    return causal if is_window else mask_function


def _documents_of(mask_function, causal):
    """What transformers' mask of packed sequences knows: [batch, length], equal numbers for tokens of
    one document. None if the function is not exactly that mask. It is known by its parts, whose order
    depends on the version of transformers: which document, and causal, which may be within it."""
    both = _parts_of(mask_function, "and_masks", "mask_functions")
    if both is None or len(both[0]) != 2:
        return None
    for which, within in (both[0], both[0][::-1]):
        documents = _parts_of(which, "packed_sequence_mask_function", "packed_sequence_mask")
        remapped = _parts_of(
            within, "remap_positions_for_packed_sequence", "mask_function", "position_ids"
        )
        if remapped is not None:
            within = remapped[0]
        if documents is not None and _without_window(within, causal) is causal:
            return documents[0]
    return None


def _parts_of(function, maker, *names):
    """Variables of a function that masking_utils' `maker` made, or None."""
    code = getattr(function, "__code__", None)
    made_by = f"{maker}.<locals>."
    is_theirs = getattr(function, "__module__", None) == "transformers.masking_utils"
    if code is None or not is_theirs or not function.__qualname__.startswith(made_by):
        return None
    found = dict(zip(code.co_freevars, (cell.cell_contents for cell in function.__closure__ or ())))
    return [found[name] for name in names] if set(found) == set(names) else None
