"""Problem documents as bytes on the wire, for requests that the application does not receive."""

from __future__ import annotations

from http import HTTPStatus

from service.http.problems import MEDIA_TYPE, ProblemException
from service.http.request_ids import choose_request_id


def encode_problem_as_http_response(problem: ProblemException) -> bytes:
    """Return the problem as HTTP/1.1; the application does not receive the request."""
    phrase = HTTPStatus(problem.status).phrase
    request_id = choose_request_id(None)
    body = problem.make_document("", request_id).model_dump_json().encode()
    headers = {
        **problem.headers,
        "Content-Type": MEDIA_TYPE,
        "Content-Length": str(len(body)),
        "X-Request-Id": request_id,
        "Connection": "close",
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {problem.status} {phrase}\r\n{lines}\r\n".encode() + body
