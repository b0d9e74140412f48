import assert from "node:assert/strict";
import { beforeEach, mock, test } from "node:test";
import { openPage } from "./dom.js";

const { Live } = await import("../../../service/static/live.js");
const BASE = "/studies/7";
const HEAD = `${BASE}/parts/head`;
let streams;
let page;

class Stream extends EventTarget {
  static CLOSED = 2;
  readyState = 1;

  constructor(address) {
    super();
    this.address = address;
    streams.push(this);
  }

  close() {
    this.readyState = Stream.CLOSED;
  }

  send(number, lines, parts = []) {
    const data = JSON.stringify({ lines, parts });
    this.dispatchEvent(new MessageEvent("message", { data, lastEventId: String(number) }));
  }
}

function follow(answers = {}) {
  page = openPage("", answers);
  globalThis.EventSource = Stream;
  const seen = { lines: [], parts: [], says: [], ended: 0 };
  const live = new Live(BASE, 3, {
    take: (lines, parts) => {
      seen.lines.push(lines);
      seen.parts.push(...parts);
    },
    says: (text) => seen.says.push(text),
    ended: () => {
      seen.ended += 1;
    },
  });
  live.listen();
  return { live, seen };
}

beforeEach(() => {
  streams = [];
});

test("events begin after the last one on the page, each once", () => {
  const { live, seen } = follow();
  assert.equal(streams[0].address, "/studies/7/live?after=3");
  streams[0].send(3, "again");
  streams[0].send(5, "new", ["cells"]);
  assert.deepEqual(seen.lines, ["new"]);
  assert.deepEqual(seen.parts, ["cells"]);
  assert.equal(live.last, 5);
});

test("the stream ends with the study", () => {
  const { live, seen } = follow();
  streams[0].dispatchEvent(new Event("end"));
  assert.equal(seen.ended, 1);
  assert.equal(streams[0].readyState, Stream.CLOSED);
  assert.deepEqual(seen.says, ["ended"]);
  streams[0].dispatchEvent(new Event("error"));
  assert.equal(live.over, true);
  assert.deepEqual(seen.says, ["ended"]);
});

async function breakOff(status) {
  mock.timers.enable({ apis: ["setTimeout"] });
  const followed = follow({ [HEAD]: status });
  streams[0].close();
  streams[0].dispatchEvent(new Event("error"));
  mock.timers.tick(3000);
  for (let turn = 0; turn < 10; turn += 1) {
    await Promise.resolve();
    await new Promise(setImmediate);
  }
  mock.timers.reset();
  return followed;
}

test("a broken stream is opened again after the last event", async () => {
  const { live } = await breakOff("<p></p>");
  assert.equal(streams.length, 2);
  assert.equal(streams[1].address, "/studies/7/live?after=3");
  assert.equal(live.over, false);
});

for (const status of [403, 404, 410]) {
  test(`the page stops asking after status ${status}`, async () => {
    const { live, seen } = await breakOff(status);
    assert.equal(streams.length, 1);
    assert.equal(live.over, true);
    assert.equal(seen.says.at(-1), `status ${status}`);
  });
}

test("the page asks again later while the service is busy", async () => {
  const { live, seen } = await breakOff(503);
  assert.equal(live.over, false);
  assert.equal(seen.says.at(-1), "status 503");
  assert.deepEqual(page.asked, [HEAD]);
});
