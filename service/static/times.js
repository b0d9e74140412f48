// Moments in the reader's zone.

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
