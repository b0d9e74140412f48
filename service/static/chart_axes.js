// Axes of a chart in a narrow window: titles in several lines, and labels that leave room for the data.

const FONT = { size: 11 };
const X_TITLE_LETTERS = 28;
const Y_TITLE_LETTERS = 42;
const X_LABEL_LETTERS = 13;
const Y_LABEL_LETTERS = 17;

// A text in lines of at most so many letters; a longer word has a line of its own.
export function inLines(text, letters) {
  const lines = [];
  for (const word of (text ?? "").split(" ")) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + 1 + word.length <= letters) {
      lines[lines.length - 1] = `${last} ${word}`;
    } else {
      lines.push(word);
    }
  }
  return lines.join("<br>");
}

// Long lines of labels with their first and last letters; all labels unchanged if two would become equal.
export function shortened(labels, letters) {
  const ends = Math.floor((letters - 1) / 2);
  const shorten = (line) => (line.length > letters ? `${line.slice(0, letters - 1 - ends)}…${line.slice(-ends)}` : line);
  const short = labels.map((label) => label.split("<br>").map(shorten).join("<br>"));
  return new Set(short).size === new Set(labels).size ? short : labels;
}

function titled(axis, letters) {
  return { ...axis, title: { ...axis?.title, text: inLines(axis?.title?.text, letters), font: FONT } };
}

// The categories of the data keep their names, which hover texts show; only the ticks are shortened.
function labelled(axis, values, letters) {
  if (axis?.ticktext) {
    return { ticktext: shortened(axis.ticktext.map(String), letters) };
  }
  if (axis?.type !== "category") {
    return {};
  }
  const categories = [...new Set(values.map(String))];
  return { tickmode: "array", tickvals: categories, ticktext: shortened(categories, letters) };
}

export function narrowAxes({ data, layout }) {
  const values = (name) => data.flatMap((trace) => trace[name] ?? []);
  return {
    xaxis: { ...titled(layout.xaxis, X_TITLE_LETTERS), ...labelled(layout.xaxis, values("x"), X_LABEL_LETTERS) },
    yaxis: { ...titled(layout.yaxis, Y_TITLE_LETTERS), ...labelled(layout.yaxis, values("y"), Y_LABEL_LETTERS) },
  };
}
