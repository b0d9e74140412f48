// A new link is shown once; one that is revoked ends at once.
import { alarm, send } from "./api.js";

const form = document.getElementById("new-link");
const api = `/api/v1/studies/${form.dataset.study}/share-links`;

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const given = new FormData(form);
  try {
    const answer = await send(api, "POST", { label: given.get("label"), days: Number(given.get("days")) });
    const { path } = await answer.json();
    const place = document.getElementById("secret");
    place.textContent = `The link, shown only now: ${location.origin}${path}`;
    place.hidden = false;
    form.reset();
    alarm("");
  } catch (problem) {
    alarm(problem.message);
  }
});

for (const button of document.querySelectorAll("[data-revoke]")) {
  button.addEventListener("click", async () => {
    if (!window.confirm("Revoke this link? Everybody who uses it is locked out at once.")) {
      return;
    }
    try {
      await send(`${api}/${button.dataset.revoke}`, "DELETE");
      location.reload();
    } catch (problem) {
      alarm(problem.message);
    }
  });
}
