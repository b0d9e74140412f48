// The link that `bln-search serve` prints carries a token behind the #, which browsers send nowhere. It is exchanged
// for a cookie that no script can read, and taken out of the address.
"use strict";

const state = document.getElementById("state");
const form = document.getElementById("sign-in");

function greet(session) {
  state.textContent = `Signed in as ${session.account} (${session.scope}).`;
  form.hidden = true;
}

function ask(reason) {
  state.textContent = reason;
  form.hidden = false;
}

async function signIn(token) {
  const answer = await fetch("/api/v1/session", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ token }),
  });
  const told = await answer.json();
  if (answer.ok) {
    greet(told);
  } else {
    ask(told.detail);
  }
}

async function start() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  history.replaceState(null, "", location.pathname);
  if (token) {
    await signIn(token);
    return;
  }
  const answer = await fetch("/api/v1/session");
  if (answer.ok) {
    greet(await answer.json());
  } else {
    ask("Sign in with an access token: `bln-search token create` makes one.");
  }
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  signIn(document.getElementById("token").value);
});
start();
