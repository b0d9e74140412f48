"""The inference configurations, explained."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from bln_search.core.configuration import Method, all_configurations
from service.schemas import ConfigurationOut
from service.security import Reader
from service.views import configuration_view

router = APIRouter(tags=["configurations"])


@router.get("/configurations", operation_id="list_configurations")
def configurations(
    _reader: Reader, method: Annotated[Method, Query(description="bln has all sixteen")] = Method.BLN
) -> list[ConfigurationOut]:
    """Every configuration of a method: where each of its statistics comes from at inference."""
    return [configuration_view(one, method) for one in all_configurations(method)]
