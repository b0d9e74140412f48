"""Share links of studies."""

from __future__ import annotations

from typing import Any

from bln_search.client.http_session import ServiceHttpSession


class ShareLinksClient:
    """Links that show one study without an account. Every method raises ServiceError as `Client` does."""

    def __init__(self, session: ServiceHttpSession) -> None:
        self._session = session

    def create(self, study_id: int, label: str = "", days: int = 30) -> dict[str, Any]:
        """Create a link and return it; only this response has its `secret`, and `url`, the address of the page.

        Args:
            study_id: The study that it shows.
            label: Text by which people recognize the link.
            days: Days until it ends.
        """
        body = {"label": label, "days": days}
        link = self._session.request_json("POST", f"/studies/{study_id}/share-links", json=body)
        return {**link, "url": f"{self._session.server}{link['path']}"}

    def list_links(self, study_id: int) -> list[dict[str, Any]]:
        """Return the links of a study, newest first, without their secrets."""
        return list(self._session.iter_items_of_all_pages(f"/studies/{study_id}/share-links", None))

    def revoke(self, study_id: int, link_id: int) -> None:
        """End a link at once."""
        self._session.request_with_retries("DELETE", f"/studies/{study_id}/share-links/{link_id}")
