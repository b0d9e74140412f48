import assert from "node:assert/strict";
import { test } from "node:test";

const { inLines, narrowAxes, shortened } = await import("../../../service/static/chart_axes.js");

test("a title has lines of at most so many letters and keeps its words", () => {
  const title = "mean validation loss above the best row's";
  const lines = inLines(title, 28).split("<br>");
  assert.deepEqual(lines.map((line) => line.length <= 28), lines.map(() => true));
  assert.equal(lines.length, 2);
  assert.equal(lines.join(" "), title);
  assert.equal(inLines("epoch", 28), "epoch");
  assert.equal(inLines(undefined, 28), "");
});

test("long labels keep their ends and short ones stay", () => {
  const [long, short] = shortened([`${"a".repeat(32)} FTFT`, "bln FTFT"], 17);
  assert.equal(long.length, 17);
  assert.match(long, /^a+….*FTFT$/);
  assert.equal(short, "bln FTFT");
});

test("each line of a label is shortened by itself", () => {
  assert.deepEqual(shortened([`${"a".repeat(32)}<br>batch 5`, "bln<br>batch 5"], 5), ["aa…aa<br>ba… 5", "bln<br>ba… 5"]);
});

test("labels that would become equal stay as they are", () => {
  const labels = ["x", "y"].map((middle) => `${"a".repeat(16)}${middle}${"a".repeat(16)}`);
  assert.deepEqual(shortened(labels, 17), labels);
});

test("ticks are shortened and the categories of the data keep their names", () => {
  const names = ["a", "b"].map((letter) => `${letter.repeat(32)} FFFF`);
  const axis = { type: "category", title: { text: "rows" }, autorange: "reversed" };
  const { xaxis, yaxis } = narrowAxes({ data: [{ x: names, y: names }], layout: { xaxis: axis, yaxis: axis } });
  assert.deepEqual(yaxis.tickvals, names);
  assert.ok(yaxis.ticktext.every((text) => text.length <= 17));
  assert.equal(yaxis.autorange, "reversed");
  assert.deepEqual(xaxis.tickvals, names);
  assert.ok(xaxis.ticktext.every((text) => text.length <= 13));
  const given = narrowAxes({ data: [], layout: { xaxis: {}, yaxis: { tickvals: [0, 1], ticktext: names } } }).yaxis;
  assert.deepEqual(given.tickvals, [0, 1]);
  assert.deepEqual(given.ticktext, yaxis.ticktext);
});

test("an axis of numbers keeps its ticks", () => {
  const { yaxis } = narrowAxes({ data: [{ y: [1, 2] }], layout: { xaxis: {}, yaxis: { title: { text: "loss" } } } });
  assert.equal(yaxis.tickvals, undefined);
  assert.equal(yaxis.title.text, "loss");
});
