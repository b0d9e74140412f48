"""The stream that keeps the page of a study up to date."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import aclosing

import pytest

from bln_search.core.enums import Scope
from bln_search.core.records import EpochRecord
from service.pages.live import stream_live_events
from service.security import StudyAccess
from tests.support.service_world import HTML_HEADERS, finish_trial, study

LINE = re.compile(r"<li value=.*?</li>", re.DOTALL)


def read_stream(client, path):
    """Return id and data of each message."""
    text = client.get(path).text
    return [
        (int(number), json.loads(data)) for number, data in re.findall(r"^id: (\d+)\ndata: (.*)$", text, re.MULTILINE)
    ]


def test_streamed_lines_equal_those_of_the_page(world, root):
    number = world.complete(seeds=(0, 1))
    messages = read_stream(root, f"/studies/{number}/live")
    streamed = [line for _, message in messages for line in LINE.findall(message["lines"])]
    assert streamed == LINE.findall(root.get(f"/studies/{number}").text)
    assert len(streamed) == messages[-1][0] > 10
    assert any("bln seed 1, epoch 2: validation loss 0.5000" in line for line in streamed)


@pytest.mark.parametrize(
    ("record", "parts"),
    [
        (lambda attempts, token: attempts.record_epochs(token, [EpochRecord(1, 0.5, 0.6, 0.7, 0.8, 0.01)]), ["curves"]),
        (lambda attempts, token: attempts.record_divergence(token, "the loss is not finite"), ["cells"]),
    ],
)
def test_stream_names_the_parts_that_events_change(world, root, record, parts):
    number = world.queue.submit_study(study("s", seeds=(0,)), "ada").study_id
    world.ledger.studies.lease_and_start(number, lambda _: True, "host/1/0")
    token = world.ledger.attempts.claim_trial(world.ledger.trials.list_claimable_trials(number)[0].id, "host/1/0")
    last = world.ledger.study_lists.find_study_item(number).last_event
    record(world.ledger.attempts, token)
    messages = asyncio.run(read_first_message(world, number, last))
    assert messages["parts"] == parts


async def read_first_message(world, number, after):
    access = StudyAccess(number, world.context, world.ledger.tokens.find_bearer(world.secrets["ada", Scope.READ]))
    response = await stream_live_events(access, world.context, after)
    async with aclosing(response.body_iterator) as stream:
        message = await anext(text async for text in stream if text.startswith("id:"))
    await asyncio.wait(asyncio.all_tasks() - {asyncio.current_task()})  # the feed ends, with its last read
    return json.loads(message.split("data: ", 1)[1])


def test_stream_begins_after_the_last_event_of_the_browser(world, root):
    number = world.complete(seeds=(0,))
    last = world.ledger.study_lists.find_study_item(number).last_event
    response = root.get(f"/studies/{number}/live?after=0", headers={"Last-Event-ID": str(last - 1)})
    assert [int(value) for value in re.findall(r"^id: (\d+)$", response.text, re.MULTILINE)] == [last]
    assert root.get(f"/studies/{number}/live?after={last}").text.endswith("event: end\ndata: {}\n\n")


@pytest.mark.parametrize(
    "change", [{"title": "study changed"}, {"tags": ["x"]}, {"notes": "n"}], ids=lambda one: next(iter(one))
)
def test_stream_names_the_details_after_a_change(world, change):
    number = world.queue.submit_study(study("s"), "ada").study_id
    last = world.ledger.study_lists.find_study_item(number).last_event
    world.queue.update_study_metadata(number, change)
    assert asyncio.run(read_first_message(world, number, last))["parts"] == ["details"]


def test_head_offers_what_the_state_allows(world, root):
    waiting = world.queue.submit_study(study("waiting"), "ada").study_id
    world.queue.pause(waiting, "ada")
    head = root.get(f"/studies/{waiting}/parts/head").text
    shown = set(re.findall(r'data-action="([a-z-]+)"(?! disabled)', head))
    assert shown == {"resume", "cancel", "delete"}
    assert "paused" in head
    reader = world.client("ada", Scope.READ, **HTML_HEADERS)
    assert "data-action" not in reader.get(f"/studies/{waiting}/parts/head").text
    assert world.client("bob").get(f"/studies/{waiting}/live").status_code == 404


def test_head_counts_the_trials_that_ended(world, root):
    number = world.queue.submit_study(study("s", seeds=(0, 1, 2)), "ada").study_id
    world.ledger.studies.lease_and_start(number, lambda _: True, "host/1/0")
    finish_trial(world.ledger, world.ledger.trials.list_claimable_trials(number)[0])
    assert "1 of 3 trials" in root.get(f"/studies/{number}/parts/head").text
