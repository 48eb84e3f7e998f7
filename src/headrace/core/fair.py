"""In which order a claim visits queues."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping


def weighted_order(weights: Mapping[str, float], random: Callable[[], float]) -> tuple[str, ...]:
    """The queues in a random order in which each comes first in proportion to its weight.

    Every queue is in the answer, so no capacity is wasted when the preferred ones are empty. `random` gives
    numbers in [0, 1). Source: Efraimidis and Spirakis, weighted random sampling, 2006: sort by -ln(u) / w.
    """
    return tuple(sorted(weights, key=lambda queue: -math.log(1.0 - random()) / weights[queue]))
