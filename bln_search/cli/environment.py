"""Where this machine trains and evaluates, from options and settings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bln_search.settings import Settings

if TYPE_CHECKING:
    from bln_search.execution.environment import Place


def make_place(
    settings: Settings, data: Path | None = None, device: str | None = None, *, elsewhere: bool = False
) -> Place:
    """Folders and device. elsewhere: trials run on other machines. Raises ModelError for a device that is not there."""
    from bln_search.execution.environment import Place, choose_device

    return Place(
        data=data or settings.data_folder,
        cache=settings.cache,
        checkpoints=settings.checkpoint_store,
        device=choose_device(device or settings.device, elsewhere=elsewhere),
        threads=settings.threads,
    )
