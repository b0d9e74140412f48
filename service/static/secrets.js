// Forms that make a secret, which is shown once, and buttons that revoke one.
import { alarm, send } from "./api.js";

/**
 * Send what a form describes, and show the answer.
 *
 * @param form The form.
 * @param api Path that makes a secret.
 * @param describe From the values of the form to the body of the request.
 * @param tell From the answer to the text that is shown once.
 */
export function makeSecrets(form, api, describe, tell) {
  form?.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      const answer = await send(api, "POST", describe(new FormData(form)));
      const place = document.getElementById("secret");
      place.textContent = tell(await answer.json());
      place.hidden = false;
      form.reset();
      alarm("");
    } catch (problem) {
      alarm(problem.message);
    }
  });
}

/** Let every button `data-revoke` revoke its secret after a question. */
export function revokeSecrets(api, question) {
  for (const button of document.querySelectorAll("[data-revoke]")) {
    button.addEventListener("click", async () => {
      if (!window.confirm(question)) {
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
}
