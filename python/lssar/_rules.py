"""What arguments attention takes, in plain Python: one set of rules for PyTorch and JAX.

Used by _check and jax. Shapes are tuples, whose sizes may be symbolic.
"""

import json
import math
import numbers
from typing import Optional, Union

MAX_POWER = 1024
MAX_HEAD_DIM = 256
MAX_OFFSET = 1000000
MAX_LENGTH = 2**31 - 1
HEAD_DIMS = f"a multiple of 8 from 8 to {MAX_HEAD_DIM}"
LAYOUTS = {
    "bhld": "[batch, heads, length, dim]",
    "blhd": "[batch, length, heads, dim]",
}
DEFAULT_POWER = 15
NAMES = ("q", "k", "v")
NAMES_OF_CACHES = ("q", "k_cache", "v_cache")


def at_compile_time(function):
    """torch.compile calls it while it traces, and keeps the result. No argument is a tensor."""
    function._dynamo_marked_constant = True
    return function


def check_text(name, text):
    """The library's strings end at a NUL, and are UTF-8."""
    if not text.isascii():
        strange = next(c for c in text if not c.isascii())
        raise ValueError(f"{name}: has the character {strange!a}; must be of ASCII characters")
    if "\0" in text:
        raise ValueError(f"{name}: {text!r}; must not have a NUL character")


def _check_field(name, value):
    if name == "qk_norm":
        if not isinstance(value, bool):
            raise TypeError(f"{name}: {value!r}; must be True or False")
        return value
    is_text = name not in ("normalizer_gain", "soft_cap")
    if isinstance(value, str) and is_text:
        check_text(name, value)
        return value
    is_number = name in ("scale", "bias", "normalizer_gain", "soft_cap")
    allowed = ["a number"] * is_number + ["a str"] * is_text
    if not is_number or isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name}: {value!r}; must be {' or '.join(allowed)}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"{name}: {value!r}; must be a finite number")
    return number


def _json(value):
    """As json.dumps. Plain values do not use it, because torch.compile cannot trace it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value)
    if not value.isprintable():
        return json.dumps(value)
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


class Score:
    """A score function by its fields (docs/fields.md): Score(phi="relu(x)^2", normalizer="sum_abs").

    Fields that are left out have the defaults of LSSAR's. Expressions are in x; psi's also in b and
    N. What is wrong with a field is said by the first call, which hands it to the library.
    """

    __slots__ = ("text", "__weakref__")
    text: str  # JSON

    def __init__(
        self,
        phi: Optional[str] = None,
        *,
        scale: Union[str, float, None] = None,
        bias: Union[str, float, None] = None,
        qk_norm: Optional[bool] = None,
        normalizer: Optional[str] = None,
        normalizer_gain: Optional[float] = None,
        psi: Optional[str] = None,
        psi_normalizer: Optional[str] = None,
        sink: Optional[str] = None,
        soft_cap: Optional[float] = None,
        alibi: Optional[str] = None,
    ) -> None:
        fields = {
            "scale": scale,
            "bias": bias,
            "qk_norm": qk_norm,
            "phi": phi,
            "normalizer": normalizer,
            "normalizer_gain": normalizer_gain,
            "psi": psi,
            "psi_normalizer": psi_normalizer,
            "sink": sink,
            "soft_cap": soft_cap,
            "alibi": alibi,
        }
        given = {n: _check_field(n, value) for n, value in fields.items() if value is not None}
        parts = [f"{_json(name)}: {_json(value)}" for name, value in given.items()]
        object.__setattr__(self, "text", "{" + ", ".join(parts) + "}")

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("lssar.Score: cannot be changed")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("lssar.Score: cannot be changed")

    def __reduce__(self) -> "tuple[object, ...]":
        return _score_of_text, (self.text,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Score) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in json.loads(self.text).items())
        return f"lssar.Score({fields})"


def _score_of_text(text):
    """For pickle and copy."""
    return Score(**json.loads(text))


def check_scalars(causal, p, offset):
    if not isinstance(causal, bool):
        raise TypeError(f"causal: {causal!r}; must be True or False")
    if not isinstance(p, int) or isinstance(p, bool):
        raise TypeError(f"p: {p!r}; must be an int from 0 to {MAX_POWER}")
    if not 0 <= p <= MAX_POWER:
        raise ValueError(f"p: {p}; must be from 1 to {MAX_POWER}, or 0 for LSSA")
    if not isinstance(offset, (int, float)) or isinstance(offset, bool):
        raise TypeError(f"offset: {offset!r}; must be a number")
    if not 0 <= offset <= MAX_OFFSET:  # a NaN is not
        raise ValueError(f"offset: {offset}; must be from 0 to {MAX_OFFSET}")


def _window_number(name, value, least, meaning):
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name}: {value!r}; must be an int from {least} to {MAX_LENGTH}{meaning}")
    if not least <= value <= MAX_LENGTH:
        raise ValueError(f"{name}: {value}; must be from {least} to {MAX_LENGTH}{meaning}")
    return value


def window_of(window_size, window_sinks, prefix, chunk):
    """(left, right, sinks, prefix, chunk), or () where they limit nothing. Says what is wrong."""
    is_pair = isinstance(window_size, (tuple, list)) and len(window_size) == 2
    if not is_pair:
        raise TypeError(f"window_size: {window_size!r}; must be a pair of ints, (left, right)")
    all_keys = "; -1 is no limit"
    window = (
        _window_number("window_size[0]", window_size[0], -1, all_keys),
        _window_number("window_size[1]", window_size[1], -1, all_keys),
        _window_number("window_sinks", window_sinks, 0, ""),
        _window_number("prefix", prefix, 0, ""),
        _window_number("chunk", chunk, 0, "; 0 is no chunks"),
    )
    return () if window == (-1, -1, 0, 0, 0) else window


def flag(name, value):
    """A bool, as it is."""
    if not isinstance(value, bool):
        raise TypeError(f"{name}: {value!r}; must be True or False")
    return value


def window_options(window):
    """The keywords of lssar.attention from which window_of made `window`."""
    if not window:
        return {}
    names = ("window_sinks", "prefix", "chunk")
    return {"window_size": tuple(window[:2]), **dict(zip(names, window[2:]))}


def score_of(score, p):
    """The library's text of a score function, "" for LSSAR's, and p: without one it is 15 for
    LSSAR, and 0 for other score functions."""
    text = "" if score is None else score.text if isinstance(score, Score) else score
    if not isinstance(text, str):
        raise TypeError(f"score: {score!r}; must be a str or an lssar.Score")
    check_text("score", text)
    if text.strip(" ") == "lssar":
        text = ""
    if p is None:
        p = 0 if text else DEFAULT_POWER
    return text, p


def check_layout(layout, scale, shapes, score=""):
    """`shapes` by the names of their tensors."""
    if scale is not None and score:
        raise ValueError(
            f"scale: {scale!r}; must be None: a score function has its own, as in "
            'lssar.Score(phi="exp", scale=0.125) or score="softmax,scale=0.125"'
        )
    if scale is not None:
        raise ValueError(
            f"scale: {scale!r}; must be None: scores are cosines times log(d) log(N) by LSSAR's "
            "definition, N the number of keys a row sees; p is what sharpens the weights"
        )
    if not isinstance(layout, str) or layout not in LAYOUTS:
        raise ValueError(f"layout: {layout!r}; must be 'bhld' or 'blhd'")
    for name, shape in shapes.items():
        check_rank(name, shape, layout)


def check_is_due(name, field, shape, is_due, heads, dtype):
    """Checks an argument with a number for each head, which is due where the score function's `field`
    is per_head. `shape`: that of the argument, or None."""
    if is_due and shape is None:
        raise ValueError(
            f"{name}: None; must be {dtype} [heads], {(heads,)}, because the score function has "
            f"{field}=per_head"
        )
    if shape is not None and not is_due:
        raise ValueError(
            f"{name}: shape {tuple(shape)}; must be None, because the score function has no {field}; "
            f'one that has is score="softmax,{field}=per_head"'
        )


def check_per_head(name, shape, heads, is_surely=bool):
    refuse(
        len(shape) != 1 or is_surely(shape[0] != heads),
        lambda: f"{name}: shape {tuple(shape)}; must be {(heads,)}, a number for each head of q",
    )


def longest(name, given, otherwise):
    """max_seqlen_q or max_seqlen_k, or `otherwise` if it is None."""
    if given is None:
        return otherwise
    if not isinstance(given, int) or isinstance(given, bool) or not 0 <= given <= MAX_LENGTH:
        raise ValueError(f"{name}: {given!r}; must be an int from 0 to {MAX_LENGTH}, or None")
    return given


def check_rotary_shapes(cos, sin, head_dim):
    for name, shape in (("rotary_cos", cos), ("rotary_sin", sin)):
        if len(shape) != 2 or not 2 <= 2 * shape[1] <= head_dim:
            raise ValueError(
                f"{name}: shape {tuple(shape)}; must be [positions, rotary_dim / 2] with a "
                f"rotary_dim from 2 to head_dim = {head_dim}"
            )
    if tuple(cos) != tuple(sin):
        raise ValueError(f"rotary_sin: shape {tuple(sin)}; must be {tuple(cos)}")


def check_rotary_lengths(positions, len_q, len_k):
    """In a call the last query stands at the last key's position."""
    if len_q > len_k:
        raise ValueError(
            f"q: length {len_q}; must be at most that of k, {len_k}, with rotary_cos, because query i "
            "stands at position i + length_k - length_q"
        )
    if positions < len_k:
        raise ValueError(f"rotary_cos: {positions} positions; must be at least {len_k}, one per key")


def check_rotary_sequences(positions, max_k):
    if positions < max_k:
        raise ValueError(
            f"rotary_cos: {positions} positions; must be at least {max_k}, the most keys that a "
            "sequence may have (max_seqlen_k)"
        )


def check_rotary_room(positions, rows):
    if positions < rows:
        raise ValueError(
            f"rotary_cos: {positions} positions; must be at least {rows}, the caches' room and the "
            "length of q"
        )


def check_cache_lengths(least, most, room, new):
    """`least` and `most`: keys that a cache holds before `new` ones are added."""
    if least < 0 or most > room - new:
        given = least if least == most else f"from {least} to {most}"
        raise ValueError(
            f"cache_seqlens: {given}; must be from 0 to {room - new}, because the caches "
            f"have room for {room} keys and {new} are added"
        )


def check_rank(name, shape, layout="bhld"):
    if len(shape) != 4:
        raise ValueError(f"{name}: shape {tuple(shape)}; must be {LAYOUTS[layout]}")


def refuse(condition, message, is_surely=bool):
    """Raises ValueError(message()) where the condition holds. `is_surely` decides symbolic ones."""
    if condition is True or condition is not False and is_surely(condition):
        raise ValueError(message())


def is_no_head_dim(dim):
    return dim % 8 != 0 or dim < 8 or dim > MAX_HEAD_DIM


def check_shapes(q, k, v, is_surely=bool, names=NAMES):
    """Of shapes [batch, heads, length, dim]. `names`: of the arguments."""
    _, name_k, name_v = names
    for name, shape in zip(names, (q, k, v)):
        check_rank(name, shape)
        batch, _, _, dim = shape
        refuse(
            is_no_head_dim(dim),
            lambda: f"{name}: dim {dim}; must be {HEAD_DIMS}",  # noqa: B023
            is_surely,
        )
        refuse(
            batch != q[0],
            lambda: f"{name}: batch {batch}; must be that of q, {q[0]}",  # noqa: B023
            is_surely,
        )
    refuse(k[3] != q[3], lambda: f"{name_k}: dim {k[3]}; must be that of q, {q[3]}", is_surely)
    for i in (1, 2):
        refuse(
            v[i] != k[i],
            lambda: (
                f"{name_v}: heads and length {tuple(v[1:3])}; must be those of {name_k}, "
                f"{tuple(k[1:3])}"
            ),
            is_surely,
        )
    heads, kv_heads = q[1], k[1]
    refuse(heads < 1, lambda: f"q: {heads} heads; must be 1 or more", is_surely)
    refuse(
        kv_heads < 1 or heads % kv_heads != 0,
        lambda: f"{name_k}: {kv_heads} heads; must divide the heads of q, {heads}",
        is_surely,
    )
