// Questions to the API, and what to say when one is refused.

export class Refused extends Error {
  constructor(status, problem) {
    const errors = (problem.errors || []).map((one) => (one.pointer ? `${one.pointer}: ${one.detail}` : one.detail));
    super(errors.length > 1 ? errors.join("\n") : problem.detail || `the service answered ${status}`);
    this.status = status;
    this.problem = problem;
  }
}

// The address of a path of the service, which a proxy may serve under a path of its own.
export function at(path) {
  return `${document.documentElement.dataset.root ?? ""}${path}`;
}

// The page for signing in again, which leads back to this page.
export function signInAddress() {
  const path = location.pathname.slice(at("").length);
  return at(`/?next=${encodeURIComponent(path + location.search)}`);
}

export async function ask(address, options = {}) {
  let answer;
  try {
    answer = await fetch(address, options);
  } catch {
    throw new Refused(0, { detail: "the service cannot be reached" });
  }
  if (!answer.ok) {
    throw new Refused(answer.status, await answer.json().catch(() => ({})));
  }
  return answer;
}

export function send(address, method, body) {
  const options = { method, headers: {} };
  if (body !== undefined) {
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  return ask(address, options);
}

export function alarm(text) {
  const place = document.getElementById("alert");
  place.textContent = text;
  place.hidden = !text;
  if (text) {
    place.scrollIntoView({ block: "nearest" });
  }
}
