"""Route of the messages about a study to the webhook."""

from __future__ import annotations

from fastapi import APIRouter

from service.api_route import ApiRoute
from service.context import ContextDep
from service.schemas.base import ListPage
from service.schemas.deliveries import DeliveryOut
from service.security import ReadableStudy, Reader

router = APIRouter(prefix="/studies/{study_id:number}/deliveries", tags=["studies"], route_class=ApiRoute)


@router.get("", operation_id="list_deliveries")
def list_deliveries(study: ReadableStudy, context: ContextDep, _reader: Reader) -> ListPage[DeliveryOut]:
    """The messages to the webhook about ends of the study, the last end first; empty without a webhook."""
    deliveries = context.ledger.deliveries.list_deliveries(study.id)
    return ListPage(items=[DeliveryOut.model_validate(delivery) for delivery in deliveries], next_cursor=None)
