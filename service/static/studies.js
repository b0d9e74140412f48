// The list of studies, kept up to date in place: rows stay where they are, with their focus and their selection.
// A study that is new, gone or in another place is announced, and shown when the reader asks for it.
import { at, signInAddress } from "./api.js";
import { fillAnswers } from "./study_answers.js";
import { countSelected, watchSelection } from "./study_selection.js";
import { localise } from "./times.js";

const ACTIVE_SECONDS = 3;
const QUIET_SECONDS = 15;
const table = document.getElementById("studies");
const body = table?.tBodies[0];
const live = document.getElementById("live");
const changes = document.getElementById("show-changes");
let etag = table?.dataset.etag;
let timer = null;
let newest = null;

function rowsOf(parent) {
  return [...parent.querySelectorAll("tr[data-study]")];
}

function says(text) {
  if (live.textContent !== text) {
    live.textContent = text;
  }
}

// What the service sent, to compare with what it sends next: times are converted, answers come separately.
const sent = new WeakMap();
const FIXED = ["choose", "best", "best-loss"];

function remember(row) {
  for (const cell of row.cells) {
    sent.set(cell, cell.innerHTML);
  }
}

function replaceCell(cell, next) {
  const focused = [...cell.querySelectorAll("a, button")].indexOf(document.activeElement);
  sent.set(cell, next.innerHTML);
  cell.replaceChildren(...next.childNodes);
  localise(cell);
  if (focused >= 0) {
    cell.querySelectorAll("a, button")[focused]?.focus();
  }
}

function updateRow(row, next) {
  const needsAnswer = row.dataset.results !== next.dataset.results || row.dataset.state !== next.dataset.state;
  Object.assign(row.dataset, next.dataset);
  [...row.cells].forEach((cell, index) => {
    const fixed = FIXED.some((name) => cell.classList.contains(name));
    if (!fixed && sent.get(cell) !== next.cells[index].innerHTML) {
      replaceCell(cell, next.cells[index]);
    }
  });
  return needsAnswer;
}

// Known rows are updated; returns those whose recommended configuration may have changed.
function update(next) {
  const known = new Map(rowsOf(body).map((row) => [row.dataset.study, row]));
  const stale = next.filter((row) => known.has(row.dataset.study) && updateRow(known.get(row.dataset.study), row));
  const ids = new Set(next.map((row) => row.dataset.study));
  known.forEach((row, id) => row.classList.toggle("gone", !ids.has(id)));
  const same = rowsOf(body).map((row) => row.dataset.study).join() === [...ids].join();
  newest = same ? null : next;
  changes.hidden = same;
  return stale.map((row) => known.get(row.dataset.study));
}

// The rows in their new order. Known ones are moved, not made again.
function showNewest() {
  const known = new Map(rowsOf(body).map((row) => [row.dataset.study, row]));
  const rows = newest.map((row) => known.get(row.dataset.study) ?? row);
  const added = rows.filter((row) => !known.has(row.dataset.study));
  added.forEach((row) => {
    remember(row);
    localise(row);
  });
  body.replaceChildren(...rows);
  newest = null;
  changes.hidden = true;
  countSelected();
  fillAnswers(added);
}

async function request() {
  const answer = await fetch(at(`/studies/rows${location.search}`), { headers: { "If-None-Match": etag } });
  if (answer.status === 401) {
    location.assign(signInAddress());
  }
  if (answer.status === 304) {
    return null;
  }
  if (!answer.ok) {
    throw new Error(`the service answered ${answer.status}`);
  }
  etag = answer.headers.get("ETag");
  return rowsOf(new DOMParser().parseFromString(await answer.text(), "text/html"));
}

export async function refresh({ rearrange = false } = {}) {
  const next = await request();
  if (next !== null) {
    fillAnswers(update(next));
    countSelected();
  }
  if (rearrange && newest !== null) {
    showNewest();
  }
}

function isActive() {
  return rowsOf(body).some((row) => ["accepted", "running"].includes(row.dataset.state));
}

async function poll() {
  clearTimeout(timer);
  timer = null;
  if (document.hidden) {
    return; // the list goes on when the tab is shown again
  }
  try {
    await refresh();
    says("live");
  } catch {
    says("connection lost, trying again …");
  }
  fillAnswers(rowsOf(body).filter((row) => row.dataset.later !== undefined));
  timer = setTimeout(poll, 1000 * (isActive() ? ACTIVE_SECONDS : QUIET_SECONDS));
}

function tick() {
  if (!document.hidden) {
    localise(body);
  }
}

if (body) {
  rowsOf(body).forEach(remember);
  localise(body);
  fillAnswers(rowsOf(body));
  watchSelection(body, refresh);
  changes.addEventListener("click", showNewest);
  document.addEventListener("visibilitychange", () => document.hidden || poll());
  setInterval(tick, 30_000);
  poll();
}
