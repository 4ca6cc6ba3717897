"""The fields of a score function's text, for what Python itself must know of them.

Used by _kv_cache, _plans, _reference and _transformers; needs no torch. liblssar.so has accepted the
text (score/score_text.h), so errors are not checked again.
"""

import functools
import json

from ._rules import at_compile_time

_SOFTMAX = {"scale": "inv_sqrt_dim", "qk_norm": False, "phi": "exp"}
_SCORES = {
    "lssar": {},
    "softmax": _SOFTMAX,
    "sigmoid": {**_SOFTMAX, "bias": "neg_log_length", "phi": "sigmoid", "normalizer": "none"},
}
_DEFAULTS = {
    "scale": "log_dim_log_length",
    "bias": "none",
    "qk_norm": True,
    "phi": "softplus",
    "normalizer": "sum",
    "normalizer_gain": 1.0,
    "psi": None,
    "psi_normalizer": "none",
    "sink": "none",
    "soft_cap": 0.0,
    "alibi": "none",
}
_ACTIVATIONS = {
    "softplus": "softplus(x)",
    "exp": "exp(x)",
    "identity": "x",
    "relu": "relu(x)",
    "relu_squared": "relu(x)^2",
    "relu6": "min(relu(x), 6)",
    "gelu": "0.5 * x * (1 + erf(x / sqrt(2)))",
    "sigmoid": "sigmoid(x)",
    "mish": "x * tanh(softplus(x))",
}


@at_compile_time
def score_fields(text):
    """All fields by their names, phi as an expression."""
    return _fields(text)


@functools.lru_cache(maxsize=256)
def _fields(text):
    if text.strip(" ").startswith("{"):
        given = json.loads(text)
    else:
        given = {}
        for part in _parts(text):
            name, is_field, value = (x.strip(" ") for x in part.partition("="))
            given.update({name: _value_of(name, value)} if is_field else _SCORES[name])
    if "activation" in given:
        given["phi"] = given.pop("activation")
    unread = given.keys() - _DEFAULTS.keys()
    if unread:
        raise NotImplementedError(
            f"score: {text!r}; this package does not know the field {min(unread)}"
        )
    fields = {**_DEFAULTS, **given}
    fields["phi"] = _ACTIVATIONS.get(fields["phi"], fields["phi"])
    return fields


def _parts(text):
    """The parts between commas outside of brackets."""
    parts, depth = [""], 0
    for c in text:
        depth += (c == "(") - (c == ")")
        if c == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += c
    return [part for part in parts if part]


def _value_of(name, text):
    if name in ("phi", "psi", "activation"):
        return text
    if text in ("true", "false"):
        return text == "true"
    try:
        return float.fromhex(text) if "x" in text.lower() else float(text)
    except ValueError:
        return text
