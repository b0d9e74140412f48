// Title, tags, priority and notes of a study, edited in place. A change by somebody else in between is told beside the
// field; what was typed stays until it is saved or dropped.
import { ask, at } from "./api.js";

const root = document.getElementById("study");
const details = document.getElementById("details");
const api = at(`/api/v1/studies/${root.dataset.id}`);
const name = root.querySelector("h1").firstChild.textContent.trim();
const TRIES = 3;
let revision = details.dataset.revision;

function fields() {
  return [...document.querySelectorAll(".field")];
}

function box(field) {
  return field.querySelector("input, textarea");
}

function isOpen(field) {
  return !(field.querySelector("form")?.hidden ?? true);
}

function isChanged(field) {
  return isOpen(field) && box(field).value !== field.dataset.base;
}

function tell(field, text) {
  const place = field.querySelector(".mistake");
  place.textContent = text;
  place.hidden = !text;
  box(field).setAttribute("aria-invalid", String(Boolean(text)));
}

function open(field) {
  field.dataset.base = field.dataset.value;
  box(field).value = field.dataset.value;
  tell(field, "");
  field.querySelector("form").hidden = false;
  field.querySelector(".shown").hidden = true;
  box(field).focus();
}

function close(field) {
  field.querySelector("form").hidden = true;
  field.querySelector(".shown").hidden = false;
  field.querySelector(".edit").focus();
}

// The present values, as the service renders them; open fields keep what was typed.
async function refresh() {
  const found = new DOMParser().parseFromString(await (await ask(at(`/studies/${root.dataset.id}/parts/details`))).text(), "text/html");
  const present = found.getElementById("details").dataset.revision;
  if (Number(present) < Number(revision)) {
    return; // the answer to an earlier request
  }
  revision = present;
  for (const field of fields()) {
    const next = found.querySelector(`[data-field="${field.dataset.field}"]`);
    const shown = field.querySelector(".shown");
    if (field.dataset.value !== next.dataset.value) {
      const focused = shown.contains(document.activeElement);
      field.dataset.value = next.dataset.value;
      shown.replaceChildren(...next.querySelector(".shown").childNodes);
      if (focused) {
        field.querySelector(".edit")?.focus();
      }
    }
  }
}

function typed(field) {
  const { value } = box(field);
  if (field.dataset.field === "tags") {
    return value.split(/[\s,]+/).filter(Boolean);
  }
  return field.dataset.field === "priority" ? Number(value) : value;
}

function patch(field) {
  return ask(api, {
    method: "PATCH",
    headers: { "Content-Type": "application/json", "If-Match": `"${revision}"` },
    body: JSON.stringify({ [field.dataset.field]: typed(field) }),
  });
}

// Somebody else has changed this field since it was opened.
function tellConflict(field) {
  field.dataset.base = field.dataset.value;
  tell(field, `Changed meanwhile to: ${field.dataset.value || "(empty)"}\nSave again to replace that, or cancel to keep it.`);
}

// 412: the study has another revision. Where another field has changed, this change is sent again.
async function save(field, tries = TRIES) {
  if (field.dataset.value !== field.dataset.base) {
    tellConflict(field);
    return false;
  }
  try {
    await patch(field);
  } catch (problem) {
    if (problem.status !== 412 || tries <= 0) {
      throw problem;
    }
    await refresh();
    return save(field, tries - 1);
  }
  await refresh();
  return true;
}

async function submit(field) {
  const button = field.querySelector(".primary");
  button.disabled = true;
  tell(field, "");
  try {
    if (await save(field)) {
      close(field);
    }
  } catch (problem) {
    tell(field, problem.message);
  } finally {
    button.disabled = false;
  }
  if (isOpen(field)) {
    box(field).focus();
  }
}

function pressed(event, field) {
  if (event.key === "Escape") {
    if (isChanged(field)) {
      tell(field, "Not saved yet: save, or cancel to drop the change.");
    } else {
      close(field);
    }
  } else if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    field.querySelector("form").requestSubmit();
  }
}

function watch(field) {
  field.addEventListener("click", (event) => {
    if (event.target.classList.contains("edit")) {
      open(field);
    } else if (event.target.classList.contains("cancel")) {
      close(field);
    }
  });
  field.querySelector("form")?.addEventListener("submit", (event) => {
    event.preventDefault();
    submit(field);
  });
  field.querySelector("form")?.addEventListener("keydown", (event) => pressed(event, field));
}

// The browser's title tells progress or state, as the page shows them.
function follow() {
  const progress = document.getElementById("progress");
  const state = document.querySelector("#state .state")?.textContent.trim().split(/\s+/).pop() ?? "";
  const percent = progress && `${Math.floor(100 * progress.value)} %`;
  const place = document.getElementById("percent");
  if (place && place.textContent !== percent) {
    place.textContent = percent;
  }
  const start = { running: percent, complete: "" }[state] ?? state;
  document.title = `${start ? `${start} · ` : ""}${name} · bln-search`;
}

fields().forEach(watch);
new MutationObserver(follow).observe(document.querySelector(".cards"), {
  attributes: true,
  childList: true,
  characterData: true,
  subtree: true,
});
document.addEventListener("details", () => {
  refresh().catch(() => {}); // the next save says what is wrong
});
window.addEventListener("beforeunload", (event) => {
  if (fields().some(isChanged)) {
    event.preventDefault();
  }
});
