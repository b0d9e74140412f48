"""No progress of a running study, for `--quiet`."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from bln_search.execution.messages import Message
    from bln_search.specs.trial import TrialSpec


class SilentProgress:
    """Prints nothing."""

    def __enter__(self) -> Self:
        """Return the progress; nothing is prepared."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Do nothing."""

    def on_run_start(self, trials: int) -> None:
        """Do nothing."""

    def on_message(self, trial: TrialSpec, message: Message) -> None:
        """Do nothing."""
