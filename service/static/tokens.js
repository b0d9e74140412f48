// Access tokens.
import { at } from "./api.js";
import { makeSecrets, revokeSecrets } from "./secrets.js";

const API = at("/api/v1/tokens");

function describe(given) {
  const wish = { label: given.get("label"), scope: given.get("scope") };
  if (given.get("account")) {
    wish.account = given.get("account");
  }
  if (given.get("days")) {
    wish.days = Number(given.get("days"));
  }
  return wish;
}

function tell(made) {
  const until = made.expires_at ? `it ends ${new Date(made.expires_at).toLocaleString()}` : "it does not end by itself";
  return `The token, shown only now; ${until}: ${made.secret}`;
}

makeSecrets(document.getElementById("new-token"), API, describe, tell);
revokeSecrets(API, "Revoke this token? Whoever uses it is locked out at once.");
