// The list is there at once; the best configuration of each study is asked for afterwards.
import { ask } from "./api.js";

const rows = [...document.querySelectorAll("#studies tr[data-study]")];

async function fill() {
  const query = new URLSearchParams(rows.map((row) => ["study", row.dataset.study]));
  const answer = await ask(`/studies/best?${query}`);
  const found = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const row of rows) {
    const part = found.querySelector(`[data-study="${row.dataset.study}"]`);
    for (const name of ["best", "best-loss"]) {
      const cell = row.querySelector(`.${name}`);
      cell.replaceChildren(...(part ? part.querySelector(`.${name}`).childNodes : ["–"]));
    }
  }
}

if (rows.length) {
  fill().catch(() => rows.forEach((row) => row.querySelectorAll(".best, .best-loss").forEach((cell) => (cell.textContent = "–"))));
}
