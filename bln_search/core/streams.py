"""Orders, mixtures and resets of a stream of mini-batches, and data by which an option was selected."""

from __future__ import annotations

from enum import StrEnum


class StreamOrder(StrEnum):
    """The order of the examples of a condition in a stream.

    Members:
        SHUFFLED: Random.
        BY_LABEL: All examples of a class together; classes in a random order.
        DIRICHLET: In slots, as many as classes; Dirichlet proportions of each class over the slots.
        BLOCKS: Runs of `run_length` examples of one class, in a random order.
    """

    SHUFFLED = "shuffled"
    BY_LABEL = "by_label"
    DIRICHLET = "dirichlet"
    BLOCKS = "blocks"


class StreamMixture(StrEnum):
    """How several conditions share a stream.

    Members:
        CONDITIONS: One condition after the other, in the order given.
        RECURRING: The conditions in turns, each `rounds` times with a part of its examples.
        MIXED: The examples of all conditions in one order.
    """

    CONDITIONS = "conditions"
    RECURRING = "recurring"
    MIXED = "mixed"


class StreamReset(StrEnum):
    """When an arm returns to the state before the stream.

    Members:
        CONDITION: Where another condition begins.
        NEVER: At no time.
    """

    CONDITION = "condition"
    NEVER = "never"


class SelectionData(StrEnum):
    """The labelled data by which the options of an arm were selected.

    Members:
        FIXED: None: the options were given.
        SOURCE: Data of the source, without shift.
        HELD_OUT: Conditions that the stream does not contain.
        ORACLE: The stream itself, with its labels: no one has these at inference.
    """

    FIXED = "fixed"
    SOURCE = "source"
    HELD_OUT = "held_out"
    ORACLE = "oracle"

    @property
    def label(self) -> str:
        """In tables: `selected on held-out conditions`."""
        return {
            SelectionData.FIXED: "given",
            SelectionData.SOURCE: "selected on source data",
            SelectionData.HELD_OUT: "selected on held-out conditions",
            SelectionData.ORACLE: "selected on test labels",
        }[self]
