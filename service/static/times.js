// Moments in the reader's zone, or the time since then.

const format = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const zone = new Intl.DateTimeFormat(undefined, { timeZoneName: "short" });
const relative = new Intl.RelativeTimeFormat("en", { numeric: "always", style: "short" });
const UNITS = [["day", 86400], ["hour", 3600], ["minute", 60]];

export function localTime(moment) {
  const part = zone.formatToParts(moment).find((one) => one.type === "timeZoneName");
  return `${format.format(moment)} ${part ? part.value : ""}`.trim();
}

export function timeSince(moment, now = new Date()) {
  const seconds = (now - moment) / 1000;
  const unit = UNITS.find(([, size]) => seconds >= size);
  return unit ? relative.format(-Math.floor(seconds / unit[1]), unit[0]) : "just now";
}

export function localise(root) {
  for (const one of root.querySelectorAll("time[datetime]")) {
    const moment = new Date(one.dateTime);
    if (one.dataset.relative === undefined) {
      one.title = one.textContent;
      one.textContent = localTime(moment);
    } else {
      one.title = localTime(moment);
      one.textContent = timeSince(moment);
    }
  }
}
