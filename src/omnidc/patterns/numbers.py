"""Numbers of the grammar: a fixed value, or a range from which one is drawn per frame."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from omnidc.errors import ConfigError


@dataclass(frozen=True)
class Span:
    """`low` to `high`, drawn uniformly or (`log`) uniformly in the logarithm; `percent` marks parts of a whole.

    A span of one value draws nothing from the generator.
    """

    low: float
    high: float
    log: bool = False
    percent: bool = False  # values are fractions (0.007), written as percentages (0.7%)

    def __post_init__(self) -> None:
        if not 0 <= self.low <= self.high < np.inf:
            raise ConfigError(f"{self.low:g}~{self.high:g} is not a range: write two numbers >= 0, the smaller first.")
        if self.log and self.low <= 0:
            raise ConfigError(f"The range {self.low:g}~~{self.high:g} is logarithmic and must start above 0.")

    def draw(self, rng: np.random.Generator) -> float:
        if self.low == self.high:
            return self.low
        if self.log:
            return float(np.exp(rng.uniform(np.log(self.low), np.log(self.high))))
        return float(rng.uniform(self.low, self.high))

    def integer(self, rng: np.random.Generator, released: bool = False) -> int:
        """Draw a whole number, both ends included; the release leaves out the upper one."""
        low, high = round(self.low), round(self.high)
        if low == high:
            return low
        if self.log:
            # Half a unit on either side gives the two ends their share.
            drawn = round(float(np.exp(rng.uniform(np.log(max(low - 0.5, 0.5)), np.log(high + 0.5)))))
            return min(max(drawn, low), high)
        return int(rng.integers(low, high if released else high + 1))


Number = float | tuple[float, float] | Span  # fixed, or drawn per frame


def span(value: Number) -> Span:
    """Convert a number or a pair of numbers to a `Span`."""
    if isinstance(value, Span):
        return value
    low, high = value if isinstance(value, tuple) else (value, value)
    return Span(float(low), float(high))


def fraction(value: Number, what: str) -> Span:
    """Convert to a part of a whole: 0 to 1."""
    number = span(value)
    if number.high > 1:
        raise ConfigError(
            f"{what} is a part of 1 and cannot be {number.high:g}: write 5% or 0.05 for five in a hundred."
        )
    return number


def whole(value: Number, what: str, least: int = 1, most: int = 10**6) -> Span:
    """Convert to a number of things."""
    number = span(value)
    if number.percent or number.low != round(number.low) or number.high != round(number.high):
        raise ConfigError(f"{what} must be a whole number or a range of them.")
    if number.low < least:
        raise ConfigError(f"{what} must be at least {least}.")
    if number.high > most:
        raise ConfigError(f"{what} must be at most {most:,}.")
    return number
