"""Large bodies are parsed one at a time, bounded, and with the same problems as small ones."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from bln_search.core.enums import Scope
from service.http.heavy_work import HEAVY_WORK, MAX_WAITING, HeavyWorkQueue
from service.http.problems import ProblemException
from service.request_body import LARGE_BODY
from tests.support.service_world import STUDIES, body

JSON = {"Content-Type": "application/json"}
PADDING = b" " * LARGE_BODY


def validate(world, content, media_type="application/json", account="ada"):
    client = world.client(account, Scope.READ)
    return client.post(f"{STUDIES}/validate", content=content, headers={"Content-Type": media_type})


@pytest.mark.parametrize(
    ("content", "status", "named"),
    [
        (json.dumps(body()).encode(), 200, ""),
        (json.dumps(body(seeds=["a"])).encode(), 422, "/seeds/0"),
        (json.dumps(body(zz=1)).encode(), 422, "/zz"),
        (b'{"name": "a", "name": "b"}', 422, "`name` is repeated"),
        (b'{"seeds": [' + b"9" * 5000 + b"]}", 400, "4300 digits"),
        (b'{"seeds": [1e999]}', 422, "/seeds/0"),
        (b'{"a": ', 400, "character"),
        (b"\xff\xfe{", 400, "not JSON"),
        (b'{"a": ' + b"[" * 5000 + b"]" * 5000 + b"}", 400, "deeply"),
    ],
)
def test_large_and_small_bodies_have_the_same_answer(world, content, status, named):
    small, large = validate(world, content), validate(world, content + PADDING)
    assert (small.status_code, large.status_code) == (status, status)
    assert named in small.text
    assert {**small.json(), "request_id": ""} == {**large.json(), "request_id": ""} or status == 400


N = 990_000
HOSTILE = {
    "base 60": ("seeds: [59" + ":59" * (N // 3) + "]", "seeds"),
    "base 60 float": ("training: {learning_rate: 59" + ":59" * 200 + ".5}", "learning_rate"),
    "digits": ("seeds: [" + "9" * N + "]", "characters"),
    "nesting": ("a: " + "[" * N, "nested"),
    "keys": ("".join(f"k{i}: 1\n" for i in range(60_000)), "keys and values"),
    "long key": ("k" * 1000 + ": 1\n? " + "x" * (N - 5000) + "\n: 1", "unknown key"),
    "text": ("title: " + "x" * N, "300 characters"),
    "list": ("seeds: [" + "1," * (N // 2) + "]", "keys and values"),
    "aliases": ("a: &a [1]\nb: [" + "*a," * (N // 3) + "]", "aliases"),
    "unicode": ("title: " + "😀" * (N // 4), "300 characters"),
    "repeated keys": ("k: 1\n" * 10_000, "repeated"),
    "documents": ("---\n" * (N // 4), "document"),
    "tag": ("a: !" + "x" * N + " b", "tag"),
    "condition": ("evaluation: {conditions: [fog-" + "3" * N + "]}", "corruption"),
}
START = "name: b\ndata: {name: digits}\nmodel: {name: mlp, widths: [8]}\narms: [{method: bln}]\n"


@pytest.mark.parametrize("kind", HOSTILE)
def test_answer_to_a_hostile_body_is_short(world, kind):
    text, named = HOSTILE[kind]
    response = validate(world, START + text, "application/yaml")
    assert response.status_code == 422
    assert named in response.text
    assert len(response.content) < 20_000


def test_large_body_is_not_parsed_without_a_token(world):
    assert validate(world, b'{"a": ' + PADDING, account=None).status_code == 401


def test_large_bodies_beyond_the_waiting_ones_are_refused_and_small_ones_answered(world):
    content = json.dumps(body()).encode()
    with HEAVY_WORK._turn:
        waiting = [threading.Thread(target=validate, args=(world, content + PADDING)) for _ in range(1 + MAX_WAITING)]
        for thread in waiting:
            thread.start()
        while HEAVY_WORK._places._value:
            threading.Event().wait(0.01)
        refused = validate(world, content + PADDING)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert validate(world, content).status_code == 200
        assert world.client().get(STUDIES).status_code == 200
    for thread in waiting:
        thread.join(10)
    assert validate(world, content + PADDING).status_code == 200


def test_failed_work_gives_its_place_back():
    queue = HeavyWorkQueue()
    for _ in range(2 * MAX_WAITING):
        with pytest.raises(ZeroDivisionError), queue.wait_for_turn():
            raise ZeroDivisionError
    with queue.wait_for_turn():
        places = [queue._places.acquire(blocking=False) for _ in range(MAX_WAITING)]
        assert all(places)
        with queue.wait_for_turn():  # the thread that works goes on
            assert queue._places._value == 0
        with ThreadPoolExecutor(1) as pool, pytest.raises(ProblemException):
            pool.submit(enter, queue).result()
    enter(queue)


def enter(queue):
    with queue.wait_for_turn():
        pass


def test_large_drafts_of_the_editor_wait_with_large_bodies(world):
    """A small one is checked at once."""
    small = START + "seeds: [0]\n"
    large = small + f"title: {'x' * LARGE_BODY}\n"

    def check(text):
        return world.client("ada", Scope.READ).post("/studies/new/check", json={"text": text})

    places = [HEAVY_WORK._places.acquire(blocking=False) for _ in range(1 + MAX_WAITING)]
    try:
        assert all(places)
        assert [check(large).status_code, check(small).status_code] == [503, 200]
    finally:
        for _ in places:
            HEAVY_WORK._places.release()
    assert check(large).status_code == 200


@pytest.mark.parametrize("around", ["\n", " ", "\t", "\r\n", "\u00a0", "\ufeff"])
def test_white_space_around_the_token_of_a_sign_in_is_ignored(world, around):
    token = f"{around}{world.secrets['ada', Scope.READ]}{around}"
    assert world.client(None).post("/api/v1/session", json={"token": token}).json()["account"] == "ada"
