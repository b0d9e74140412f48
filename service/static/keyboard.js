// Keys of every page: / search, j and k rows, x choose a row, ? help. Nothing happens while one types.

const ROW_LINKS = "main tbody th a[href], main tbody td a[href]";

function rowLinks() {
  const rows = new Map();
  for (const link of document.querySelectorAll(ROW_LINKS)) {
    const row = link.closest("tr");
    if (!rows.has(row)) {
      rows.set(row, link);
    }
  }
  return [...rows.values()];
}

// The first link of the next or previous row; the first or last row where no row has the focus.
function move(step) {
  const links = rowLinks();
  const row = document.activeElement?.closest("tr");
  const present = links.findIndex((link) => link.closest("tr") === row);
  const first = step > 0 ? 0 : links.length - 1;
  const following = present < 0 ? first : Math.min(Math.max(present + step, 0), links.length - 1);
  links[following]?.focus();
}

function choose() {
  document.activeElement?.closest("tr")?.querySelector("input[type=checkbox]")?.click();
}

function search() {
  document.querySelector("main input[type=search], main form[role=search] select, main form[role=search] input")?.focus();
}

function help() {
  document.getElementById("keys").showModal();
}

// Who dictates or types on the page by accident can switch the keys off.
function isOn() {
  try {
    return localStorage.getItem("keys") !== "off";
  } catch {
    return true;
  }
}

function remember(on) {
  try {
    localStorage.setItem("keys", on ? "on" : "off");
  } catch {
    // the keys stay on
  }
}

const KEYS = { "/": search, "?": help, j: () => move(1), k: () => move(-1), x: choose };

export function handleKey(event) {
  const typing = event.target.closest?.("input:not([type=checkbox]), textarea, select, [contenteditable]");
  const held = event.ctrlKey || event.metaKey || event.altKey;
  if (typing || held || event.defaultPrevented || !KEYS[event.key] || !isOn() || document.querySelector("dialog[open]")) {
    return;
  }
  event.preventDefault();
  KEYS[event.key]();
}

document.addEventListener("keydown", handleKey);
document.getElementById("keys-open")?.addEventListener("click", help);
const box = document.getElementById("keys-on");
if (box) {
  box.checked = isOn();
  box.addEventListener("change", () => remember(box.checked));
}
