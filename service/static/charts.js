// Charts are drawn when they come into view. Plotly is fetched then, from this service.
import { alarm, ask, at } from "./api.js";
import { narrowAxes } from "./chart_axes.js";

const FIT = { responsive: true, displayModeBar: false };
const FEW_LINES = 3;
const BRIGHT = 384;
const BLUES = { "#0072b2": "#56b4e9", "#56b4e9": "#0072b2", "0,114,178": "86,180,233", "86,180,233": "0,114,178" };
const ANY_BLUE = new RegExp(Object.keys(BLUES).join("|"), "gi");
let loading = null;

function load() {
  loading ||= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = at(`/static/plotly.js?v=${document.querySelector("[data-plotly]").dataset.plotly}`);
    script.addEventListener("load", () => resolve(window.Plotly));
    script.addEventListener("error", () => reject(new Error("the charts could not be loaded")));
    document.head.append(script);
  });
  return loading;
}

// What a variable of the style sheet comes to, light or dark.
function colour(name) {
  const probe = document.createElement("span");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

// The palette has a dark and a light blue. On a dark page they change places, so that the first series is the lighter one.
function coloured(data) {
  const [red, green, blue] = colour("--page").match(/[\d.]+/g).map(Number);
  if (red + green + blue > BRIGHT) {
    return data;
  }
  const swap = (text) => text.replaceAll(ANY_BLUE, (found) => BLUES[found.toLowerCase()]);
  return data.map((trace) => (trace.marker?.colorscale ? trace : JSON.parse(swap(JSON.stringify(trace)))));
}

function themed(figure) {
  const text = colour("--text");
  const line = colour("--line");
  const narrow = document.documentElement.clientWidth < 600;
  const { xaxis, yaxis } = narrow ? narrowAxes(figure) : figure.layout;
  const axis = { gridcolor: line, zerolinecolor: line, linecolor: line };
  return {
    ...figure.layout,
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: text, family: getComputedStyle(document.body).fontFamily, size: 13 },
    legend: { ...figure.layout.legend, ...(narrow ? { font: { size: 11 } } : {}) },
    xaxis: { ...axis, ...xaxis },
    yaxis: { ...axis, ...yaxis },
  };
}

function address(place) {
  const [path, query] = place.dataset.chart.split("?");
  return `${path}.json${query ? `?${query}` : ""}`;
}

export async function draw(place) {
  const plot = place.querySelector(".plot");
  const about = place.querySelector(".about");
  try {
    const [answer, plotly] = await Promise.all([ask(address(place)).then((one) => one.json()), load()]);
    about.textContent = answer.about;
    if (!answer.figure) {
      plot.replaceChildren();
      place.classList.add("without");
      return;
    }
    place.classList.remove("without");
    if (!plot.classList.contains("js-plotly-plot")) {
      plot.replaceChildren();
    }
    place.figure = answer.figure;
    const { height } = answer.figure.layout; // of a chart with many rows
    plot.style.height = height ? `${height}px` : "";
    await plotly.react(plot, coloured(answer.figure.data), themed(answer.figure), FIT);
    plot.classList.toggle("picks", linesOf(answer.figure) > FEW_LINES);
    highlight(plot);
    for (const button of place.querySelectorAll(".picture, .enlarge")) {
      button.disabled = false;
    }
  } catch (problem) {
    clear(place);
    about.textContent = `This chart cannot be shown: ${String(problem.message).replace(/\.$/, "")}.`;
  }
}

// Removes what was drawn, so that nothing of a failed chart stays beside its message.
function clear(place) {
  const plot = place.querySelector(".plot");
  if (plot.classList.contains("js-plotly-plot")) {
    window.Plotly.purge(plot);
    plot.classList.remove("js-plotly-plot");
  }
  plot.replaceChildren();
  delete plot.dataset.highlights; // the listeners are removed with the plot
  place.classList.add("without");
  place.figure = null;
}

function linesOf(figure) {
  return figure.data.filter((trace) => trace.type === "scatter" && trace.mode.includes("lines")).length;
}

// Of many lines the one under the pointer stands out.
function highlight(plot) {
  if (plot.dataset.highlights) {
    return;
  }
  plot.dataset.highlights = "yes";
  plot.on("plotly_hover", ({ points }) => {
    plot.classList.toggle("picking", plot.classList.contains("picks"));
    plot.querySelector(`.trace${points[0].fullData.uid}`)?.classList.add("picked");
  });
  plot.on("plotly_unhover", () => {
    plot.classList.remove("picking");
    plot.querySelectorAll(".picked").forEach((line) => line.classList.remove("picked"));
  });
}

async function enlarge(place) {
  const dialog = document.getElementById("enlarged");
  const plot = dialog.querySelector(".plot");
  const plotly = await load();
  dialog.querySelector("h2").textContent = place.querySelector("figcaption").firstElementChild.textContent;
  dialog.querySelector(".about").textContent = place.querySelector(".about").textContent;
  dialog.showModal();
  const { height } = place.figure.layout;
  plot.style.height = height ? `${height}px` : "";
  const layout = themed(place.figure);
  if (!height) {
    delete layout.height;
  }
  await plotly.newPlot(plot, structuredClone(coloured(place.figure.data)), layout, FIT);
  plot.classList.toggle("picks", linesOf(place.figure) > FEW_LINES);
  delete plot.dataset.highlights; // a new plot has no listeners
  highlight(plot);
  dialog.addEventListener("close", () => plotly.purge(plot), { once: true });
}

async function picture(place) {
  const plotly = await load();
  const layout = { ...themed(place.figure), paper_bgcolor: colour("--page") };
  const options = { format: "png", width: 1200, height: place.figure.layout.height || 700, scale: 2 };
  const data = await plotly.toImage({ data: coloured(place.figure.data), layout }, options);
  const link = document.createElement("a");
  link.href = data;
  link.download = `${place.dataset.name}.png`;
  link.click();
}

const seen = new IntersectionObserver((entries) => {
  for (const one of entries) {
    if (one.isIntersecting) {
      seen.unobserve(one.target);
      one.target.dataset.drawn = "yes";
      draw(one.target);
    }
  }
}, { rootMargin: "200px" });

for (const place of document.querySelectorAll(".chart")) {
  seen.observe(place);
  place.querySelector(".enlarge")?.addEventListener("click", () => enlarge(place).catch((problem) => alarm(problem.message)));
  place.querySelector(".picture").addEventListener("click", () => picture(place).catch((problem) => alarm(problem.message)));
}
document.addEventListener("theme", () => {
  for (const place of document.querySelectorAll(".chart")) {
    if (place.figure) {
      load().then((plotly) => plotly.react(place.querySelector(".plot"), coloured(place.figure.data), themed(place.figure), FIT));
    }
  }
});
