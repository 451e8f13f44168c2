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
  const fitted = (figure, box) => {
    // The page's style says how high: on a narrow one higher, for a legend of one column.
    figure.layout.height = box.clientHeight;
    if (box.clientWidth < 520) figure.layout.font = {size: 11};
  };
  const draw = (isPaper) => {
    for (const box of boxes) {
      const figure = read(box.dataset.chart);
      figure.layout.template = themes[dark.matches && !isPaper ? "dark" : "light"];
      if (isPaper) figure.layout.width = 672;
      else fitted(figure, box);
      Plotly.react(box, figure.data, figure.layout, config);
    }
  };
  draw(false);
  dark.addEventListener("change", () => draw(false));
  window.addEventListener("beforeprint", () => draw(true));
  window.addEventListener("afterprint", () => draw(false));
})();
"""
