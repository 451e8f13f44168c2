"""What a page runs: it says what one points at in a chart, shows or hides a part of it, and saves it as a file."""

from __future__ import annotations

# A mark says what it is in its <title>. The script takes that out while it shows it, so that no browser shows it twice.
SCRIPT = """
(() => {
  "use strict";
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  document.body.append(tip);
  const words = new WeakMap();
  const told = (mark) => {
    const title = mark.querySelector && mark.querySelector(":scope > title");
    if (title) { words.set(mark, title.textContent); title.remove(); }
    return words.get(mark);
  };
  const show = (event) => {
    const mark = event.target.closest("[data-chart] svg *");
    const text = mark && told(mark);
    tip.hidden = !text;
    if (!text) return;
    tip.textContent = text;
    const box = tip.getBoundingClientRect();
    const room = document.documentElement.clientWidth - box.width - 8;
    tip.style.left = Math.max(8, Math.min(event.clientX + 14, room)) + "px";
    tip.style.top = Math.max(8, event.clientY - box.height - 12) + "px";
  };
  document.addEventListener("pointermove", show);
  document.addEventListener("pointerdown", show);
  document.addEventListener("scroll", () => { tip.hidden = true; }, true);
  for (const button of document.querySelectorAll("[data-of]")) {
    button.addEventListener("click", () => {
      const isOn = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", isOn);
      const figure = document.getElementById(button.dataset.of);
      for (const place of button.dataset.places.split(" "))
        for (const part of figure.querySelectorAll(`[data-chart] [data-t="${place}"]`))
          part.style.display = isOn ? "" : "none";
    });
  }
  for (const button of document.querySelectorAll("[data-save]")) {
    button.addEventListener("click", () => {
      const figure = document.getElementById(button.dataset.save);
      const svg = figure.querySelector("[data-chart] .wide svg").cloneNode(true);
      const inks = getComputedStyle(document.documentElement);
      const style = document.createElementNS("http://www.w3.org/2000/svg", "style");
      const rules = document.querySelector("style").textContent.match(/\\.dv-chart [^{}]*\\{[^{}]*\\}/g).join("");
      style.textContent = rules.replace(/var\\((--[a-z]+)\\)/g, (_, name) => inks.getPropertyValue(name).trim());
      svg.prepend(style);
      svg.setAttribute("xmlns", "http://www.w3.org/2000/svg");
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([svg.outerHTML], {type: "image/svg+xml"}));
      link.download = button.dataset.save + ".svg";
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    });
  }
})();
"""
