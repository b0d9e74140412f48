// What every page does: times in the reader's zone, light and dark, signing out.
import { alarm, at, send } from "./api.js";
import { localise } from "./times.js";

localise(document);

// on a narrow screen the pages are one line that scrolls: the present one is to be seen
const pages = document.querySelector(".bar nav");
const present = pages?.querySelector("[aria-current]");
if (present) pages.scrollLeft = present.offsetLeft - pages.offsetLeft - pages.clientWidth / 2 + present.offsetWidth / 2;

document.getElementById("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme
    ? root.dataset.theme === "dark"
    : window.matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  try {
    localStorage.setItem("theme", root.dataset.theme);
  } catch {
    // it holds for this page
  }
  document.dispatchEvent(new Event("theme"));
});

document.getElementById("sign-out")?.addEventListener("click", async () => {
  try {
    await send(at("/api/v1/session"), "DELETE");
    location.assign(at("/"));
  } catch (problem) {
    alarm(problem.message);
  }
});
