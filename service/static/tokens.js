// A new token is shown once; one that is revoked ends at once.
import { alarm, send } from "./api.js";

const form = document.getElementById("new-token");

form?.addEventListener("submit", async (event) => {
  event.preventDefault();
  const given = new FormData(form);
  const wish = { label: given.get("label"), scope: given.get("scope") };
  if (given.get("account")) {
    wish.account = given.get("account");
  }
  if (given.get("days")) {
    wish.days = Number(given.get("days"));
  }
  try {
    const made = await (await send("/api/v1/tokens", "POST", wish)).json();
    const place = document.getElementById("secret");
    const until = made.expires_at ? `it ends ${new Date(made.expires_at).toLocaleString()}` : "it does not end by itself";
    place.textContent = `The token, shown only now; ${until}: ${made.secret}`;
    place.hidden = false;
    form.reset();
    alarm("");
  } catch (problem) {
    alarm(problem.message);
  }
});

for (const button of document.querySelectorAll("[data-revoke]")) {
  button.addEventListener("click", async () => {
    if (!window.confirm("Revoke this token? Whoever uses it is locked out at once.")) {
      return;
    }
    try {
      await send(`/api/v1/tokens/${button.dataset.revoke}`, "DELETE");
      location.reload();
    } catch (problem) {
      alarm(problem.message);
    }
  });
}
