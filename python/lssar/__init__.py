"""LSSAR attention for PyTorch, over liblssar.so.

    import lssar
    o = lssar.attention(q, k, v, causal=True, p=15)

README.md has the rest. torch is imported when something that needs it is asked for, or now where it
is imported already: lssar.jax does without. liblssar.so is opened by the first call.
"""

import importlib
import sys
from typing import TYPE_CHECKING, Any

from ._library import LssarError, library as _open_library
from ._plans import context as _context, info_for_cpu as _info_for_cpu
from ._rules import Score

if TYPE_CHECKING:
    from . import nn
    from ._alibi import alibi_slopes
    from ._attention import attention, saved_bytes
    from ._stats import attention_stats
    from ._transformers import register_transformers
    from ._documents import cu_seqlens_of_documents
    from ._kv_cache import attention_with_kv_cache
    from ._rotary import rotary_tables
    from ._varlen import varlen_attention

__all__ = [
    "LssarError",
    "Score",
    "alibi_slopes",
    "attention",
    "attention_stats",
    "attention_with_kv_cache",
    "build_info",
    "cu_seqlens_of_documents",
    "device_info",
    "nn",
    "register_transformers",
    "rotary_tables",
    "saved_bytes",
    "varlen_attention",
]
__version__ = "1.0.0"

_NEED_TORCH = {
    "alibi_slopes": "._alibi",
    "attention": "._attention",
    "attention_stats": "._stats",
    "attention_with_kv_cache": "._kv_cache",
    "cu_seqlens_of_documents": "._documents",
    "nn": ".nn",
    "register_transformers": "._transformers",
    "rotary_tables": "._rotary",
    "saved_bytes": "._attention",
    "varlen_attention": "._varlen",
}


def _find(name: str) -> Any:
    if name not in _NEED_TORCH:
        raise AttributeError(f"module 'lssar' has no attribute '{name}'")
    try:
        import torch as _  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ImportError(
            f"lssar.{name} needs PyTorch, 1.13 or later, which is not installed: pip install torch, "
            "or as https://pytorch.org says for this machine"
        ) from None
    module = importlib.import_module(_NEED_TORCH[name], __name__)
    found = module if name == "nn" else getattr(module, name)
    globals()[name] = found
    return found


if not TYPE_CHECKING:  # a type checker would take every name to exist
    __getattr__ = _find


def __dir__() -> "list[str]":
    return sorted({*globals(), *__all__})


if "torch" in sys.modules:  # its programs may name our operators, those of torch.export say
    from . import nn
    from ._alibi import alibi_slopes
    from ._attention import attention, saved_bytes
    from ._stats import attention_stats
    from ._transformers import register_transformers
    from ._documents import cu_seqlens_of_documents
    from ._kv_cache import attention_with_kv_cache
    from ._varlen import varlen_attention


def build_info() -> str:
    """Version, compiler and kind of build of liblssar.so, and its path: for bug reports."""
    opened = _open_library()
    return f"{opened.build_info().decode()}, {opened.path}"


def device_info(device: Any = "cpu") -> "dict[str, Any]":
    """What kernels for a device are made for and where they are kept: a dict with the fields of
    lssar_context_info. "cpu": of the device that CPU tensors go to if it has kernels for them
    (LSSAR_DEVICE); "cuda:1" or a torch.device."""
    kind, colon, ordinal = str(device).partition(":")
    if kind not in ("cpu", "cuda") or colon and not ordinal.isdecimal():
        raise ValueError(f"device: '{device}'; must be a CUDA device or the CPU")
    torch = sys.modules.get("torch")
    if kind == "cuda" and not colon and torch is not None:
        ordinal = torch.cuda.current_device()
    return _info_for_cpu() if kind == "cpu" else _context(kind, int(ordinal or 0)).info()
