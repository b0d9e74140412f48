import assert from "node:assert/strict";
import { afterEach, beforeEach, mock, test } from "node:test";
import { openPage, settle } from "./dom.js";

const EXPORTS = "/api/v1/studies/7/exports";
const PART = "/studies/7/parts/exports/3";
const state = (name, more = "") => `<div data-state="${name}"><p>${name}${more}</p></div>`;
const READY = state("ready", '<a href="/download" download>network.zip</a>');
const FORM = `<form id="export-form"><input name="configuration" value="TTFF"><input name="estimate" value="">
<input name="batch_size" value="25"></form>`;
let opened = 0;

beforeEach(() => mock.timers.enable({ apis: ["setTimeout"] }));
afterEach(() => mock.timers.reset());

// The script reads the page as it is loaded, so each test loads its own copy.
async function load(place, answers) {
  const page = openPage(`<p id="alert" hidden></p>${FORM}${place}`, answers);
  globalThis.FormData = page.window.FormData;
  page.downloads = 0;
  page.window.document.addEventListener("click", (event) => {
    event.preventDefault();
    page.downloads += event.target.matches("a[download]") ? 1 : 0;
  });
  opened += 1;
  await import(`../../../service/static/export.js?page=${opened}`);
  await settle();
  page.place = document.getElementById("export");
  return page;
}

const CLOSED = '<div id="export" data-study="7"></div>';
const OPEN = '<div id="export" data-study="7" data-open="3"></div>';

async function submit(page) {
  const event = new page.window.Event("submit", { cancelable: true });
  document.getElementById("export-form").dispatchEvent(event);
  await settle();
  return event;
}

async function later(milliseconds) {
  mock.timers.tick(milliseconds);
  await settle();
}

test("a request has the fields with a value and is followed until its archive is downloaded", async () => {
  const answers = { [EXPORTS]: { body: JSON.stringify({ id: 3 }), status: 202 }, [PART]: state("requested") };
  const page = await load(CLOSED, answers);
  const event = await submit(page);
  assert.equal(event.defaultPrevented, true);
  assert.deepEqual(page.changes, [["POST", EXPORTS, { configuration: "TTFF", batch_size: 25 }]]);
  assert.equal(page.place.textContent, "requested");
  assert.equal(page.place.getAttribute("aria-busy"), "true");
  answers[PART] = state("running");
  await later(1000);
  assert.equal(page.place.textContent, "running");
  assert.equal(page.downloads, 0);
  answers[PART] = READY;
  await later(1000);
  assert.equal(page.downloads, 1);
  assert.equal(page.place.hasAttribute("aria-busy"), false);
  const asked = page.asked.length;
  await later(60_000);
  assert.equal(page.asked.length, asked);
});

test("an export that runs as the page opens is followed without a download", async () => {
  const page = await load(OPEN, { [PART]: READY });
  assert.deepEqual(page.asked, [PART]);
  assert.equal(page.place.textContent, "readynetwork.zip");
  assert.equal(page.downloads, 0);
});

test("a refused request is told and not followed", async () => {
  const page = await load(CLOSED, { [EXPORTS]: 422 });
  await submit(page);
  assert.equal(document.getElementById("alert").textContent, "status 422");
  assert.deepEqual(page.asked, [EXPORTS]);
});

for (const status of [429, 503]) {
  test(`the page asks again after status ${status}`, async () => {
    const answers = { [PART]: status };
    const page = await load(OPEN, answers);
    assert.equal(document.getElementById("alert").textContent, `status ${status}`);
    await later(1000);
    assert.equal(page.asked.length, 1);
    answers[PART] = READY;
    await later(4000);
    assert.equal(page.place.textContent, "readynetwork.zip");
    assert.equal(document.getElementById("alert").hidden, true);
  });
}

test("the page stops asking for an export that is gone", async () => {
  const page = await load(OPEN, { [PART]: 404 });
  assert.equal(page.place.hasAttribute("aria-busy"), false);
  await later(60_000);
  assert.equal(page.asked.length, 1);
});
