import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { openPage, settle } from "./dom.js";
import { row, table } from "./study_rows.js";

const { allows, perform } = await import("../../../service/static/study_actions.js");
const STUDY = "/api/v1/studies/7";

function open(values, answers) {
  const { changes } = openPage(table(row(7, values)), answers);
  return { changes, study: document.querySelector("tr") };
}

test("the service says which actions are allowed", () => {
  const { study } = open({ actions: "resume delete" });
  assert.deepEqual(["pause", "resume", "cancel", "delete"].filter((action) => allows(action, study)), ["resume", "delete"]);
});

test("an action is one request", async () => {
  const { changes, study } = open({}, { [`${STUDY}/pause`]: "{}" });
  await perform("pause", study);
  assert.deepEqual(changes, [["POST", `${STUDY}/pause`]]);
});

test("a running study is cancelled, and deleted as soon as its worker has stopped", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  const answers = { [`${STUDY}/cancel`]: "{}", [STUDY]: 409 };
  const { changes, study } = open({}, answers);
  let over = false;
  const deletion = perform("delete", study).then(() => {
    over = true;
  });
  await settle();
  assert.deepEqual(changes, [["POST", `${STUDY}/cancel`], ["DELETE", STUDY]]);
  answers[STUDY] = { status: 204 };
  mock.timers.tick(1000);
  await deletion;
  mock.timers.reset();
  assert.equal(over, true);
  assert.equal(changes.length, 3);
});

test("a study that has ended is not cancelled first", async () => {
  const { changes, study } = open({ state: "complete", actions: "delete" }, { [STUDY]: { status: 204 } });
  await perform("delete", study);
  assert.deepEqual(changes, [["DELETE", STUDY]]);
});

test("a refusal is not tried again", async () => {
  const { changes, study } = open({ state: "complete", actions: "delete" }, { [STUDY]: 403 });
  await assert.rejects(perform("delete", study), { status: 403 });
  assert.equal(changes.length, 1);
});
