import assert from "node:assert/strict";
import { beforeEach, mock, test } from "node:test";
import { openPage, settle } from "./dom.js";
import { row, table } from "./study_rows.js";

const ROWS = "/studies/rows";
const BEST = "/studies/best?study=1&study=2";
const DIALOG = `<dialog id="dialog"><form method="dialog"><h2 id="dialog-title"></h2><div id="dialog-text"></div>
  <div id="dialog-fields"><input id="add-tags" data-pattern="^[a-z0-9]+$"><input id="remove-tags"></div>
  <p id="dialog-problem"></p><button value="yes" id="dialog-yes"></button></form></dialog>`;
const BULK = ["pause", "resume", "cancel", "tag", "delete"].map((name) => `<button data-bulk="${name}"></button>`).join("");
const answers = { [ROWS]: { status: 304 }, [BEST]: "" };

mock.timers.enable({ apis: ["setTimeout", "setInterval"] });
const page = openPage(
  `<p id="live"></p><button id="show-changes" hidden></button><input type="checkbox" id="all"><span id="selected"></span>
  <div id="bulk">${BULK}</div><button id="compare-selected"></button>${table(row(1), row(2, { state: "paused", actions: "resume" }))}${DIALOG}`,
  answers,
);
await import("../../../service/static/studies.js");
await settle();

function shown() {
  return [...document.querySelectorAll("tr[data-study]")].map((one) => one.dataset.study);
}

async function receive(...rows) {
  answers[ROWS] = { body: table(...rows), headers: { ETag: '"next"' } };
  mock.timers.tick(3000);
  await settle();
  answers[ROWS] = { status: 304 };
}

beforeEach(async () => {
  await receive(row(1), row(2, { state: "paused", actions: "resume" }));
  document.getElementById("show-changes").click();
  document.querySelectorAll("input[type=checkbox]").forEach((box) => (box.checked = false));
  page.changes.length = 0;
  await settle();
});

test("rows are updated in place, with their selection and focus", async () => {
  const first = document.querySelector("tr[data-study='1']");
  first.querySelector("input").checked = true;
  first.querySelector("a").focus();
  await receive(row(1, { progress: "20 %" }), row(2, { state: "paused", actions: "resume" }));
  assert.equal(document.querySelector("tr[data-study='1']"), first);
  assert.equal(first.querySelector(".progress").textContent, "20 %");
  assert.equal(first.querySelector("input").checked, true);
  assert.equal(document.activeElement, first.querySelector("a"));
  assert.equal(document.getElementById("live").textContent, "live");
});

test("a new study is announced, and shown on request", async () => {
  await receive(row(3), row(1), row(2));
  assert.deepEqual(shown(), ["1", "2"]);
  assert.equal(document.getElementById("show-changes").hidden, false);
  const first = document.querySelector("tr[data-study='1']");
  document.getElementById("show-changes").click();
  assert.deepEqual(shown(), ["3", "1", "2"]);
  assert.equal(document.querySelector("tr[data-study='1']"), first);
  assert.ok(page.asked.includes("/studies/best?study=3"));
});

test("a study that is gone is crossed out until the new list is shown", async () => {
  await receive(row(1));
  assert.ok(document.querySelector("tr[data-study='2']").classList.contains("gone"));
  document.getElementById("show-changes").click();
  assert.deepEqual(shown(), ["1"]);
});

test("a lost connection is told and the list asks again", async () => {
  answers[ROWS] = 503;
  mock.timers.tick(3000);
  await settle();
  assert.equal(document.getElementById("live").textContent, "connection lost, trying again …");
  answers[ROWS] = { status: 304 };
  mock.timers.tick(3000);
  await settle();
  assert.equal(document.getElementById("live").textContent, "live");
});

function select(...ids) {
  for (const id of ids) {
    const box = document.querySelector(`tr[data-study='${id}'] input`);
    box.checked = true;
    box.dispatchEvent(new page.window.Event("change", { bubbles: true }));
  }
}

test("buttons are those that a selected study allows", () => {
  select(2);
  const enabled = [...document.querySelectorAll("[data-bulk]:not([disabled])")].map((one) => one.dataset.bulk);
  assert.deepEqual(enabled, ["resume", "tag"]);
  assert.equal(document.getElementById("compare-selected").disabled, true);
  select(1);
  assert.equal(document.getElementById("compare-selected").disabled, false);
});

test("an action changes only the studies that allow it", async () => {
  answers["/api/v1/studies/2/resume"] = "{}";
  select(1, 2);
  document.querySelector("[data-bulk=resume]").click();
  await settle();
  assert.deepEqual(page.changes, [["POST", "/api/v1/studies/2/resume"]]);
  assert.equal(document.getElementById("selected").textContent, "1 study queued again");
});

test("tags are added and removed without naming the others", async () => {
  answers["/api/v1/studies/1"] = "{}";
  select(1);
  document.querySelector("[data-bulk=tag]").click();
  await settle();
  document.getElementById("add-tags").value = "new, next";
  document.getElementById("remove-tags").value = "old";
  document.getElementById("dialog").close("yes");
  await settle();
  assert.deepEqual(page.changes, [["PATCH", "/api/v1/studies/1", { add_tags: ["new", "next"], remove_tags: ["old"] }]]);
});
