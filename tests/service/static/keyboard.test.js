import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { openPage } from "./dom.js";

const PAGE = `<main><form role="search"><input type="search"></form><table><tbody>
<tr><td><input type="checkbox" id="box1"></td><th><a href="/1">one</a> <a href="/1b">again</a></th></tr>
<tr><td><input type="checkbox" id="box2"></td><th><a href="/2">two</a></th></tr>
</tbody></table></main>`;

openPage(PAGE);
const { handleKey } = await import("../../../service/static/keyboard.js");

beforeEach(() => openPage(PAGE));

function press(key, target = document.activeElement ?? document.body, held = {}) {
  let prevented = false;
  handleKey({ key, target, ...held, preventDefault: () => (prevented = true) });
  return prevented;
}

function focused() {
  return document.activeElement.textContent;
}

test("j and k move between rows and stay within the table", () => {
  const seen = ["j", "j", "j", "k", "k"].map((key) => {
    press(key);
    return focused();
  });
  assert.deepEqual(seen, ["one", "two", "two", "one", "one"]);
});

test("k begins with the last row", () => {
  press("k");
  assert.equal(focused(), "two");
});

test("x chooses the row that has the focus", () => {
  press("j");
  press("x");
  assert.deepEqual([document.getElementById("box1").checked, document.getElementById("box2").checked], [true, false]);
});

test("a slash goes to the search, where keys are text", () => {
  assert.equal(press("/"), true);
  assert.equal(document.activeElement.type, "search");
  assert.equal(press("j"), false);
  assert.equal(document.activeElement.type, "search");
});

test("keys can be switched off, and do nothing behind a dialog", () => {
  localStorage.setItem("keys", "off");
  assert.equal(press("j"), false);
  localStorage.setItem("keys", "on");
  assert.equal(press("j"), true);
  document.body.insertAdjacentHTML("beforeend", "<dialog open></dialog>");
  assert.equal(press("j"), false);
});

test("keys with Ctrl belong to the browser", () => {
  assert.equal(press("j", document.body, { ctrlKey: true }), false);
  assert.equal(press("q"), false);
});
