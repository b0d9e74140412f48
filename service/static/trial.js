// Tries the failed trials of a study again, and shows the study.
import { alarm, at, send } from "./api.js";

const button = document.getElementById("retry");

button.addEventListener("click", async () => {
  button.disabled = true;
  const { study } = button.dataset;
  try {
    await send(at(`/api/v1/studies/${study}/retry-failed`), "POST");
    location.assign(at(`/studies/${study}`));
  } catch (problem) {
    alarm(problem.message);
    button.disabled = false;
  }
});
