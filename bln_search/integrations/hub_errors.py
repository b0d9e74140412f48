"""Errors of the client of the Hugging Face Hub as one error that says what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from json import JSONDecodeError

from httpx2 import HTTPError
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    LocalTokenNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
    XetDownloadError,
)

from bln_search.core.errors import DataError, HubError

_LOG_IN = "log in with `hf auth login`, or give token="
_UNAUTHORIZED, _FORBIDDEN, _TOO_MANY, _SERVER = 401, 403, 429, 500

_TEXTS: dict[type[Exception], str] = {
    GatedRepoError: f"it is gated: ask for access on its page, then {_LOG_IN}",
    RepositoryNotFoundError: (
        f"there is no such repository, or you may not see it: check its name; if it is private, {_LOG_IN}"
    ),
    RevisionNotFoundError: "it has no revision {revision}: give one of its branches, tags or commits",
    LocalTokenNotFoundError: f"there is no token on this machine: {_LOG_IN}",
    LocalEntryNotFoundError: (
        "its files are not in the cache, and the Hub was not reached: check the connection, HF_ENDPOINT and "
        "HF_HUB_OFFLINE, and leave out local_files_only"
    ),
    OfflineModeIsEnabled: "HF_HUB_OFFLINE forbids requests: unset it",
}


@contextmanager
def report_hub_errors(repo_id: str, revision: str | None) -> Iterator[None]:
    """Raise HubError, or DataError for a missing file, in place of what the client raises in the block."""
    try:
        yield
    except (HTTPError, EntryNotFoundError, LocalTokenNotFoundError, OfflineModeIsEnabled, XetDownloadError) as error:
        if isinstance(error, EntryNotFoundError) and not isinstance(error, LocalEntryNotFoundError):
            raise DataError(
                f"{repo_id} on the Hub is not an export of bln-search: {' '.join(str(error).split())}"
            ) from None
        raise HubError(f"{repo_id}{_at(revision)}: {_describe(error, revision)}") from error
    except JSONDecodeError as error:
        raise HubError(
            f"{repo_id}{_at(revision)}: the answer is not that of a Hub ({_first_line(error)}): check HF_ENDPOINT and "
            "proxies, then try again"
        ) from error
    except HFValidationError as error:
        raise HubError(f"{repo_id!r} is no name of a repository: {_first_line(error)}; write user/name") from None


@contextmanager
def report_upload_errors(repo_id: str, revision: str | None) -> Iterator[None]:
    """As `report_hub_errors`, also for what the client raises when it uploads files."""
    try:
        with report_hub_errors(repo_id, revision):
            yield
    except RuntimeError as error:
        reason = _first_line(error.__cause__ or error)
        raise HubError(
            f"{repo_id}{_at(revision)}: a file cannot be uploaded: {reason}; nothing was committed, push again"
        ) from error
    except ValueError as error:
        reason = " ".join(str(error).split())
        raise HubError(
            f"{repo_id}{_at(revision)}: the Hub refuses the export: {reason}; nothing was committed"
        ) from error


def _describe(error: Exception, revision: str | None) -> str:
    """What is wrong and what to do."""
    for kind, text in _TEXTS.items():
        if isinstance(error, kind):
            return text.format(revision=revision)
    if isinstance(error, HfHubHTTPError):
        return _describe_answer(error)
    return f"the Hub cannot be reached ({_first_line(error)}): check the connection and HF_ENDPOINT, then try again"


def _describe_answer(error: HfHubHTTPError) -> str:
    status = error.response.status_code
    said = error.server_message or _first_line(error)
    answer = f"the Hub answered {status} ({' '.join(said.split())})"
    if status == _UNAUTHORIZED:
        return f"{answer}: {_LOG_IN}"
    if status == _FORBIDDEN:
        return f"{answer}: use a token with the right to write there, or create_pr=True"
    if status == _TOO_MANY or status >= _SERVER:
        return f"{answer}: try again later"
    return answer


def _first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def _at(revision: str | None) -> str:
    return "" if revision is None else f" at {revision}"
