// Lets a worker export the network of a row, shows its progress, and downloads the archive when it is ready.
import { alarm, ask, at, send } from "./api.js";
import { put } from "./fragments.js";

const POLL = 1000;
const RETRY = 5000;
const TEMPORARY = [0, 429, 503];
const form = document.getElementById("export-form");
const place = document.getElementById("export");
const study = place?.dataset.study;
let followed = null;

function finish(download) {
  followed = null;
  place.removeAttribute("aria-busy");
  if (download) {
    place.querySelector("a[download]")?.click();
  }
}

// Shows the state of an export until a worker has ended it. Another request takes its place.
async function follow(id, download) {
  let pause = POLL;
  try {
    const answer = await ask(at(`/studies/${study}/parts/exports/${id}`));
    const html = await answer.text();
    if (followed !== id) {
      return;
    }
    put("export", html);
    alarm("");
    if (!["requested", "running"].includes(place.querySelector("[data-state]").dataset.state)) {
      finish(download);
      return;
    }
  } catch (problem) {
    alarm(problem.message);
    if (!TEMPORARY.includes(problem.status)) {
      finish(false);
      return;
    }
    pause = RETRY;
  }
  setTimeout(() => follow(id, download), pause);
}

function start(id, download) {
  followed = id;
  place.setAttribute("aria-busy", "true");
  return follow(id, download);
}

form?.addEventListener("submit", async (event) => {
  event.preventDefault();
  const fields = Object.fromEntries([...new FormData(form)].filter(([, value]) => value));
  const body = { ...fields, batch_size: Number(fields.batch_size) };
  try {
    const answer = await send(at(`/api/v1/studies/${study}/exports`), "POST", body);
    await start((await answer.json()).id, true);
  } catch (problem) {
    alarm(problem.message);
  }
});

if (place?.dataset.open) {
  start(Number(place.dataset.open), false);
}
