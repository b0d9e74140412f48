// A study as it goes on. Events come one by one; the page is brought up to date once a second at most, and the parts
// that cost the service more less often.
import { alarm, ask, send } from "./api.js";
import { draw } from "./charts.js";
import { localTime, localise } from "./times.js";

const KINDS = [
  "study_accepted", "study_running", "study_paused", "study_complete", "study_interrupted", "study_cancelled",
  "study_failed", "study_changed", "pause_requested", "cancel_requested", "request_withdrawn", "point_added", "search_ended",
  "attempt_started", "attempt_failed", "attempt_lost", "attempt_released", "epoch", "trained", "trial_finished",
  "trial_diverged", "trial_pruned", "study_restored", "weights_freed", "worker_error", "checkpoint_damaged",
];
const KEPT = 200;
const root = document.getElementById("study");
const number = root.dataset.id;
const api = `/api/v1/studies/${number}`;
const log = document.getElementById("log");
const live = document.getElementById("live");
let last = Number(root.dataset.last);
let fresh = [];
let waiting = null;
let stale = { answer: false, leading: false, cells: false, curves: false };
let parts = null;
let refreshing = null;
let cost = 0;
let over = false;

function says(text) {
  if (live.textContent !== text) {
    live.textContent = text;
  }
}

// As the service labels the trials of the first events: by arm and seed, which the table of trials has.
function trialLabel(trial) {
  return document.getElementById(`trial-${trial}`)?.dataset.label ?? `trial ${trial}`;
}

function line(event) {
  const item = document.createElement("li");
  item.value = event.number;
  const kind = document.createElement("b");
  kind.textContent = event.kind.replaceAll("_", " ");
  let more = event.trial_id ? ` ${trialLabel(event.trial_id)}` : "";
  if (event.kind === "epoch") {
    const loss = event.data.validation_loss;
    more += `, epoch ${event.data.epoch}: validation loss ${loss === null ? "not a number" : loss.toFixed(4)}`;
  } else if (event.data.reason) {
    more += `: ${event.data.reason}`;
  }
  item.append(`${localTime(new Date(event.at))} `, kind, more);
  return item;
}

function duration(seconds) {
  const whole = Math.round(seconds);
  const units = [[86400, "d", 3600, "h"], [3600, "h", 60, "min"], [60, "min", 1, "s"]];
  const found = units.find(([size]) => whole >= size);
  if (!found) {
    return `, ${whole} s left`;
  }
  const [size, unit, smaller, name] = found;
  const rest = Math.floor((whole % size) / smaller);
  return `, ${Math.floor(whole / size)} ${unit}${rest ? ` ${rest} ${name}` : ""} left`;
}

function stand(study) {
  const state = document.getElementById("state");
  const badge = state.querySelector(".state");
  if (root.dataset.state !== study.state || !badge) {
    root.dataset.state = study.state;
    refreshBadge(state, study.state);
  }
  document.getElementById("reason").textContent = study.reason || (study.request ? `asked to ${study.request}` : " ");
  const { fraction, ended, trials, running, failed } = study.progress;
  document.getElementById("progress").value = fraction;
  const more = failed ? `, ${failed} failed` : "";
  document.getElementById("counts").textContent = `${ended} of ${trials} trials, ${running} running${more}`;
  document.getElementById("left").textContent = study.eta_seconds ? duration(study.eta_seconds) : "";
  actions(study.state);
}

const MARKS = { accepted: "○", running: "▶", paused: "Ⅱ", complete: "✔", interrupted: "◌", cancelled: "⊘", failed: "✖" };

function refreshBadge(place, state) {
  const badge = document.createElement("span");
  badge.className = `state state-${state}`;
  const mark = document.createElement("span");
  mark.setAttribute("aria-hidden", "true");
  mark.textContent = MARKS[state] || "";
  badge.append(mark, ` ${state}`);
  place.replaceChildren(badge);
}

function actions(state) {
  for (const button of document.querySelectorAll("#actions [data-action]")) {
    button.disabled = !button.dataset.for.split(" ").includes(state);
    button.hidden = button.disabled;
  }
}

async function part(name) {
  const answer = await ask(`/studies/${number}/parts/${name}`);
  const place = document.getElementById(name);
  const found = new DOMParser().parseFromString(await answer.text(), "text/html");
  place.style.minHeight = `${place.offsetHeight}px`;
  place.replaceChildren(...found.body.childNodes);
  localise(place);
}

// The analysis follows the last result by a second or more.
async function answer(tries = 30) {
  await part("answer");
  if (over && tries > 0 && document.querySelector("#answer [data-later]")) {
    setTimeout(() => answer(tries - 1).catch((problem) => alarm(problem.message)), 2000);
  }
}

async function refreshParts() {
  await refreshing;
  parts = null;
  const wanted = stale;
  stale = { answer: false, leading: false, cells: false, curves: false };
  const start = performance.now();
  try {
    if (wanted.cells) {
      await part("cells");
    }
    if (wanted.leading) {
      await part("leading");
    }
    if (wanted.answer) {
      await answer();
    }
    const chart = document.querySelector(".chart[data-drawn]");
    if (wanted.curves && chart) {
      await draw(chart);
    }
  } catch {
    for (const name of Object.keys(stale)) {
      stale[name] ||= wanted[name]; // asked for again with the next event
    }
  }
  cost = performance.now() - start;
}

async function laterParts() {
  if (parts === null) {
    parts = setTimeout(() => {
      refreshing = refreshParts();
    }, over ? 0 : Math.max(2000, cost * 12));
  }
}

async function flush() {
  waiting = null;
  const follows = log.scrollTop + log.clientHeight >= log.scrollHeight - 4;
  log.append(...fresh.slice(-KEPT).map(line));
  fresh = [];
  while (log.children.length > KEPT) {
    log.firstElementChild.remove();
  }
  if (follows) {
    log.scrollTop = log.scrollHeight;
  }
  try {
    stand(await (await ask(api)).json());
  } catch (problem) {
    says(problem.message);
  }
  await laterParts();
}

function take(message) {
  const event = JSON.parse(message.data);
  if (event.number <= last) {
    return;
  }
  last = event.number;
  fresh.push(event);
  if (fresh.length > 4 * KEPT) {
    fresh = fresh.slice(-KEPT);
  }
  stale.curves ||= event.kind === "epoch";
  if (event.kind !== "epoch") {
    stale.cells = true;
    stale.leading ||= event.kind === "trial_finished";
    stale.answer ||= event.kind === "trial_finished" && !document.querySelector("#answer .answer");
  }
  waiting ??= setTimeout(flush, 1000);
}

// The stream was refused, not broken: the API says why, and whether asking again makes sense.
async function again() {
  try {
    await ask(api);
    listen();
  } catch (problem) {
    if (problem.status === 401) {
      location.assign(`/?next=${encodeURIComponent(location.pathname)}`);
    } else if (problem.status === 403 || problem.status === 404) {
      over = true;
      says(problem.message);
    } else {
      says(problem.status ? problem.message : "connection lost, trying again …");
      setTimeout(again, problem.status === 429 ? 30_000 : 3000);
    }
  }
}

function listen() {
  const stream = new EventSource(`${api}/events?after=${last}`);
  stream.addEventListener("open", () => says("live"));
  stream.addEventListener("error", () => {
    if (over) {
      return;
    }
    says("connection lost, trying again …");
    if (stream.readyState === EventSource.CLOSED) {
      setTimeout(again, 3000);
    }
  });
  stream.addEventListener("end", async () => {
    over = true;
    stream.close();
    says("ended");
    stale = { answer: true, leading: true, cells: true, curves: true };
    clearTimeout(parts);
    parts = null;
    clearTimeout(waiting);
    await flush();
  });
  for (const kind of KINDS) {
    stream.addEventListener(kind, take);
  }
}

document.getElementById("actions")?.addEventListener("click", async (event) => {
  const { action, ask: question } = event.target.dataset || {};
  if (!action || (question && !window.confirm(question))) {
    return;
  }
  event.target.disabled = true;
  try {
    if (action === "delete") {
      await send(api, "DELETE");
      location.assign("/studies");
      return;
    }
    stand(await (await send(`${api}/${action}`, "POST")).json());
    document.querySelector("#actions [data-action]:not([hidden])")?.focus(); // the button that had it is gone
    alarm("");
    if (over) {
      over = false;
      listen();
    }
  } catch (problem) {
    alarm(problem.message);
    actions(root.dataset.state);
  }
});

if (document.querySelector("#leading [data-later]")) {
  part("leading").catch((problem) => alarm(problem.message));
}
log.scrollTop = log.scrollHeight;
actions(root.dataset.state);
if (!["complete", "cancelled", "failed"].includes(root.dataset.state)) {
  listen();
} else {
  over = true;
}
if (document.querySelector("#answer [data-later]")) {
  answer().catch((problem) => alarm(problem.message));
}
