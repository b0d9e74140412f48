// Selected studies: compared, paused, resumed, cancelled, tagged or deleted together, after one question that says
// what is lost.
import { send } from "./api.js";
import { askTags, confirmed } from "./dialog.js";
import { address, allows, perform } from "./study_actions.js";
import { lossOf, names, studies } from "./study_losses.js";

const DONE = { pause: "paused", resume: "queued again", cancel: "cancelled", tag: "tagged", delete: "deleted" };
const FEWEST_COMPARED = 2;
const MOST_COMPARED = 6;
const all = document.getElementById("all");
const told = document.getElementById("selected");
let body = null;
let refresh = null;
let busy = false;

function boxes() {
  return [...body.querySelectorAll("input[name=study]")];
}

function selected() {
  return boxes().filter((box) => box.checked).map((box) => box.closest("tr"));
}

function applies(action, row) {
  return action === "tag" || allows(action, row);
}

export function countSelected() {
  const rows = selected();
  all.checked = rows.length > 0 && rows.length === boxes().length;
  all.indeterminate = rows.length > 0 && !all.checked;
  if (!busy) {
    told.textContent = rows.length ? `${rows.length} selected` : "none selected";
  }
  const compared = rows.length >= FEWEST_COMPARED && rows.length <= MOST_COMPARED;
  document.getElementById("compare-selected").disabled = !compared;
  for (const button of document.querySelectorAll("[data-bulk]")) {
    button.disabled = busy || !rows.some((row) => applies(button.dataset.bulk, row));
  }
}

function tagged(row, { add, remove: gone }) {
  return send(address(row), "PATCH", { add_tags: add, remove_tags: gone });
}

async function apply(rows, action, change) {
  const problems = [];
  for (const [index, row] of rows.entries()) {
    told.textContent = `${index + 1} of ${rows.length} …`;
    try {
      await change(row);
      row.querySelector("input[name=study]").checked = false;
    } catch (problem) {
      problems.push(`${row.dataset.name}: ${problem.message}`);
    }
  }
  const done = rows.length - problems.length;
  return [`${studies(done)} ${DONE[action]}`, ...problems].join("; ");
}

async function changeOf(action, rows) {
  if (action === "tag") {
    const tags = await askTags(`Tag ${studies(rows.length)}`, names(rows));
    return tags && ((row) => tagged(row, tags));
  }
  const question = lossOf(action, rows);
  if (question && !(await confirmed(question))) {
    return null;
  }
  return (row) => perform(action, row);
}

async function act(action) {
  const rows = selected().filter((row) => applies(action, row));
  const change = await changeOf(action, rows);
  if (!change) {
    return;
  }
  busy = true;
  countSelected();
  const outcome = await apply(rows, action, change);
  busy = false;
  await refresh({ rearrange: true }).catch(() => {});
  countSelected();
  told.textContent = outcome;
  if (document.activeElement === document.body) {
    all.focus(); // the button that had the focus is disabled
  }
}

export function watchSelection(rows, refreshList) {
  body = rows;
  refresh = refreshList;
  body.addEventListener("change", countSelected);
  all.addEventListener("change", () => {
    boxes().forEach((box) => (box.checked = all.checked));
    countSelected();
  });
  document.getElementById("bulk").addEventListener("click", (event) => {
    const { bulk } = event.target.dataset || {};
    if (bulk) {
      act(bulk);
    }
  });
  countSelected();
}
