"""LSSAR attention for PyTorch, over liblssar.so.

    import lssar
    o = lssar.attention(q, k, v, causal=True, p=15)

README.md has the rest. Without torch what needs it raises an ImportError when it is asked for.
liblssar.so is opened by the first call.
"""

from ._library import LssarError, library as _open_library
from ._plans import KINDS as _KINDS, context as _context

__all__ = ["LssarError", "attention", "build_info", "device_info", "nn", "register_transformers"]
__version__ = "1.0.0"

try:
    import torch as _torch
except ModuleNotFoundError as _error:
    if _error.name != "torch":
        raise
    _torch = None
else:
    from . import nn
    from ._attention import attention
    from ._transformers import register_transformers


def __getattr__(name):
    if _torch is None and name in __all__:
        raise ImportError(
            f"lssar.{name} needs PyTorch, 1.13 or later, which is not installed: pip install torch, "
            "or as https://pytorch.org says for this machine"
        )
    raise AttributeError(f"module 'lssar' has no attribute '{name}'")


def build_info():
    """Version, compiler and kind of build of liblssar.so, and its path: for bug reports."""
    opened = _open_library()
    return f"{opened.build_info().decode()}, {opened.path}"


def device_info(device="cpu"):
    """What kernels for a device are made for and where they are kept: a dict with the fields of
    lssar_context_info. "cpu" is the virtual device; "cuda:1" or a torch.device."""
    kind, colon, ordinal = str(device).partition(":")
    if kind not in _KINDS or colon and not ordinal.isdecimal():
        raise ValueError(f"device: '{device}'; must be a CUDA device or the CPU")
    if kind == "cuda" and not colon and _torch is not None:
        ordinal = _torch.cuda.current_device()
    return _context(kind, int(ordinal or 0)).info()
