"""lssar.cu_seqlens_of_documents: where the documents of packed batches begin."""

from typing import Optional

import torch


def cu_seqlens_of_documents(
    document_ids: Optional[torch.Tensor] = None, *, position_ids: Optional[torch.Tensor] = None
) -> torch.Tensor:
    """cu_seqlens of lssar.varlen_attention from what packed batches say of their tokens.

    Args:
        document_ids: [total] or [batch, length], any integers: a document is a run of one id.
        position_ids: the same shapes, in place of document_ids: a document goes on while positions
            go up by 1.

    Returns int32 [documents + 1], for the rows of all batch entries one after another. A document
    ends with its batch entry. A run of padding counts as a document. On a GPU it waits for the
    device, to learn how many documents there are.

    Raises TypeError or ValueError, which name the argument.
    """
    given = {"document_ids": document_ids, "position_ids": position_ids}
    named = [(name, x) for name, x in given.items() if x is not None]
    if len(named) != 1:
        raise TypeError("document_ids and position_ids: must be one of them, not both or neither")
    ((name, x),) = named
    is_tensor = isinstance(x, torch.Tensor)
    if not is_tensor or x.dtype.is_floating_point or x.dtype.is_complex or x.dtype == torch.bool:
        what = x.dtype if is_tensor else type(x).__name__
        raise TypeError(f"{name}: {what}; must be a torch.Tensor of integers")
    if x.dim() not in (1, 2):
        raise ValueError(f"{name}: shape {tuple(x.shape)}; must be [total] or [batch, length]")
    rows = x if x.dim() == 2 else x[None]
    begins = torch.ones(rows.shape, dtype=torch.bool, device=x.device)
    begins[:, 1:] = rows[:, 1:] != rows[:, :-1] + (name == "position_ids")
    starts = begins.flatten().nonzero().flatten().to(torch.int32)
    return torch.nn.functional.pad(starts, (0, 1), value=x.numel())
