// What can be done with a study. The service writes the allowed actions, and what the questions need, into the data of
// an element: the row of the list, or the head of the study's page.
import { at, send } from "./api.js";

const WAIT_SECONDS = 60;

export function allows(action, study) {
  return study.dataset.actions.split(" ").includes(action);
}

export function address(study) {
  return at(`/api/v1/studies/${study.dataset.study}`);
}

// A running study is cancelled first; its worker stops within seconds.
async function remove(study) {
  if (study.dataset.state === "running" && allows("cancel", study)) {
    await send(`${address(study)}/cancel`, "POST");
  }
  for (let left = WAIT_SECONDS; ; left -= 1) {
    try {
      return await send(address(study), "DELETE");
    } catch (problem) {
      if (problem.status !== 409 || left <= 0) {
        throw problem;
      }
      await new Promise((wake) => setTimeout(wake, 1000));
    }
  }
}

export function perform(action, study) {
  return action === "delete" ? remove(study) : send(`${address(study)}/${action}`, "POST");
}
