"""What a page runs: it draws its charts, and draws them again where light turns dark, or for paper."""

from __future__ import annotations

# On paper a chart is as wide as an A4 page between its margins: 178 mm at 96 dots an inch.
SCRIPT = """
(() => {
  "use strict";
  const read = (name) => JSON.parse(document.getElementById(name).textContent);
  const themes = read("themes");
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const boxes = [...document.querySelectorAll("[data-chart]")];
  const config = {responsive: true, displayModeBar: false, doubleClick: "reset"};
  const narrow = (figure) => {
    // A legend of one column pushes what is drawn down: give it back its height.
    const named = figure.data.filter((trace) => trace.name && trace.showlegend !== false).length;
    const isNamed = figure.layout.showlegend !== false && named > 1;
    if (isNamed) figure.layout.height = (figure.layout.height || 420) + 18 * named;
    figure.layout.font = {size: 11};
  };
  const draw = (isPaper) => {
    for (const box of boxes) {
      const figure = read(box.dataset.chart);
      figure.layout.template = themes[dark.matches && !isPaper ? "dark" : "light"];
      if (isPaper) figure.layout.width = 672;
      else if (box.clientWidth < 520) narrow(figure);
      Plotly.react(box, figure.data, figure.layout, config);
    }
  };
  draw(false);
  dark.addEventListener("change", () => draw(false));
  window.addEventListener("beforeprint", () => draw(true));
  window.addEventListener("afterprint", () => draw(false));
})();
"""
