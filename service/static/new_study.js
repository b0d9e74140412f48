// The text is the study; the form changes entries of the text. Both are checked by the service while one writes.
import { alarm, at, Refused, send } from "./api.js";
import { put } from "./fragments.js";

const text = document.getElementById("text");
const lines = document.getElementById("lines");
const form = document.getElementById("form");
const mistakes = document.getElementById("mistakes");
const button = document.getElementById("send");
let wrong = new Set();
let checked = null;
let timer = null;
let asked = 0;
let changes = Promise.resolve();
const queued = []; // names of entries that were changed while another change is being checked

function number() {
  const count = text.value.split("\n").length;
  lines.replaceChildren(
    ...Array.from({ length: count }, (_, index) => {
      const mark = document.createElement("span");
      mark.textContent = `${wrong.has(index + 1) ? "▶ " : ""}${index + 1}\n`;
      mark.className = wrong.has(index + 1) ? "wrong" : "";
      return mark;
    }),
  );
  lines.scrollTop = text.scrollTop;
}

function fill(fields) {
  for (const [name, value] of Object.entries(fields)) {
    if (queued.includes(name)) {
      continue; // what the text says of it is about to change
    }
    for (const entry of form.querySelectorAll(`[name="${name}"]`)) {
      if (entry.type === "checkbox") {
        entry.checked = value.includes(entry.value);
      } else if (entry !== document.activeElement) {
        entry.value = value;
      }
    }
  }
}

function tell(found) {
  wrong = new Set(found.map((one) => one.line));
  if (!found.length) {
    mistakes.replaceChildren();
    return;
  }
  const list = document.createElement("ul");
  list.className = "mistakes";
  for (const one of found) {
    const item = document.createElement("li");
    if (one.line) {
      const jump = document.createElement("button");
      jump.type = "button";
      jump.className = "plain";
      jump.textContent = `Line ${one.line}`;
      jump.addEventListener("click", () => go(one.line));
      item.append(jump, `: ${one.message}`);
    } else {
      item.textContent = one.message;
    }
    list.append(item);
  }
  mistakes.replaceChildren(list);
}

function go(line) {
  const before = text.value.split("\n").slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
  const end = text.value.indexOf("\n", before);
  text.focus();
  text.setSelectionRange(before, end < 0 ? text.value.length : end);
}

async function check(change = {}) {
  const turn = ++asked;
  const sent = text.value;
  try {
    const answer = await (await send(at("/studies/new/check"), "POST", { text: sent, ...change })).json();
    if (text.value !== sent && change.field) {
      await check(change);
      return;
    }
    if (text.value !== sent || (turn !== asked && !change.field)) {
      return;
    }
    if (answer.text !== text.value) {
      text.value = answer.text;
    }
    fill(answer.fields);
    tell(answer.mistakes);
    checked = answer.plan ? answer.plan.study : null;
    put("plan", answer.plan_html);
    alarm("");
  } catch (problem) {
    if (turn !== asked) {
      return;
    }
    checked = null;
    alarm(problem.message);
  }
  button.disabled = checked === null || queued.length > 0;
  number();
}

text.addEventListener("input", () => {
  button.disabled = true;
  asked += 1;
  number();
  clearTimeout(timer);
  timer = setTimeout(() => check(), 350);
});
text.addEventListener("scroll", () => (lines.scrollTop = text.scrollTop));

form.addEventListener("change", (event) => {
  clearTimeout(timer);
  const name = event.target.name;
  const boxes = form.querySelectorAll(`[name="${name}"]`);
  const value =
    event.target.type === "checkbox" ? [...boxes].filter((one) => one.checked).map((one) => one.value) : event.target.value;
  button.disabled = true;
  queued.push(name);
  changes = changes.then(() => {
    queued.shift();
    return check({ field: name, value });
  });
});
form.addEventListener("submit", (event) => event.preventDefault());

button.addEventListener("click", async () => {
  button.disabled = true;
  try {
    const made = await (await send(at("/api/v1/studies"), "POST", checked)).json();
    location.assign(at(`/studies/${made.id}`));
  } catch (problem) {
    alarm(problem instanceof Refused ? problem.message : "this study could not be submitted");
    button.disabled = false;
  }
});

number();
check();
