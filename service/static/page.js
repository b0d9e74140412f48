// What every page does: times in the reader's zone, light and dark, signing out.
import { alarm, send } from "./api.js";

const format = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const zone = new Intl.DateTimeFormat(undefined, { timeZoneName: "short" });

export function localTime(moment) {
  const part = zone.formatToParts(moment).find((one) => one.type === "timeZoneName");
  return `${format.format(moment)} ${part ? part.value : ""}`.trim();
}

export function localise(root) {
  for (const one of root.querySelectorAll("time[datetime]")) {
    one.title = one.textContent;
    one.textContent = localTime(new Date(one.dateTime));
  }
}

localise(document);

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
    await send("/api/v1/session", "DELETE");
    location.assign("/");
  } catch (problem) {
    alarm(problem.message);
  }
});
