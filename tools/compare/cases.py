"""The shapes that are compared, and how much work each is."""

from dataclasses import asdict, dataclass

PASSES = ("forward", "forward_train", "backward", "forward_backward")
DATA = ("gauss", "peaky")
# What a pass writes.
RESULTS = {
    "forward": ("o",),
    "forward_train": ("o",),
    "backward": ("dq", "dk", "dv"),
    "forward_backward": ("o", "dq", "dk", "dv"),
}
# Work over that of the forward, as FlashAttention counts.
WORK = {"forward": 1.0, "forward_train": 1.0, "backward": 2.5, "forward_backward": 3.5}


@dataclass(frozen=True)
class Case:
    """One shape with one kind of inputs. All contenders of a case run in turns."""

    dim: int
    length: int
    batch: int
    heads: int
    causal: bool
    data: str

    def shape(self):
        return (self.batch, self.heads, self.length, self.dim)

    def num_scores(self):
        """All pairs, masked ones too: what a quadratic implementation stores."""
        return self.batch * self.heads * self.length * self.length

    def flop(self, pass_name):
        """4 L^2 d per head forward, half when causal; backward 2.5 times that."""
        return 4 * self.num_scores() * self.dim / (2 if self.causal else 1) * WORK[pass_name]

    def text(self):
        return (
            f"d {self.dim}, length {self.length}, batch {self.batch}, {self.heads} heads, "
            f"{'causal' if self.causal else 'not causal'}, {self.data}"
        )

    def to_json(self):
        return asdict(self)


def make_cases(dims, lengths, causal, data, heads, tokens):
    """All combinations. The batch, at least 1, is chosen to give `tokens` tokens."""
    return [
        Case(dim, length, max(1, tokens // length), heads, is_causal, kind)
        for dim in dims
        for is_causal in causal
        for length in lengths
        for kind in data
    ]
