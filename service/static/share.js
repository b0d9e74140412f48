// Share links of a study.
import { at } from "./api.js";
import { makeSecrets, revokeSecrets } from "./secrets.js";

const form = document.getElementById("new-link");
const api = at(`/api/v1/studies/${form.dataset.study}/share-links`);

makeSecrets(
  form,
  api,
  (given) => ({ label: given.get("label"), days: Number(given.get("days")) }),
  ({ path }) => `The link, shown only now: ${location.origin}${at(path)}`,
);
revokeSecrets(api, "Revoke this link? Everybody who uses it is locked out at once.");
