// Rows of the list of studies, as the service renders them.
export function row(id, values = {}) {
  const study = { name: `s${id}`, state: "running", actions: "pause cancel delete", ended: 0, running: 0, waiting: 2, results: 0, progress: "10 %", ...values };
  const data = ["name", "state", "actions", "ended", "running", "waiting", "results"].map((name) => `data-${name}="${study[name]}"`);
  return `<tr data-study="${id}" ${data.join(" ")}><td class="choose"><input type="checkbox" name="study" value="${id}"></td>
    <th class="study"><a href="/studies/${id}">${study.name}</a></th><td class="at">${study.state}</td><td class="progress">${study.progress}</td>
    <td class="best">…</td><td class="best-loss">…</td></tr>`;
}

export function table(...rows) {
  return `<table id="studies" data-etag='"first"'><tbody>${rows.join("")}</tbody></table>`;
}
