// What is lost when studies are paused, cancelled or deleted, in words.

const SHOWN_NAMES = 5;

function count(number, one, many) {
  return `${number} ${number === 1 ? one : many}`;
}

export function studies(number) {
  return count(number, "study", "studies");
}

function sum(rows, name) {
  return rows.reduce((total, row) => total + Number(row.dataset[name]), 0);
}

export function names(rows) {
  const shown = rows.slice(0, SHOWN_NAMES).map((row) => row.dataset.name);
  const more = rows.length - shown.length;
  return shown.join(", ") + (more > 0 ? ` and ${more} more` : "");
}

// The question before an action: title, sentences and button; null where nothing is lost.
export function lossOf(action, rows) {
  const running = sum(rows, "running");
  const stopped = running && `${count(running, "running trial is", "running trials are")} stopped: the epochs so far are lost.`;
  if (action === "delete") {
    const active = rows.filter((row) => row.dataset.state === "running").length;
    const ended = sum(rows, "ended");
    return {
      title: `Delete ${studies(rows.length)}?`,
      text: [
        names(rows),
        ended
          ? `The results of ${count(ended, "trial", "trials")} and the trained networks are deleted for good.`
          : "No trial has a result yet.",
        active && `${studies(active)} of these ${active === 1 ? "runs" : "run"} now and will be cancelled first.`,
        stopped,
      ],
      button: `Delete ${studies(rows.length)}`,
    };
  }
  if (action === "cancel") {
    const waiting = sum(rows, "waiting");
    return {
      title: `Cancel ${studies(rows.length)}?`,
      text: [
        names(rows),
        stopped,
        waiting && `${count(waiting, "waiting trial is", "waiting trials are")} not run.`,
        "Finished trials are kept, and a cancelled study can be resumed.",
      ],
      button: `Cancel ${studies(rows.length)}`,
    };
  }
  if (action === "pause" && running) {
    return {
      title: `Pause ${studies(rows.length)}?`,
      text: [names(rows), stopped, "These trials start again when the study is resumed."],
      button: `Pause ${studies(rows.length)}`,
    };
  }
  return null;
}
