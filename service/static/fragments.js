// Parts of a page that the service renders. Scripts fetch them and put them in place; they write no text themselves.
import { ask } from "./api.js";
import { localise } from "./times.js";

const shown = new WeakMap();

function parse(html) {
  return new DOMParser().parseFromString(`<!doctype html><body>${html}</body>`, "text/html").body;
}

// The same text again changes nothing: focus, selection and scroll position stay.
function replace(place, html) {
  if (shown.get(place) === html) {
    return;
  }
  shown.set(place, html);
  const focused = place.contains(document.activeElement);
  place.style.minHeight = `${place.offsetHeight ?? 0}px`;
  place.replaceChildren(...parse(html).childNodes);
  localise(place);
  if (focused) {
    (place.querySelector("button:not([hidden])") ?? place.querySelector("a"))?.focus(); // what had it is gone
  }
}

// Puts a part in its place. Elements with `data-part` go to the elements of that id, anything else to `name`.
export function put(name, html) {
  const parts = parse(html).querySelectorAll("[data-part]");
  for (const part of parts) {
    const place = document.getElementById(part.dataset.part);
    if (place) {
      replace(place, part.innerHTML);
    }
  }
  if (!parts.length) {
    replace(document.getElementById(name), html);
  }
}

export async function fetchPart(base, name) {
  const answer = await ask(`${base}/parts/${name}`);
  put(name, await answer.text());
}

// Adds lines at the end of a list, of which it keeps the last; a reader at its end stays there.
export function addLines(list, html, kept) {
  const follows = list.scrollTop + list.clientHeight >= list.scrollHeight - 4;
  const lines = parse(`<ol>${html}</ol>`).firstElementChild;
  localise(lines);
  list.append(...lines.children);
  while (list.children.length > kept) {
    list.firstElementChild.remove();
  }
  if (follows) {
    list.scrollTop = list.scrollHeight;
  }
}
