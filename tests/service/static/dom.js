// A document without a browser, with the addresses that scripts ask.
import { Window } from "happy-dom";

const GLOBALS = ["document", "DOMParser", "localStorage", "location"];

// Sets the globals of a browser. html: content of the body. answers: response of each address: a text, a status, or
// body, status and headers. Returns the window, the addresses in the order of the requests, and the requests that change something.
export function openPage(html, answers = {}) {
  const window = new Window({ url: "http://service.test/studies/7" });
  window.document.body.innerHTML = html;
  for (const name of GLOBALS) {
    globalThis[name] = window[name];
  }
  globalThis.window = window;
  const asked = [];
  const changes = [];
  globalThis.fetch = async (address, { method, body } = {}) => {
    asked.push(String(address));
    if (method) {
      changes.push([method, String(address), ...(body ? [JSON.parse(body)] : [])]);
    }
    const answer = answers[address];
    if (typeof answer === "number") {
      return new Response(JSON.stringify({ detail: `status ${answer}` }), { status: answer });
    }
    if (typeof answer === "object") {
      return new Response(answer.body ?? null, answer);
    }
    return new Response(answer);
  };
  return { window, asked, changes };
}

// Lets promises and the answers of requests go on; timers are those of the test.
export async function settle(turns = 20) {
  for (let turn = 0; turn < turns; turn += 1) {
    await new Promise(setImmediate);
  }
}
