"""The config of a run: a JSON file with the sections model, data and train, and overrides.

    config = load("examples/train/configs/tiny.json", ["model.attention=softmax", "train.steps=50"])
"""

import dataclasses
import json
import pathlib
from typing import Any, Optional, Union

from .fields import Choice, ConfigError, Flag, Number, Powers, Text, Whole, field, section_of

DATA_SOURCES = ("made", "text", "shards", "passkey", "recall", "shapes", "orbits")
_GROWING = ("made", "passkey", "recall")  # sources with data.shortest


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    # gpt2: LayerNorm, GELU, biases. llama: RMSNorm, SwiGLU, no biases (also Qwen3, with qk_norm).
    # vit: gpt2's blocks without a mask, over patches of an image.
    family: str = field("gpt2", Choice(("gpt2", "llama", "vit")))
    vocab: int = field(256, Whole(2, 65536))  # of a vit: its classes
    layers: int = field(2, Whole(1, 1024))
    width: int = field(64, Whole(8, 65536))
    heads: int = field(4, Whole(1, 1024))
    kv_heads: int = field(0, Whole(0, 1024))  # 0: as many as heads
    head_dim: int = field(0, Whole(0, 256))  # 0: width / heads
    hidden: int = field(0, Whole(0, 2**20))  # of the MLP; 0: 4 width, llama: 8/3 width
    length: int = field(64, Whole(1, 2**24))  # of training; tokens, or patches of a vit
    # sdpa, flex, a name of attention.SCORES, or any score of lssar.attention
    attention: str = field("lssar", Text("sdpa, flex, or a score of lssar.attention"))
    p: Any = field(None, Powers())  # of the re-weighting; null: the score's own
    offset: float = field(1.0, Number(0, 1e6))
    qk_norm: bool = field(False, Flag())  # Qwen3's RMSNorm of every head's q and k
    projection: str = field("linear", Choice(("linear", "tensor_product")))  # to q, k, v: projection.py
    q_rank: int = field(6, Whole(1, 1024))  # of tensor_product
    k_rank: int = field(2, Whole(1, 1024))
    v_rank: int = field(2, Whole(1, 1024))
    rope_base: float = field(10000.0, Number(1, 1e12))
    tied: bool = field(True, Flag())  # the embedding is the output layer, too
    points: bool = field(False, Flag())  # sequences are of points of a plane, not of tokens
    image: int = field(32, Whole(1, 4096))  # side of a vit's images, in pixels
    patch: int = field(4, Whole(1, 4096))

    @property
    def num_kv_heads(self) -> int:
        return self.kv_heads or self.heads

    @property
    def dim(self) -> int:
        return self.head_dim or self.width // self.heads

    @property
    def hidden_width(self) -> int:
        if self.hidden:
            return self.hidden
        return -(-8 * self.width // 3 // 8) * 8 if self.family == "llama" else 4 * self.width

    @property
    def has_bias(self) -> bool:
        return self.family != "llama"

    @property
    def ranks(self) -> tuple[int, int, int]:
        return self.q_rank, self.k_rank, self.v_rank

    @property
    def projected(self) -> int:
        """Numbers that the projection's matrix makes of a token: q, k and v, or their factors."""
        heads = (self.heads, self.num_kv_heads, self.num_kv_heads)
        if self.projection == "linear":
            return sum(heads) * self.dim
        return sum(rank * (h + self.dim) for rank, h in zip(self.ranks, heads))

    def power(self, layer: int) -> Optional[int]:
        return self.p[layer] if isinstance(self.p, list) else self.p

    def check(self) -> None:
        """The rules that several fields make together."""
        if self.head_dim == 0 and self.width % self.heads != 0:
            raise ConfigError(f"model.heads: {self.heads}; must divide model.width, {self.width}")
        if self.heads % self.num_kv_heads != 0:
            raise ConfigError(f"model.kv_heads: {self.kv_heads}; must divide model.heads, {self.heads}")
        if self.dim % 8 != 0 or not 8 <= self.dim <= 256:
            raise ConfigError(f"model.head_dim: {self.dim}; must be a multiple of 8 from 8 to 256")
        if self.projection == "tensor_product" and self.qk_norm:
            raise ConfigError(
                "model.qk_norm: true; must be false with model.projection tensor_product, "
                "which turns factors of q and k by their positions before q and k are there"
            )
        if isinstance(self.p, list) and len(self.p) != self.layers:
            raise ConfigError(f"model.p: {self.p}; must have {self.layers} entries, as model.layers")
        if self.family == "vit" and self.points:
            raise ConfigError("model.points: true; must be false with model.family vit")
        if self.family == "vit" and self.image % self.patch != 0:
            raise ConfigError(f"model.patch: {self.patch}; must divide model.image, {self.image}")
        if self.family == "vit" and self.length != (self.image // self.patch) ** 2:
            patches = (self.image // self.patch) ** 2
            raise ConfigError(f"model.length: {self.length}; must be {patches}, the patches of an image")


@dataclasses.dataclass(frozen=True)
class DataConfig:
    source: str = field("made", Choice(DATA_SOURCES))
    train: str = field("", Text("a file (text), or a pattern of file names (shards)"))
    validation: str = field("", Text("as data.train"))
    seed: int = field(1, Whole(0))  # of made data and of the order of windows
    # The length of the first training sequences, which doubles until it is model.length. 0 means that all
    # have model.length. The sources made, passkey and recall read it.
    shortest: int = field(0, Whole(0, 2**24))
    pairs: int = field(8, Whole(1, 4096))  # of recall: pairs to remember
    queries: int = field(4, Whole(1, 4096))  # of recall: keys asked for


@dataclasses.dataclass(frozen=True)
class TrainConfig:
    steps: int = field(1000, Whole(1))
    batch: int = field(16, Whole(1))  # sequences per step, of all processes together
    micro_batch: int = field(0, Whole(0))  # sequences at once per process; 0: all of its part
    learning_rate: float = field(1e-3, Number(0, 100))
    least_rate: float = field(0.1, Number(0, 1))  # at the end, over learning_rate
    warmup: int = field(50, Whole(0))  # steps
    weight_decay: float = field(0.1, Number(0, 100))  # applies to matrices only
    beta1: float = field(0.9, Number(0, 1))
    beta2: float = field(0.95, Number(0, 1))
    clip: float = field(1.0, Number(0, 1e9))  # norm of the gradient; 0: no clipping
    dtype: str = field("float32", Choice(("float32", "bfloat16")))  # of activations (autocast)
    device: str = field("auto", Choice(("auto", "cpu", "cuda")))
    parallel: str = field("ddp", Choice(("ddp", "fsdp")))  # where there are several processes
    seed: int = field(1, Whole(0))  # of the weights
    out: str = field("", Text("the folder of log and checkpoints; empty: none are written"))
    checkpoint_every: int = field(0, Whole(0))  # steps; 0: at the end only
    keep: int = field(2, Whole(1))  # checkpoints that are kept
    log_every: int = field(10, Whole(1))
    evaluate_every: int = field(0, Whole(0))  # steps; 0: at the end only
    evaluate_sequences: int = field(64, Whole(1))

    def shares(self, processes: int) -> tuple[int, int]:
        """Sequences of a step for each process, and how many of them at once."""
        rows, left = divmod(self.batch, processes)
        if left:
            raise ConfigError(f"train.batch: {self.batch}; must be a multiple of the {processes} processes")
        micro = self.micro_batch or rows
        if rows % micro != 0:
            raise ConfigError(f"train.micro_batch: {micro}; must divide {rows}, a process's sequences")
        return rows, micro


@dataclasses.dataclass(frozen=True)
class Config:
    model: ModelConfig
    data: DataConfig
    train: TrainConfig

    def check(self) -> None:
        self.model.check()
        source, family = self.data.source, self.model.family
        if (source == "shapes") != (family == "vit"):
            raise ConfigError(
                f"data.source: {source!r}; model.family vit needs shapes, and other families another"
            )
        if (source == "orbits") != self.model.points:
            raise ConfigError(
                f"data.source: {source!r}; model.points true needs orbits, and false another source"
            )
        for name in ("train", "validation"):
            if source in ("text", "shards") and not getattr(self.data, name):
                raise ConfigError(f"data.{name}: ''; data.source {source} needs a file's name")
        self._check_shortest()
        if self.train.warmup > self.train.steps:
            raise ConfigError(
                f"train.warmup: {self.train.warmup}; must be at most train.steps, {self.train.steps}"
            )

    def _check_shortest(self) -> None:
        shortest, longest = self.data.shortest, self.model.length
        if not shortest:
            return
        if self.data.source not in _GROWING:
            sources = ", ".join(_GROWING)
            raise ConfigError(f"data.shortest: {shortest}; must be 0 where data.source is not {sources}")
        times, rest = divmod(longest, shortest)
        if rest or times & (times - 1):
            raise ConfigError(
                f"data.shortest: {shortest}; must be model.length, {longest}, over a power of 2"
            )

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def from_json(values: dict[str, Any]) -> Config:
    kinds = {"model": ModelConfig, "data": DataConfig, "train": TrainConfig}
    for name in values:
        if name not in kinds:
            raise ConfigError(f"{name}: there is no such section; must be one of {', '.join(kinds)}")
    made = Config(**{name: section_of(kind, name, values.get(name, {})) for name, kind in kinds.items()})
    made.check()
    return made


def load(path: Union[str, pathlib.Path], overrides: list[str]) -> Config:
    """The config of a file, with overrides section.field=value; a value is JSON, else a text."""
    try:
        values = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ConfigError(f"{path}: not JSON: {error}") from None
    for override in overrides:
        name, is_assignment, text = override.partition("=")
        section, is_field, key = name.partition(".")
        if not is_assignment or not is_field:
            raise ConfigError(f"{override!r}; an override must be section.field=value")
        try:
            value = json.loads(text)
        except json.JSONDecodeError:
            value = text
        values.setdefault(section, {})[key] = value
    return from_json(values)
