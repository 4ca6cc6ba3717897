"""How the pages call the attentions of the runs."""

from typing import Optional

TITLES = {
    "softmax": "softmax",
    "softmax_entropy": "softmax, QK norm, log N",
    "lssa": "LSSA",
    "lssar": "LSSAR",
    "sigmoid_l1": "sigmoid, l1",
    "relu_l1": "ReLU, l1",
    "softmax_inverse": "softmax, inverse: -P",
    "softmax_recentred": "softmax, re-centred: P - b / N",
    "softmax_recentred_l1": "softmax, re-centred, l1",
    "identity_l1": "softmax without exp",
    "exp": "softmax without its norm",
    "identity": "softmax without both",
    "relu_squared_l1": "ReLU², l1",
    "relu6_l1": "ReLU6, l1",
    "gelu_l1": "GELU, l1",
    "softplus_l1": "softplus, l1",
    "mish_l1": "Mish, l1",
    "sigmoid_unbiased_l1": "sigmoid, l1, no bias",
    "sigmoid": "sigmoid",
    "relu_length": "ReLU over N",
    "relu_sqrt_length": "ReLU over √(N / 2)",
}
# Lines of plots: the margin has no room for more.
SHORT_TITLES = {
    "softmax": "softmax",
    "softmax_entropy": "softmax, log N",
    "lssa": "LSSA",
    "lssar_p3": "LSSAR, p = 3",
    "lssar_p15": "LSSAR, p = 15",
}


def title_of(attention: str, p: Optional[int] = None) -> str:
    """The name of an attention on the page. p: what it is read with; None: as trained."""
    base, _, power = attention.rpartition("_p")
    name = TITLES.get(attention) or f"{TITLES[base]}, p = {power}"
    return name if p is None else f"{name}; read with p = {p}"
