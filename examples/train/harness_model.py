"""A checkpoint as a model of lm-evaluation-harness: log probabilities of texts, and texts that it makes."""

from typing import Any, Optional, Sequence

import torch
from lm_eval import utils
from lm_eval.api.instance import Instance
from lm_eval.api.model import TemplateLM

from . import config as configs, model as models
from .fields import ConfigError

_TOKENS_AT_ONCE = 16384
_GENERATED = 256  # tokens, where a task does not say how many


class Bytes:
    """Text as its UTF-8 bytes. It has no token that begins a text: a new line stands for it."""

    start, end = ord("\n"), None

    def encode(self, text: str) -> list[int]:
        return list(text.encode("utf-8"))

    def decode(self, tokens: list[int]) -> str:
        return bytes(x for x in tokens if x < 256).decode("utf-8", errors="replace")


class Tokens:
    """Text as tokens of a tokenizer.json, which must have <|endoftext|>, as GPT-2's does."""

    def __init__(self, path: str, vocab: int) -> None:
        import tokenizers

        try:
            self.tokenizer = tokenizers.Tokenizer.from_file(path)
        except Exception as error:  # tokenizers raises plain Exception
            raise ConfigError(f"--tokenizer: {path!r}; must be a tokenizer.json: {error}") from None
        size, start = self.tokenizer.get_vocab_size(), self.tokenizer.token_to_id("<|endoftext|>")
        if size > vocab:
            raise ConfigError(
                f"--tokenizer: {path!r}; its {size} tokens must be at most {vocab}, model.vocab"
            )
        if start is None:
            raise ConfigError(f"--tokenizer: {path!r}; must have the token <|endoftext|>")
        self.start, self.end = int(start), int(start)

    def encode(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False).ids)

    def decode(self, tokens: list[int]) -> str:
        return str(self.tokenizer.decode(tokens))


def _tokens_of(config: configs.Config, tokenizer: Optional[str]) -> Any:
    if config.data.source not in ("text", "shards"):
        raise ConfigError(f"data.source: {config.data.source!r}; must be text or shards to read texts")
    source = config.data.source
    if (source == "shards") != (tokenizer is not None):
        needed = "a tokenizer.json" if tokenizer is None else "absent"
        raise ConfigError(f"--tokenizer: {tokenizer!r}; must be {needed} with data.source {source}")
    return Bytes() if tokenizer is None else Tokens(tokenizer, config.model.vocab)


class Checkpoint(TemplateLM):
    """A model of examples.train as the harness asks for it. Its window is `times` that of training."""

    def __init__(
        self,
        config: configs.Config,
        model: models.Transformer,
        tokenizer: Optional[str] = None,
        times: int = 1,
        rope: str = "none",
        device: str = "cpu",
    ) -> None:
        super().__init__()
        self._device = torch.device(device)
        self.tokens = _tokens_of(config, tokenizer)
        self.model = model.to(self._device).eval()
        self.model.rope.stretch(rope, times)
        self.max_length = times * config.model.length
        self.cut = 0  # requests whose beginning did not fit the window

    @property
    def eot_token_id(self) -> int:
        return self.tokens.start

    def tok_encode(self, string: str, add_special_tokens: Optional[bool] = None, **_: Any) -> list[int]:
        return self.tokens.encode(string)

    @torch.no_grad()
    def _logits(self, rows: Sequence[list[int]]) -> torch.Tensor:
        """[rows, longest, vocab]. Short rows are filled up at their ends, which no earlier token sees."""
        longest = max(map(len, rows))
        filled = [row + [0] * (longest - len(row)) for row in rows]
        return self.model(torch.tensor(filled, device=self._device)).float().cpu()

    def _fit(self, tokens: list[int]) -> list[int]:
        self.cut += len(tokens) > self.max_length
        return tokens[-self.max_length :]

    def _loglikelihood_tokens(
        self, requests: list[tuple[Any, list[int], list[int]]], **_: Any
    ) -> list[tuple[float, bool]]:
        """For each (key, context, continuation): its log probability, and whether it is the likeliest."""
        longest = max((len(wanted) for _, _, wanted in requests), default=0)
        if longest > self.max_length:
            raise ConfigError(
                f"a continuation has {longest} tokens; must have at most {self.max_length}, the window: "
                "a larger --times widens it"
            )
        inputs = [self._fit((context + wanted)[:-1]) for _, context, wanted in requests]
        found: dict[int, tuple[float, bool]] = {}
        for part in _batches(inputs):
            for i, logits in zip(part, self._logits([inputs[i] for i in part])):
                key, _, wanted = requests[i]
                end = len(inputs[i])
                found[i] = _score(logits[end - len(wanted) : end], wanted)
                if key is not None:
                    self.cache_hook.add_partial("loglikelihood", key, found[i])
        return [found[i] for i in range(len(requests))]

    def loglikelihood_rolling(self, requests: list[Instance], disable_tqdm: bool = False) -> list[float]:
        """The log probability of whole texts, in windows that follow one another."""
        windows: list[tuple[Any, list[int], list[int]]] = []
        counts = []
        for (text,) in (request.args for request in requests):
            pairs = utils.get_rolling_token_windows(
                self.tok_encode(text), self.prefix_token_id, self.max_length, context_len=1
            )
            made = [(None, *utils.make_disjoint_window(pair)) for pair in pairs]
            windows += made
            counts.append(len(made))
        scores = iter(self._loglikelihood_tokens(windows))
        sums = [sum(next(scores)[0] for _ in range(count)) for count in counts]
        for request, value in zip(requests, sums):
            self.cache_hook.add_partial("loglikelihood_rolling", request.args, value)
        return sums

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """The likeliest token again and again. Every token reads the whole window anew."""
        made = [_Generation(self, *request.args) for request in requests]
        going = [x for x in made if not x.is_done]
        while going:
            for part in _batches([x.window for x in going]):
                logits = self._logits([going[i].window for i in part])
                for i, of_row in zip(part, logits):
                    going[i].add(int(of_row[len(going[i].window) - 1].argmax()))
            going = [x for x in going if not x.is_done]
        for request, one in zip(requests, made):
            self.cache_hook.add_partial("generate_until", request.args, one.text)
        return [one.text for one in made]


class _Generation:
    """A text that grows until it has one of the stops, or as many tokens as it may have."""

    def __init__(self, lm: Checkpoint, context: str, options: dict[str, Any]) -> None:
        if options.get("do_sample"):
            raise ConfigError("do_sample: true; must be false, because the likeliest token is taken")
        until = options.get("until") or []
        self.stops = [until] if isinstance(until, str) else list(until)
        self.most = int(options.get("max_gen_toks", _GENERATED))
        self.lm, self.made = lm, list[int]()
        self.window = lm._fit(lm.tok_encode(context) or [lm.prefix_token_id])
        self.text, self.is_done = "", self.most <= 0

    def add(self, token: int) -> None:
        self.made.append(token)
        self.window = (self.window + [token])[-self.lm.max_length :]
        whole = self.lm.tokens.decode(self.made)
        ends = [whole.find(stop) for stop in self.stops if stop and stop in whole]
        self.text = whole[: min(ends)] if ends else whole
        self.is_done = bool(ends) or len(self.made) >= self.most or token == self.lm.tokens.end


def _score(logits: torch.Tensor, wanted: list[int]) -> tuple[float, bool]:
    targets = torch.tensor(wanted, dtype=torch.int64)
    chosen = logits.log_softmax(dim=-1).gather(1, targets[:, None]).double().sum().item()
    return chosen, bool((logits.argmax(dim=-1) == targets).all())


def _batches(rows: list[list[int]]) -> list[list[int]]:
    """Row numbers in batches of like lengths, each of at most _TOKENS_AT_ONCE tokens with the filling."""
    parts: list[list[int]] = []
    for i in sorted(range(len(rows)), key=lambda i: len(rows[i])):
        if not parts or (len(parts[-1]) + 1) * len(rows[i]) > _TOKENS_AT_ONCE:
            parts.append([])
        parts[-1].append(i)
    return parts
