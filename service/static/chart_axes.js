// Axes of a chart in a narrow window: titles in several lines, and labels that leave room for the data.

const FONT = { size: 11 };
const X_TITLE_LETTERS = 28;
const Y_TITLE_LETTERS = 42;
const LABEL_LETTERS = 17;

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

// Long labels with their first and last letters; all labels unchanged if two would become equal.
export function shortened(labels, letters = LABEL_LETTERS) {
  const ends = Math.floor((letters - 1) / 2);
  const short = labels.map((label) => (label.length > letters ? `${label.slice(0, letters - 1 - ends)}…${label.slice(-ends)}` : label));
  return new Set(short).size === new Set(labels).size ? short : labels;
}

function titled(axis, letters) {
  return { ...axis, title: { ...axis?.title, text: inLines(axis?.title?.text, letters), font: FONT } };
}

// The categories of the data keep their names, which hover texts show; only the ticks are shortened.
function labelled(axis, data) {
  if (axis?.ticktext) {
    return { ticktext: shortened(axis.ticktext.map(String)) };
  }
  if (axis?.type !== "category") {
    return {};
  }
  const categories = [...new Set(data.flatMap((trace) => trace.y ?? []).map(String))];
  return { tickmode: "array", tickvals: categories, ticktext: shortened(categories) };
}

export function narrowAxes({ data, layout }) {
  return {
    xaxis: titled(layout.xaxis, X_TITLE_LETTERS),
    yaxis: { ...titled(layout.yaxis, Y_TITLE_LETTERS), ...labelled(layout.yaxis, data) },
  };
}
