import assert from "node:assert/strict";
import { test } from "node:test";
import { openPage } from "./dom.js";
import { row, table } from "./study_rows.js";

const { lossOf, names } = await import("../../../service/static/study_losses.js");

function rows(...all) {
  openPage(table(...all));
  return [...document.querySelectorAll("tr")];
}

test("deleting asks with what is lost, also of studies that run", () => {
  const loss = lossOf("delete", rows(row(1, { ended: 3, running: 2 }), row(2, { state: "complete", ended: 1 })));
  assert.equal(loss.title, "Delete 2 studies?");
  assert.deepEqual(loss.text, [
    "s1, s2",
    "The results of 4 trials and the trained networks are deleted for good.",
    "1 study of these runs now and will be cancelled first.",
    "2 running trials are stopped: the epochs so far are lost.",
  ]);
});

test("cancelling says that a study can be resumed", () => {
  const loss = lossOf("cancel", rows(row(1, { running: 1, waiting: 1 })));
  assert.equal(loss.button, "Cancel 1 study");
  assert.ok(loss.text.includes("1 running trial is stopped: the epochs so far are lost."));
  assert.ok(loss.text.includes("1 waiting trial is not run."));
  assert.ok(loss.text.includes("Finished trials are kept, and a cancelled study can be resumed."));
});

test("what loses nothing is not asked about", () => {
  const waiting = rows(row(1, { state: "accepted" }));
  assert.equal(lossOf("pause", waiting), null);
  assert.equal(lossOf("resume", waiting), null);
  assert.notEqual(lossOf("pause", rows(row(1, { running: 1 }))), null);
});

test("of many studies the first are named", () => {
  assert.equal(names(rows(...[1, 2, 3, 4, 5, 6, 7].map((id) => row(id)))), "s1, s2, s3, s4, s5 and 2 more");
});
