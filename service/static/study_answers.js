// The list is there at once; the recommended configuration of each study is asked for afterwards.
import { ask, at } from "./api.js";

const AT_ONCE = 25;

function put(row, part) {
  for (const name of ["best", "best-loss"]) {
    const cell = row.querySelector(`.${name}`);
    cell.replaceChildren(...(part ? part.querySelector(`.${name}`).childNodes : ["–"]));
  }
  if (part?.dataset.later === undefined) {
    delete row.dataset.later;
  } else {
    row.dataset.later = ""; // its analysis is still computed
  }
}

async function fill(rows) {
  const query = new URLSearchParams(rows.map((row) => ["study", row.dataset.study]));
  const answer = await ask(at(`/studies/best?${query}`));
  const found = new DOMParser().parseFromString(await answer.text(), "text/html");
  rows.forEach((row) => put(row, found.querySelector(`[data-study="${row.dataset.study}"]`)));
}

export async function fillAnswers(rows) {
  for (let first = 0; first < rows.length; first += AT_ONCE) {
    const some = rows.slice(first, first + AT_ONCE);
    try {
      await fill(some);
    } catch {
      some.filter((row) => row.querySelector(".best").textContent.trim() === "…").forEach((row) => put(row, null));
    }
  }
}
