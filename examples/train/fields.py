"""Rules of config fields: each says whether a value is allowed, and in words which values are."""

import dataclasses
from typing import Any


class ConfigError(ValueError):
    """A wrong field: the message has its name, its value and what is allowed."""


@dataclasses.dataclass(frozen=True)
class Whole:
    low: int
    high: int = 2**31 - 1

    def allows(self, value: Any) -> bool:
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        return is_whole and self.low <= value <= self.high

    def __str__(self) -> str:
        return f"a whole number from {self.low} to {self.high}"


@dataclasses.dataclass(frozen=True)
class Number:
    low: float
    high: float

    def allows(self, value: Any) -> bool:
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return is_number and self.low <= value <= self.high

    def __str__(self) -> str:
        return f"a number from {self.low:g} to {self.high:g}"


@dataclasses.dataclass(frozen=True)
class Choice:
    names: tuple[str, ...]

    def allows(self, value: Any) -> bool:
        return value in self.names

    def __str__(self) -> str:
        return "one of " + ", ".join(self.names)


@dataclasses.dataclass(frozen=True)
class Text:
    meaning: str

    def allows(self, value: Any) -> bool:
        return isinstance(value, str)

    def __str__(self) -> str:
        return f"a text: {self.meaning}"


class Flag:
    def allows(self, value: Any) -> bool:
        return isinstance(value, bool)

    def __str__(self) -> str:
        return "true or false"


class Powers:
    """null, one power, or a list with one for each layer."""

    one = Whole(0, 1024)

    def allows(self, value: Any) -> bool:
        if isinstance(value, list):
            return all(x is None or self.one.allows(x) for x in value)
        return value is None or self.one.allows(value)

    def __str__(self) -> str:
        return f"null, {self.one}, or a list of these, one for each layer"


def field(default: Any, rule: Any) -> Any:
    """A field of a config class, with its default and its rule."""
    return dataclasses.field(default=default, metadata={"rule": rule})


def check_fields(section: str, config: Any) -> None:
    """Raises ConfigError for the first field whose value its rule does not allow."""
    for item in dataclasses.fields(config):
        value, rule = getattr(config, item.name), item.metadata["rule"]
        if not rule.allows(value):
            raise ConfigError(f"{section}.{item.name}: {value!r}; must be {rule}")


def section_of(kind: type, section: str, values: Any) -> Any:
    """A config class made of a JSON object; unknown names are errors."""
    known = [item.name for item in dataclasses.fields(kind)]
    if not isinstance(values, dict):
        raise ConfigError(f"{section}: {values!r}; must be an object with fields")
    for name in values:
        if name not in known:
            raise ConfigError(
                f"{section}.{name}: {values[name]!r}; there is no such field; must be one of "
                + ", ".join(known)
            )
    made = kind(**values)
    check_fields(section, made)
    return made
