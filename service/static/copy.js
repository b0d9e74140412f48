// Copies of the table as it is filtered, of the link, of the code.
import { alarm, ask } from "./api.js";

const bar = document.getElementById("copies");
const told = document.getElementById("copied");

async function put(text) {
  if (navigator.clipboard && window.isSecureContext) {
    await navigator.clipboard.writeText(text);
    return;
  }
  const area = document.createElement("textarea");
  area.value = text;
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  if (!done) {
    throw new Error("the browser does not let this page copy; mark the text and copy it yourself");
  }
}

async function text(format) {
  if (format === "link") {
    return location.href;
  }
  if (document.getElementById(format)) {
    return document.getElementById(format).textContent; // a block of code
  }
  const address = new URL(bar.dataset.source, location.origin);
  address.searchParams.set("format", format);
  return (await ask(address)).text();
}

bar?.addEventListener("click", async (event) => {
  const format = event.target.dataset?.format;
  if (!format) {
    return;
  }
  try {
    await put(await text(format));
    told.textContent = "Copied.";
  } catch (problem) {
    alarm(problem.message);
  }
});
