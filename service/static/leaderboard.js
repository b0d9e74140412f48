// Two chosen rows are compared; the link keeps them.
import { alarm, ask } from "./api.js";

const place = document.getElementById("difference");
const LARGEST = 2;

function boxes() {
  return [...document.querySelectorAll('.board input[name="row"]')];
}

// In the order in which they were chosen. A row that is shown twice is chosen once.
let chosen = [...new Set(boxes().filter((box) => box.checked).map((box) => box.value))];

function mark() {
  for (const box of boxes()) {
    box.checked = chosen.includes(box.value);
  }
}

function keepInLink() {
  const link = new URL(location.href);
  link.searchParams.delete("row");
  for (const key of chosen) {
    link.searchParams.append("row", key);
  }
  history.replaceState(null, "", link);
}

async function show() {
  const source = new URL(place.dataset.source, location.origin);
  for (const key of chosen) {
    source.searchParams.append("row", key);
  }
  const wanted = source.search;
  place.dataset.wanted = wanted;
  try {
    const text = await (await ask(source)).text();
    if (place.dataset.wanted === wanted) {
      place.innerHTML = text;
    }
  } catch (problem) {
    alarm(problem.message);
  }
}

document.querySelector(".board")?.addEventListener("change", (event) => {
  const box = event.target;
  if (box.name !== "row") {
    return;
  }
  chosen = chosen.filter((key) => key !== box.value);
  if (box.checked) {
    chosen = [...chosen, box.value].slice(-LARGEST); // the one chosen first is given up
  }
  mark();
  keepInLink();
  show();
});

// the opened menu is moved to the left as far as it would stick out of the window
const menu = document.querySelector(".menu");
const MARGIN = 8;

menu?.addEventListener("toggle", () => {
  const list = menu.querySelector("fieldset");
  list.style.marginLeft = "0";
  const outside = list.getBoundingClientRect().right + MARGIN - document.documentElement.clientWidth;
  if (outside > 0) {
    list.style.marginLeft = `${-outside}px`;
  }
});
