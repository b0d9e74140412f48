"""A stream of mini-batches that arrive once, in order: the order of its examples, and its conditions."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field, model_validator

from bln_search.core.streams import StreamMixture, StreamOrder, StreamReset
from bln_search.specs.spec_section import SpecSection


class StreamSpec(SpecSection):
    """Streams over which networks adapt.

    Attributes:
        order: Order of the examples of a condition: `shuffled`, `by_label`, `blocks`, `dirichlet`, or a mapping as
            `{dirichlet: 0.1}`.
        concentration: Of the Dirichlet proportions; smaller values give more correlated streams.
        run_length: Number of examples of a class in a run of the order `blocks`.
        mixture: `conditions`, one after the other; `recurring`, in turns; `mixed`, all in one order.
        rounds: Turns of each condition in a recurring stream.
        batch_size: Size of the mini-batches; the last one of a condition may be smaller.
        orders: Number of random orders. Each is a replicate, and the networks of different seeds have different orders.
        passes: How often the stream is repeated; state is kept.
        reset: Arms return to the state before the stream at each `condition`, or `never`.
        seed: Of the orders.
    """

    added_later: ClassVar = frozenset[str]()

    order: StreamOrder = StreamOrder.SHUFFLED
    concentration: Annotated[float, Field(gt=0, le=1000)] = 0.1
    run_length: Annotated[int, Field(ge=1, le=1_000_000)] = 16
    mixture: StreamMixture = StreamMixture.CONDITIONS
    rounds: Annotated[int, Field(ge=2, le=1000)] = 3
    batch_size: Annotated[int, Field(ge=1, le=100_000)] = 64
    orders: Annotated[int, Field(ge=1, le=100)] = 3
    passes: Annotated[int, Field(ge=1, le=100)] = 1
    reset: StreamReset = StreamReset.NEVER
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0

    @model_validator(mode="before")
    @classmethod
    def _expand_order(cls, values: Any) -> Any:
        """Convert `order: {dirichlet: 0.1}` and `order: {blocks: 16}` to two keys."""
        order = values.get("order") if isinstance(values, dict) else None
        if not isinstance(order, dict):
            return values
        keys = {StreamOrder.DIRICHLET: "concentration", StreamOrder.BLOCKS: "run_length"}
        if len(order) != 1 or next(iter(order)) not in keys:
            raise ValueError("an order with a value is {dirichlet: 0.1} or {blocks: 16}")
        (name, value), *_ = order.items()
        if keys[name] in values:
            raise ValueError(f"the order has a value, and so has {keys[name]}: remove one")
        return {**values, "order": name, keys[name]: value}

    @model_validator(mode="after")
    def _check_reset(self) -> StreamSpec:
        if self.mixture is StreamMixture.MIXED and self.reset is StreamReset.CONDITION:
            raise ValueError("a mixed stream has no place where a condition begins: set reset: never")
        return self
