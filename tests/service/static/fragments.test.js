import assert from "node:assert/strict";
import { test } from "node:test";
import { openPage } from "./dom.js";

const { addLines, fetchPart, put } = await import("../../../service/static/fragments.js");

function line(number) {
  return `<li value="${number}"><time datetime="2026-01-02T03:04:05+00:00">2026-01-02 03:04:05 UTC</time> <b>epoch</b></li>`;
}

test("a part is fetched and put into the element of its name", async () => {
  const { asked } = openPage('<div id="cells">old</div>', { "/studies/7/parts/cells": "<p>new</p>" });
  await fetchPart("/studies/7", "cells");
  assert.deepEqual(asked, ["/studies/7/parts/cells"]);
  assert.equal(document.getElementById("cells").innerHTML, "<p>new</p>");
});

test("the parts of the head go to their own elements", () => {
  openPage('<p id="actions"></p><div id="state-card"></div><div id="other">kept</div>');
  put("head", '<div data-part="actions"><button>Pause</button></div><div data-part="state-card">running</div><div data-part="gone">x</div>');
  assert.equal(document.getElementById("actions").innerHTML, "<button>Pause</button>");
  assert.equal(document.getElementById("state-card").textContent, "running");
  assert.equal(document.getElementById("other").textContent, "kept");
});

test("a part that has not changed keeps its elements", () => {
  openPage('<div id="cells"></div>');
  put("cells", "<button>same</button>");
  const button = document.querySelector("button");
  put("cells", "<button>same</button>");
  assert.equal(document.querySelector("button"), button);
  put("cells", "<button>other</button>");
  assert.notEqual(document.querySelector("button"), button);
});

test("focus goes to the first visible button of a replaced part", () => {
  openPage('<p id="actions"><button>Pause</button></p>');
  document.querySelector("button").focus();
  put("actions", "<button hidden>Pause</button><button>Resume</button>");
  assert.equal(document.activeElement.textContent, "Resume");
});

test("a refused part leaves the page as it is", async () => {
  openPage('<div id="cells">old</div>', { "/studies/7/parts/cells": 503 });
  await assert.rejects(fetchPart("/studies/7", "cells"), { status: 503, message: "status 503" });
  assert.equal(document.getElementById("cells").textContent, "old");
});

test("the log keeps its last lines, with local times", () => {
  openPage('<ol id="log"></ol>');
  const log = document.getElementById("log");
  addLines(log, line(1) + line(2), 3);
  addLines(log, line(3) + line(4), 3);
  assert.deepEqual([...log.children].map((one) => one.value), [2, 3, 4]);
  assert.equal(log.querySelector("time").title, "2026-01-02 03:04:05 UTC");
});

test("a reader at the end of the log stays there, another one is not moved", () => {
  openPage('<ol id="log"></ol>');
  const log = document.getElementById("log");
  Object.defineProperty(log, "scrollHeight", { value: 500 });
  Object.defineProperty(log, "clientHeight", { value: 100 });
  log.scrollTop = 400;
  addLines(log, line(1), 9);
  assert.equal(log.scrollTop, 500);
  log.scrollTop = 20;
  addLines(log, line(2), 9);
  assert.equal(log.scrollTop, 20);
});
