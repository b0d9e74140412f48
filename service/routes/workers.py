"""Route of the workers."""

from __future__ import annotations

from fastapi import APIRouter

from service.api_route import ApiRoute
from service.context import ContextDep
from service.schemas.operations import WorkerList, WorkerOut
from service.security import Reader

router = APIRouter(tags=["workers"], route_class=ApiRoute)


@router.get("/workers", operation_id="list_workers")
def list_workers(context: ContextDep, _reader: Reader) -> WorkerList:
    """The workers with a heartbeat within 30 s, by name."""
    workers = context.ledger.workers.list_live_workers()
    return WorkerList(items=[WorkerOut.model_validate(worker) for worker in workers])
