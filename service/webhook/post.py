"""Posts one signed message (Standard Webhooks, https://www.standardwebhooks.com) and reads the status of the answer."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import time
from dataclasses import dataclass, field

import httpx

from bln_search.core.credentials import redact_secrets
from bln_search.core.errors import SpecError
from bln_search.core.reasons import describe_exception
from bln_search.core.version import VERSION

_TIMEOUT = 10.0
"""Seconds from the connection to the headers of the answer, however slowly they come."""


@dataclass(frozen=True)
class Webhook:
    """Where messages go, and what signs them.

    Attributes:
        url: URL of the receiver, which may contain a secret.
        key: Key of the signatures.
        public_url: URL of this service for browsers; None if it is unknown.
    """

    url: str = field(repr=False)
    key: bytes = field(repr=False)
    public_url: str | None = None


@dataclass(frozen=True)
class Answer:
    """The result of an attempt.

    Attributes:
        text: For people, without secrets.
        is_accepted: The receiver accepted the message.
        is_final: The receiver wants no message any more.
    """

    text: str
    is_accepted: bool = False
    is_final: bool = False


def check_url(url: str) -> None:
    """Raise SpecError, which does not show the URL, if no message can be posted to it."""
    try:
        httpx.URL(url)
    except httpx.InvalidURL:
        name = "BLN_SEARCH_WEBHOOK_URL"
        raise SpecError(name, ["this is no valid URL: write it as browsers show it"]) from None


def post_message(webhook: Webhook, message_id: str, body: str) -> Answer:
    """Post a message once. Redirects are not followed; of the answer only the status is read.

    Args:
        webhook: The receiver.
        message_id: Id of the message, the same at every attempt.
        body: The message as JSON.
    """
    content = body.encode()
    headers = {
        "Content-Type": "application/json",
        "User-Agent": f"bln-search/{VERSION}",
        **make_signature_headers(webhook.key, message_id, int(time.time()), content),
    }
    try:
        status = asyncio.run(_post_and_read_status(webhook.url, content, headers))
    except TimeoutError:
        return Answer(f"no answer within {_TIMEOUT:.0f} seconds")
    except httpx.HTTPError as error:
        return Answer(redact_secrets(describe_exception(error)))
    is_redirect = 300 <= status < 400
    return Answer(
        f"HTTP {status}{', and redirects are not followed' if is_redirect else ''}",
        is_accepted=200 <= status < 300,
        is_final=status == httpx.codes.GONE,
    )


def make_signature_headers(key: bytes, message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """Return the headers that identify and sign a message.

    Args:
        key: Key of the signature.
        message_id: Id of the message.
        timestamp: Time of the attempt, seconds since 1970.
        body: The message.
    """
    signed = f"{message_id}.{timestamp}.".encode() + body
    signature = base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
    return {"webhook-id": message_id, "webhook-timestamp": str(timestamp), "webhook-signature": f"v1,{signature}"}


async def _post_and_read_status(url: str, content: bytes, headers: dict[str, str]) -> int:
    async with (
        asyncio.timeout(_TIMEOUT),
        httpx.AsyncClient(follow_redirects=False, timeout=None) as client,  # noqa: S113 - of the whole attempt
        client.stream("POST", url, content=content, headers=headers) as response,
    ):
        return response.status_code
