"""LSSAR attention for PyTorch, over liblssar.so.

    import lssar
    o = lssar.attention(q, k, v, causal=True, p=15)

README.md has the rest. Importing this needs torch; liblssar.so is opened by the first call.
"""

import torch as _torch

from . import nn
from ._attention import attention
from ._library import LssarError, library as _open_library
from ._plans import context as _context
from ._transformers import register_transformers

__all__ = ["LssarError", "attention", "build_info", "device_info", "nn", "register_transformers"]
__version__ = "1.0.0"


def build_info():
    """Version, compiler and kind of build of liblssar.so, and its path: for bug reports."""
    opened = _open_library()
    return f"{opened.build_info().decode()}, {opened.path}"


def device_info(device="cpu"):
    """What kernels for a torch device are made for and where they are kept: a dict with the fields
    of lssar_context_info. "cpu" is the virtual device."""
    device = _torch.device(device)
    if device.type not in ("cpu", "cuda"):
        raise ValueError(f"device: '{device}'; must be a CUDA device or the CPU")
    if device.type == "cuda" and device.index is None:
        device = _torch.device("cuda", _torch.cuda.current_device())
    return _context(device).info()
