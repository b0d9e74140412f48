// The link that `bln-search serve` prints carries a token behind the #, which browsers send nowhere. It is exchanged
// for a cookie that no script can read, and taken out of the address.
import { ask, at, send } from "./api.js";

const state = document.getElementById("state");
const form = document.getElementById("sign-in");

function wanted() {
  const next = new URLSearchParams(location.search).get("next") || "";
  try {
    const { origin, pathname, search, hash } = new URL(next, location.origin);
    const isPage = origin === location.origin && pathname !== "/";
    return isPage ? `${origin}${at(pathname + search + hash)}` : at("/studies");
  } catch {
    return at("/studies");
  }
}

function goOn() {
  state.textContent = "Signed in.";
  location.replace(wanted());
}

function askFor(reason) {
  state.textContent = reason;
  form.hidden = false;
  document.getElementById("token").focus();
}

async function signIn(token) {
  try {
    await send(at("/api/v1/session"), "POST", { token });
    goOn();
  } catch (problem) {
    askFor(`Not signed in: ${problem.message}.`);
  }
}

async function start() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  history.replaceState(null, "", location.pathname + location.search);
  if (token) {
    await signIn(token.trim());
    return;
  }
  // A link on another site brings no cookie along; a question from this page does.
  const known = await ask(at("/signed-in")).then((answer) => answer.json()).catch(() => false);
  if (known) {
    goOn();
  } else {
    askFor("Sign in with an access token.");
  }
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  signIn(document.getElementById("token").value.trim());
});
window.addEventListener("hashchange", start); // a link that is pasted into the tab with this page loads nothing
start();
