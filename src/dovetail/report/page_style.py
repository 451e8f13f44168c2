"""How a page looks: one calm column, light or dark as the reader has it, and fit for paper."""

from __future__ import annotations

from dovetail.report.charts.svg import style_of
from dovetail.report.charts.themes import FONT, INKS


def _inks(mode: str) -> str:
    return "".join(f"--{name}:{colour};" for name, colour in INKS[mode].items())


_CHART = style_of({name: f"var(--{name})" for name in INKS["light"]}, ".dv-chart")

STYLE = f"""
:root {{ color-scheme: light dark; {_inks("light")} --ground:#f4f6f8; --accent:#005a8e; }}
@media (prefers-color-scheme: dark) {{
  :root {{ {_inks("dark")} --ground:#0f1115; --accent:#7cc4f0; }}
}}
* {{ box-sizing: border-box; }}
html {{ scroll-behavior: smooth; }}
body {{ margin: 0; background: var(--ground); color: var(--ink); font: 16px/1.55 {FONT}; overflow-wrap: anywhere; }}
header, main, footer {{ max-width: 62rem; margin: 0 auto; padding: 0 1.25rem; }}
header {{ padding-top: 2.5rem; }}
h1 {{ font-size: 1.65rem; line-height: 1.25; margin: 0 0 .75rem; font-weight: 650; }}
h2 {{ font-size: 1.2rem; margin: 0 0 .6rem; font-weight: 650; }}
h3 {{ font-size: 1rem; margin: 1.1rem 0 .4rem; font-weight: 600; }}
.kind {{ margin: 0 0 .3rem; color: var(--dim); font-size: .85rem; letter-spacing: .04em; text-transform: uppercase; }}
.lead {{ font-size: 1.1rem; margin: 0 0 1.25rem; max-width: 54rem; }}
.cards {{ display: grid; gap: .75rem; margin: 0 0 1.25rem; }}
.cards {{ grid-template-columns: repeat(auto-fit, minmax(10.5rem, 1fr)); }}
.cards div {{ background: var(--paper); border: 1px solid var(--line); border-radius: .6rem; padding: .75rem .9rem; }}
.cards dt {{ color: var(--dim); font-size: .85rem; }}
.cards dd {{ margin: 0; }}
.cards strong {{ display: block; font-size: 1.3rem; line-height: 1.3; font-weight: 650; }}
.cards .note {{ font-size: .85rem; }}
.note {{ color: var(--dim); margin: .35rem 0; }}
nav ul {{ list-style: none; display: flex; flex-wrap: wrap; gap: .3rem 1.1rem; padding: 0; margin: 0 0 1.5rem; }}
a {{ color: var(--accent); text-underline-offset: .18em; }}
:focus-visible {{ outline: 3px solid var(--accent); outline-offset: 2px; border-radius: .2rem; }}
section {{ background: var(--paper); border: 1px solid var(--line); border-radius: .75rem; }}
section {{ padding: 1.25rem; margin: 0 0 1.25rem; }}
figure {{ margin: 0 0 1rem; }}
figcaption {{ color: var(--dim); font-size: .92rem; margin: .2rem 0 .4rem; }}
{_CHART}
.chart {{ width: 100%; }}
.chart svg {{ display: block; width: 100%; height: auto; }}
.chart .narrow {{ display: none; }}
.legend {{ display: flex; flex-wrap: wrap; gap: .1rem .35rem; margin: .2rem 0; }}
.legend button, .legend span {{ display: inline-flex; align-items: center; gap: .4rem; font: inherit; font-size: .82rem; }}
.legend button, .legend span {{ color: var(--ink); background: none; border: 0; padding: .15rem .4rem; }}
.legend button, .more button {{ cursor: pointer; border-radius: .3rem; }}
.legend button:hover, .more button:hover {{ background: var(--ground); }}
.legend button[aria-pressed="false"] {{ text-decoration: line-through; color: var(--dim); }}
.legend button[aria-pressed="false"] svg {{ opacity: .35; }}
.more {{ display: flex; flex-wrap: wrap; justify-content: space-between; align-items: flex-start; gap: 0 1rem; }}
.more details {{ max-width: 100%; }}
.more button {{ font: inherit; font-size: .85rem; color: var(--accent); background: none; border: 0; padding: .2rem .4rem; }}
.tip {{ position: fixed; z-index: 9; pointer-events: none; white-space: pre-line; max-width: 24rem; font-size: .85rem; }}
.tip {{ background: var(--ink); color: var(--paper); padding: .35rem .6rem; border-radius: .35rem; }}
.asked {{ padding: 1rem 1.25rem; }}
.asked dl {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(15rem, 1fr)); gap: .6rem 1.5rem; margin: 0; }}
.asked dt {{ color: var(--dim); font-size: .85rem; }}
.asked dd {{ margin: 0; }}
.fold > summary {{ color: var(--ink); list-style-position: outside; margin-left: 1rem; }}
.fold > summary h2 {{ display: inline; }}
.fold[open] > summary {{ margin-bottom: .6rem; }}
code {{ font-size: .9em; }}
details {{ margin: .4rem 0; }}
summary {{ cursor: pointer; color: var(--accent); width: fit-content; }}
.scroll {{ overflow-x: auto; margin: .5rem 0; }}
table {{ border-collapse: collapse; font-size: .92rem; }}
th, td {{ padding: .3rem 1.1rem .3rem 0; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }}
th:last-child, td:last-child {{ padding-right: 0; }}
tbody th {{ font-weight: 400; }}
tbody th.in {{ padding-left: 1rem; }}
thead th {{ color: var(--dim); font-weight: 600; }}
td, th {{ overflow-wrap: normal; }}
.r {{ text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }}
ul {{ padding-left: 1.2rem; }}
pre {{ overflow: auto; background: var(--ground); border: 1px solid var(--line); border-radius: .4rem; }}
pre {{ padding: .8rem; font-size: .82rem; max-height: 32rem; }}
footer {{ color: var(--dim); font-size: .85rem; padding-bottom: 2rem; }}
@media (max-width: 40rem) {{
  header, main, footer {{ padding-left: .75rem; padding-right: .75rem; }}
  section {{ padding: 1rem .8rem; }}
  h1 {{ font-size: 1.35rem; }}
  .chart:not(.scrolls) .wide {{ display: none; }}
  .chart .narrow {{ display: block; }}
  .chart.scrolls {{ overflow-x: auto; }}
  .chart.scrolls svg {{ width: 46rem; }}
  table {{ font-size: .82rem; }}
  th, td {{ padding-right: .7rem; }}
  tbody th, tbody td {{ white-space: nowrap; }}
  tbody .long {{ white-space: normal; min-width: 9rem; }}
  tbody th.long {{ min-width: 8.5rem; overflow-wrap: anywhere; }}
  thead + tbody th {{ position: sticky; left: 0; background: var(--paper); }}
  .cards {{ grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); }}
}}
@media print {{
  :root {{ color-scheme: light; {_inks("light")} --ground:#ffffff; --accent:#1c2126; }}
  body {{ font-size: 10.5pt; }}
  header, main, footer {{ max-width: none; padding: 0; }}
  nav, .more, .tip {{ display: none; }}
  section:has(> .fold:not([open])) {{ display: none; }}
  .chart .wide {{ display: block !important; }}
  .chart .narrow {{ display: none !important; }}
  .legend button[aria-pressed="false"] {{ display: none; }}
  svg, .legend {{ print-color-adjust: exact; -webkit-print-color-adjust: exact; }}
  section {{ border: 0; padding: 0; margin: 0 0 1.5rem; }}
  figure, tr, .cards div {{ break-inside: avoid; }}
  h2, h3 {{ break-after: avoid; }}
  .scroll {{ overflow: visible; }}
  pre {{ max-height: none; overflow: visible; white-space: pre-wrap; }}
}}
@page {{ margin: 16mm; }}
"""
