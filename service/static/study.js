// A study as it goes on. The service renders what changes; the head of the page is brought up to date once a second at
// most, and the parts that cost the service more less often.
import { alarm, at } from "./api.js";
import { draw } from "./charts.js";
import { confirmed } from "./dialog.js";
import { addLines, fetchPart } from "./fragments.js";
import { Live } from "./live.js";
import { perform } from "./study_actions.js";
import { lossOf } from "./study_losses.js";

const KEPT = 200;
const QUEUE_INTERVAL = 15_000;
const ORDER = ["cells", "leading", "answer", "curves"];
const root = document.getElementById("study");
const base = at(`/studies/${root.dataset.id}`);
const log = document.getElementById("log");
const connection = document.getElementById("live");
let lines = "";
let stale = new Set();
let waiting = null;
let later = null;
let refreshing = null;
let cost = 0;

function says(text) {
  if (connection.textContent !== text) {
    connection.textContent = text;
  }
}

const live = new Live(base, Number(root.dataset.last), { take, says, ended });

// The analysis follows the last result by a second or more.
async function answer(tries = 30) {
  await fetchPart(base, "answer");
  if (live.over && tries > 0 && document.querySelector("#answer [data-later]")) {
    setTimeout(() => answer(tries - 1).catch((problem) => alarm(problem.message)), 2000);
  }
}

async function curves() {
  const chart = document.querySelector(".chart[data-drawn]");
  if (chart) {
    await draw(chart);
  }
}

async function refresh(name) {
  if (name === "curves") {
    await curves();
  } else if (name === "answer") {
    await answer();
  } else if (document.getElementById(name)) {
    await fetchPart(base, name);
  }
}

async function refreshParts() {
  await refreshing;
  later = null;
  const wanted = stale;
  stale = new Set();
  const start = performance.now();
  try {
    for (const name of ORDER.filter((one) => wanted.has(one))) {
      await refresh(name);
      wanted.delete(name);
    }
  } catch {
    stale = new Set([...stale, ...wanted]); // asked for again with the next event
  }
  cost = performance.now() - start;
}

async function flush() {
  waiting = null;
  addLines(log, lines, KEPT);
  lines = "";
  try {
    await fetchPart(base, "head");
  } catch (problem) {
    says(problem.message);
  }
  later ??= setTimeout(() => {
    refreshing = refreshParts();
  }, live.over ? 0 : Math.max(2000, cost * 12));
}

function take(html, parts) {
  lines += html;
  if (parts.includes("details")) {
    document.dispatchEvent(new Event("details")); // a script of its own: an import would run it a second time
  }
  for (const part of parts) {
    if (part !== "answer" || !document.querySelector("#answer .answer")) {
      stale.add(part);
    }
  }
  waiting ??= setTimeout(flush, 1000);
}

async function ended() {
  stale = new Set(ORDER);
  clearTimeout(later);
  later = null;
  clearTimeout(waiting);
  await flush();
}

document.getElementById("actions")?.addEventListener("click", async (event) => {
  const { action } = event.target.dataset || {};
  const study = document.getElementById("acted-on");
  const question = action && lossOf(action, [study]);
  if (!action || (question && !(await confirmed(question)))) {
    return;
  }
  event.target.disabled = true;
  try {
    await perform(action, study);
    if (action === "delete") {
      location.assign(at("/studies"));
      return;
    }
    await fetchPart(base, "head");
    document.querySelector("#actions [data-action]:not([hidden])")?.focus(); // the button that had it is gone
    alarm("");
    if (live.over) {
      live.listen();
    }
  } catch (problem) {
    alarm(problem.message);
  } finally {
    event.target.disabled = false; // where the state is still the same, so is the button
  }
});

// The place in the queue, and the delivery of a message, change without an event of this study.
setInterval(() => {
  if (!document.hidden && document.querySelector("[data-queued]")) {
    fetchPart(base, "head").catch(() => {});
  }
}, QUEUE_INTERVAL);

log.scrollTop = log.scrollHeight;
if (document.querySelector("#leading [data-later]")) {
  fetchPart(base, "leading").catch((problem) => alarm(problem.message));
}
if ("ended" in root.dataset) {
  live.over = true;
} else {
  live.listen();
}
if (document.querySelector("#answer [data-later]")) {
  answer().catch((problem) => alarm(problem.message));
}
