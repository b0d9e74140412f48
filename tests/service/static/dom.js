// A document without a browser, with the addresses that scripts ask.
import { Window } from "happy-dom";

const GLOBALS = ["document", "DOMParser", "localStorage", "location"];

// Sets the globals of a browser. html: content of the body. answers: response of each address, a text or a status.
export function openPage(html, answers = {}) {
  const window = new Window({ url: "http://service.test/studies/7" });
  window.document.body.innerHTML = html;
  for (const name of GLOBALS) {
    globalThis[name] = window[name];
  }
  globalThis.window = window;
  const asked = [];
  globalThis.fetch = async (address) => {
    asked.push(String(address));
    const answer = answers[address];
    if (typeof answer === "number") {
      return new Response(JSON.stringify({ detail: `status ${answer}` }), { status: answer });
    }
    return new Response(answer);
  };
  return { window, asked };
}
