"""Browser sessions that a full disk cannot store: they last until the process ends."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

from bln_search.storage.tokens import Bearer, TokenKind, TokenRepository, generate_secret, hash_secret

_MAX_SESSIONS = 1_000


class SessionsInMemory:
    """Sessions by digest of their secret. Each ends with the access token that it was started with.

    Args:
        tokens: The access tokens.
    """

    def __init__(self, tokens: TokenRepository) -> None:
        self._tokens = tokens
        self._lock = threading.Lock()
        self._sessions: dict[str, tuple[Bearer, datetime]] = {}

    def create(self, bearer: Bearer, duration: timedelta) -> str:
        """Create a session of the bearer of an access token; returns its secret. The oldest makes room."""
        secret = generate_secret()
        session = Bearer(bearer.token_id, bearer.account, bearer.scope, TokenKind.SESSION)
        with self._lock:
            while len(self._sessions) >= _MAX_SESSIONS:
                del self._sessions[next(iter(self._sessions))]
            self._sessions[hash_secret(secret)] = (session, datetime.now(UTC) + duration)
        return secret

    def find_bearer(self, secret: str) -> Bearer | None:
        """The bearer of a secret; None where there is no such session, or its token is revoked or expired."""
        if not self._sessions:
            return None
        bearer, expires_at = self._sessions.get(hash_secret(secret), (None, None))
        if bearer is None or expires_at is None:
            return None
        if expires_at > datetime.now(UTC) and bearer.token_id in self._tokens.filter_valid_token_ids([bearer.token_id]):
            return bearer
        self.end(secret)
        return None

    def end(self, secret: str) -> bool:
        """End a session. Returns whether there was one."""
        with self._lock:
            return self._sessions.pop(hash_secret(secret), None) is not None
