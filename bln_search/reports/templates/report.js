"use strict";
// Draws every chart of the page with the colours of the page, light or dark; for paper, light.
(() => {
  const FIT = { responsive: true, displayModeBar: false };
  const places = [...document.querySelectorAll(".chart")].map((chart) => ({
    plot: chart.querySelector(".plot"),
    figure: JSON.parse(chart.querySelector(".figure").textContent),
  }));

  // What a variable of the style sheet comes to.
  function colour(name) {
    const probe = document.createElement("span");
    probe.style.color = `var(${name})`;
    document.body.append(probe);
    const found = getComputedStyle(probe).color;
    probe.remove();
    return found;
  }

  function themed(layout) {
    const line = colour("--line");
    const axis = { gridcolor: line, zerolinecolor: line, linecolor: line };
    return {
      ...layout,
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: colour("--text"), family: getComputedStyle(document.body).fontFamily, size: 13 },
      xaxis: { ...axis, ...layout.xaxis },
      yaxis: { ...axis, ...layout.yaxis },
    };
  }

  function draw({ plot, figure }) {
    plot.classList.add("drawn");
    plot.style.height = figure.layout.height ? `${figure.layout.height}px` : "";
    window.Plotly.react(plot, figure.data, themed(figure.layout), FIT);
  }

  // One after another, so that the page can be read and scrolled meanwhile.
  let turn = 0;
  function drawInTurn() {
    turn += 1;
    const mine = turn;
    const waiting = [...places];
    const next = () => {
      if (mine === turn && waiting.length) {
        draw(waiting.shift());
        setTimeout(next);
      }
    };
    next();
  }

  drawInTurn();
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawInTurn);
  window.addEventListener("beforeprint", () => {
    turn += 1;
    document.documentElement.dataset.printed = "yes";
    places.forEach(draw);
  });
  window.addEventListener("afterprint", () => {
    delete document.documentElement.dataset.printed;
    drawInTurn();
  });
})();
