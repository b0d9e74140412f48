"""Route of the inference configurations."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from bln_search.core.configuration import all_configurations
from bln_search.core.method import Method
from service.api_route import ApiRoute
from service.schemas.results import ConfigurationOut
from service.security import Reader
from service.serializers import serialize_configuration

router = APIRouter(tags=["configurations"], route_class=ApiRoute)


@router.get("/configurations", operation_id="list_configurations")
def list_configurations(
    _reader: Reader, method: Annotated[Method, Query(description="normalization method")] = Method.BLN
) -> list[ConfigurationOut]:
    """Every configuration of a method: where each of its statistics comes from at inference."""
    return [serialize_configuration(configuration, method) for configuration in all_configurations(method)]
