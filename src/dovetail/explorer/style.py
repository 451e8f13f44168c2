"""How the explorer looks: calm, light or dark, one column on a telephone; the colours are those of the charts."""

from __future__ import annotations

from dovetail.report.charts.themes import FONT, INKS


def _inks(mode: str) -> str:
    return "".join(f"--{name}:{colour};" for name, colour in INKS[mode].items())


STYLE = f"""
:root {{ {_inks("light")} --ground:#f4f6f8; --accent:#005a8e; --on-accent:#ffffff; --good:#1b6e3c; --bad:#a3341f;
  --near:#8a5a00; color-scheme: light; }}
body.body--dark {{ {_inks("dark")} --ground:#0f1115; --accent:#7cc4f0; --on-accent:#0f1115; --good:#7bd19b;
  --bad:#ff9c86;
  --near:#f0c060; color-scheme: dark; }}
body, body.body--dark {{ margin: 0; background: var(--ground); color: var(--ink); font: 16px/1.5 {FONT};
  overflow-wrap: anywhere; }}
.nicegui-content {{ padding: 0; gap: 0; display: block; }}
.q-page-container, .q-layout {{ min-height: 0; }}
.dv h1 {{ font-size: 1.35rem; line-height: 1.3; font-weight: 650; margin: 0; letter-spacing: 0; }}
.dv h2 {{ font-size: 1.08rem; line-height: 1.35; font-weight: 650; margin: 0 0 .7rem; letter-spacing: 0; }}
.dv h3, .dv caption {{ font-size: 1rem; line-height: 1.4; font-weight: 600; margin: .9rem 0 .3rem; letter-spacing: 0; }}
.dv p {{ margin: 0 0 .6rem; }}
.dv a {{ color: var(--accent); text-underline-offset: .18em; }}
.dv :focus-visible {{ outline: 3px solid var(--accent); outline-offset: 2px; border-radius: .25rem; }}
.dv p a {{ text-decoration: underline; }}
.skip {{ position: absolute; left: -999rem; }}
.skip:focus {{ left: .5rem; top: .5rem; z-index: 9; background: var(--paper); padding: .5rem; }}
.top {{ background: var(--paper); border-bottom: 1px solid var(--line); }}
.top > div {{ max-width: 92rem; margin: 0 auto; padding: .55rem 1.25rem; display: flex; align-items: center;
  flex-wrap: wrap; gap: .4rem 1.4rem; }}
.top .brand {{ font-weight: 700; font-size: 1.1rem; color: var(--ink); text-decoration: none; }}
.top nav {{ display: flex; flex-wrap: wrap; gap: .2rem .35rem; flex: 1 1 auto; }}
.top nav a {{ padding: .35rem .7rem; border-radius: .45rem; text-decoration: none; color: var(--dim); }}
.top nav a[aria-current] {{ background: var(--ground); color: var(--ink); font-weight: 600; }}
.top nav a:hover {{ color: var(--ink); }}
.main {{ max-width: 92rem; margin: 0 auto; padding: 1rem 1.25rem; }}
.lead {{ display: flex; flex-wrap: wrap; gap: .4rem 1rem; align-items: baseline; margin-bottom: 1rem; }}
.lead p {{ margin: 0; color: var(--dim); flex: 1 1 20rem; }}
.two {{ display: grid; grid-template-columns: minmax(17rem, 21rem) minmax(0, 1fr); gap: 1.25rem; align-items: start; }}
.panel {{ background: var(--paper); border: 1px solid var(--line); border-radius: .75rem; padding: 1.1rem 1.15rem;
  margin: 0 0 1.25rem; min-width: 0; }}
.field {{ margin: 0 0 .8rem; }}
.field label, .field .label {{ display: block; font-size: .9rem; margin-bottom: .2rem; }}
.field .hint, .note {{ color: var(--dim); font-size: .86rem; }}
.pair {{ display: grid; grid-template-columns: 1fr 1fr; gap: 0 .8rem; }}
.dv select, .dv input[type=text], .dv input[type=file] {{ width: 100%; font: inherit; font-size: .95rem;
  color: var(--ink);
  background: var(--paper); border: 1px solid var(--dim); border-radius: .45rem; padding: .4rem .5rem;
  min-height: 2.4rem; }}
.dv select {{ text-overflow: ellipsis; padding-right: 1.6rem; }}
.dv ::placeholder {{ color: var(--dim); opacity: 1; }}
.dv input[type=file] {{ border-style: dashed; font-size: .85rem; color: var(--dim); }}
.dv input[type=range] {{ width: 100%; accent-color: var(--accent); height: 1.7rem; margin: 0; }}
.turn .label {{ display: flex; justify-content: space-between; gap: .6rem; font-size: .9rem; }}
.turn output {{ font-variant-numeric: tabular-nums; text-align: right; }}
.turn output b {{ font-weight: 600; color: var(--accent); }}
.row {{ display: flex; flex-wrap: wrap; gap: .6rem; align-items: center; margin: .3rem 0; }}
.dv button.act {{ font: inherit; font-weight: 600; border-radius: .5rem; padding: .5rem .95rem; cursor: pointer;
  border: 1px solid var(--accent); background: var(--accent); color: var(--on-accent); min-height: 2.5rem; }}
.dv button.act.quiet {{ background: transparent; color: var(--accent); }}
.dv button.act:disabled {{ opacity: 1; background: var(--ground); color: var(--dim); border-color: var(--line);
  cursor: default; }}
.cards {{ display: grid; grid-template-columns: repeat(6, minmax(0, 1fr)); gap: .6rem; margin: 0 0 .9rem; }}
.cards > div {{ background: var(--ground); border: 1px solid var(--line); border-radius: .6rem;
  padding: .55rem .75rem; grid-column: span 2; }}
.cards dt {{ color: var(--dim); font-size: .85rem; }}
.cards dd {{ margin: 0; }}
.cards strong {{ font-size: 1.05rem; line-height: 1.35; font-weight: 650; font-variant-numeric: tabular-nums;
  margin-right: .5rem; }}
.cards [data-key=step] strong, .cards [data-key=memory] strong {{ font-size: 1.75rem; line-height: 1.2; }}
.cards [data-key=limit] strong {{ font-size: 1.3rem; line-height: 1.3; }}
.cards .note, .cards .interval {{ display: block; margin: .1rem 0 0; }}
.cards .interval {{ font-size: .92rem; font-variant-numeric: tabular-nums; }}
[data-key=limit] .moved {{ display: block; white-space: normal; font-weight: 400; }}
.moved {{ white-space: nowrap; font-size: .95rem; font-weight: 600; color: var(--dim);
  font-variant-numeric: tabular-nums; }}
.moved.better {{ color: var(--good); }} .moved.worse {{ color: var(--bad); }} .moved.same {{ font-weight: 400; }}
.compared {{ font-size: .92rem; }}
.chips {{ display: flex; flex-wrap: wrap; gap: .35rem; list-style: none !important; padding: 0 !important;
  margin: 0 0 .8rem !important; }}
.chips li {{ border: 1px solid var(--line); border-radius: 1rem; padding: .12rem .65rem; font-size: .92rem;
  background: var(--ground); }}
.chips b {{ font-weight: 400; color: var(--dim); }} .chips span {{ font-weight: 650; }}
.chips.small {{ gap: .2rem .25rem; margin: 0 !important; }}
.chips.small li {{ padding: .02rem .45rem; font-size: .82rem; }}
.stages {{ display: flex; gap: .35rem; list-style: none; padding: 0; margin: 0 0 .3rem; }}
.stages li {{ position: relative; flex: 1 1 0; min-width: 0; border: 1px solid var(--accent); border-radius: .45rem;
  padding: .35rem .5rem; font-size: .85rem; line-height: 1.35; overflow: hidden; isolation: isolate; }}
.stages li.over {{ border-color: var(--bad); }}
.stages li + li::before {{ content: ""; }}
.stages i {{ position: absolute; inset: auto 0 0 0; background: var(--accent); opacity: .13; z-index: -1; }}
.stages li.over i {{ background: var(--bad); opacity: .2; }}
.stages b, .stages span {{ display: block; }} .stages b {{ font-weight: 600; }}
.stages.many {{ display: grid; grid-template-columns: repeat(auto-fill, minmax(6.2rem, 1fr)); }}
.stages.many li {{ font-size: .8rem; }}
.stages .gap {{ border-style: dashed; color: var(--dim); align-self: center; text-align: center; }}
.stages.few {{ max-width: 100%; }} .stages.few li:only-child {{ max-width: 22rem; }}
.pipeline .note {{ margin: 0 0 .5rem; }}
.summary h2 {{ font-size: 1.2rem; margin-bottom: .4rem; }}
.stale {{ opacity: .38; filter: grayscale(1); }}
.old {{ border-left: .35rem solid var(--near); padding: .3rem .7rem; background: var(--ground); font-weight: 600; }}
.busy progress {{ max-width: 40rem; }}
.busy p {{ margin: 0 0 .3rem; color: var(--ink); }}
#busy {{ padding: .6rem .8rem; border: 1px solid var(--accent); border-radius: .6rem; margin: 0 0 .7rem; }}
.tabs {{ display: flex; flex-wrap: wrap; gap: .2rem; border-bottom: 1px solid var(--line); margin: 0 0 1rem; }}
.dv button.tab {{ font: inherit; background: none; border: 0; border-bottom: 3px solid transparent; cursor: pointer;
  padding: .45rem .8rem; color: var(--dim); }}
.dv button.tab[aria-selected=true] {{ color: var(--ink); border-bottom-color: var(--accent); font-weight: 600; }}
.degrees {{ display: grid; grid-template-columns: repeat(3, 1fr); gap: 0 .6rem; }}
.degrees .field {{ margin-bottom: .5rem; }}
.degrees .field:has(#plan-recompute), .degrees .field:has(#plan-schedule) {{ grid-column: span 2; }}
.beside {{ display: grid; grid-template-columns: minmax(0, 1fr) minmax(22rem, 30rem); gap: 1.25rem;
  align-items: start; }}
.beside > .wide {{ order: 1; min-width: 0; }} .beside > .stick {{ order: 2; position: sticky; top: .75rem; }}
.stick .cards {{ grid-template-columns: 1fr 1fr; }} .stick .cards > div {{ grid-column: span 1; }}
.stick .cards > :is([data-key=limit], [data-key=energy]) {{ grid-column: span 2; }}
.sliders {{ display: grid; grid-template-columns: repeat(auto-fill, minmax(16rem, 1fr)); gap: .1rem 1.5rem; }}
.keeping {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(13rem, 1fr)); gap: 0 .8rem; }}
.keeping .row, .keeping .note {{ grid-column: 1 / -1; }}
.code {{ background: var(--ground); border: 1px solid var(--line); border-radius: .5rem; padding: .8rem;
  margin: .5rem 0; overflow: auto; max-height: 28rem; font: 13px/1.5 ui-monospace, Menlo, Consolas, monospace;
  white-space: pre; }}
.files .note, .strip p {{ margin-bottom: 0; }} .strip {{ margin-bottom: 1rem; }}
.sr {{ position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }}
.dv button.act.small {{ min-height: 1.8rem; padding: .1rem .6rem; font-size: .88rem; font-weight: 500; }}
.designs {{ width: 100%; table-layout: fixed; }} .designs thead th {{ font-size: 1.05rem; color: var(--ink); }}
.designs thead th:first-child {{ width: 13rem; color: var(--dim); font-size: .9rem; }}
.designs td {{ overflow-wrap: anywhere; }} .designs td b {{ font-weight: 600; font-variant-numeric: tabular-nums; }}
.designs td .note {{ display: block; }}
.designs .group th {{ color: var(--dim); font-weight: 600; padding-top: .9rem; }}
.overlaid {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(min(28rem, 100%), 1fr)); gap: 0 1.25rem;
  align-items: start; }}
.rename {{ display: grid; grid-template-columns: minmax(0, 24rem) auto; gap: .8rem; align-items: end;
  justify-content: start; }}
.rename .act {{ margin-bottom: .8rem; }}
.triple {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(12rem, 1fr)); gap: 0 .8rem;
  max-width: 48rem; }}
.baseline {{ max-width: 24rem; }}
.strip {{ display: flex; gap: 1rem; align-items: baseline; }}
.save {{ display: flex; flex-wrap: wrap; gap: 0 .8rem; align-items: flex-start; justify-content: space-between; }}
.save details[open] {{ flex: 1 1 100%; min-width: 0; }}
.files {{ display: flex; gap: .3rem; align-items: center; margin: .2rem 0; }}
.files .note {{ margin-right: .2rem; }}
.dv button.file {{ font: inherit; font-size: .85rem; min-height: 1.8rem; padding: .1rem .55rem; cursor: pointer;
  color: var(--accent); background: transparent; border: 1px solid var(--line); border-radius: .45rem; }}
.dv button.file:hover {{ border-color: var(--accent); }}
.panel > figure:first-child > :is(h2, h3), .panel > .nicegui-html:first-child > h3 {{ margin-top: 0; }}
.panel > figure:last-child, .panel > :last-child > figure:last-child {{ margin-bottom: 0; }}
.panel > p:last-child, .panel > .row:last-child {{ margin-bottom: 0; }}
.remedies {{ display: flex; flex-wrap: wrap; gap: .5rem; align-items: center; }}
.remedies p {{ flex: 1 1 100%; margin: 0; }}
.stack {{ width: 100%; }}
.stack tbody tr[data-place] {{ cursor: pointer; }}
.stack tbody tr[data-place]:hover > * {{ background: var(--ground); }}
.stack .plan {{ min-width: 15rem; }} .stack .name {{ white-space: nowrap; }}
.stack .use {{ text-align: right; padding-right: 0; }}
.stack .behind .note, .stack .plan > .note {{ display: block; }}
.stack thead button {{ font: inherit; color: inherit; background: none; border: 0; padding: 0; cursor: pointer;
  min-height: 1.8rem; text-decoration: underline dotted; text-underline-offset: .25em; }}
.stack thead button i {{ font-style: normal; font-size: .7em; margin-left: .25em; }}
.question {{ color: var(--dim); margin: 0 0 1rem; }}
.meter {{ display: block; height: .45rem; border-radius: .3rem; background: var(--line); margin: .3rem 0 .2rem;
  overflow: hidden; }}
.meter i {{ display: block; height: 100%; background: var(--accent); }}
.meter.near i {{ background: var(--near); }} .meter.over i {{ background: var(--bad); }}
.refused {{ border: 1px solid var(--bad); border-left-width: .35rem; color: var(--ink); background: var(--paper);
  border-radius: .5rem; padding: .7rem .9rem; margin: 0 0 1.25rem; }}
.refused::before {{ content: "Cannot: "; font-weight: 650; color: var(--bad); }}
.dv progress {{ width: 100%; height: .7rem; appearance: none; border: 0; border-radius: .35rem; background: var(--line);
  overflow: hidden; display: block; margin-bottom: .6rem; }}
.dv progress::-webkit-progress-bar {{ background: var(--line); }}
.dv progress::-webkit-progress-value {{ background: var(--accent); }}
.dv progress::-moz-progress-bar {{ background: var(--accent); }}
.scroll {{ position: relative; overflow-x: auto; margin: .5rem 0; }}
.dv table {{ border-collapse: collapse; font-size: .92rem; }}
.dv caption {{ text-align: left; padding-bottom: .3rem; }}
.dv th, .dv td {{ padding: .3rem 1.1rem .3rem 0; border-bottom: 1px solid var(--line); text-align: left;
  vertical-align: top;
  overflow-wrap: normal; }}
.dv tbody th {{ font-weight: 400; }} .dv tbody th.in {{ padding-left: 1rem; }}
.dv thead th {{ color: var(--dim); font-weight: 600; }}
.dv .r {{ text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }}
.dv .bar {{ color: var(--accent); font-size: .7rem; letter-spacing: -.02em; white-space: nowrap; }}
.dv tr.open > * {{ background: var(--ground); font-weight: 600; }}
.dv figure {{ margin: 0 0 1rem; }} .dv figcaption {{ color: var(--dim); font-size: .92rem; margin: .2rem 0 .4rem; }}
.dv details {{ margin: .4rem 0; }} .dv summary {{ cursor: pointer; color: var(--accent); width: fit-content; }}
.dv ul {{ padding-left: 1.2rem; margin: 0 0 .6rem; list-style: disc; }}
.q-loading-bar {{ display: none; }}
.nicegui-html {{ width: 100%; }}
.plot {{ height: var(--high); }}
@media (max-width: 60rem) {{
  .two {{ display: flex; flex-direction: column; align-items: stretch; gap: 0; }}
  .two > .side {{ display: contents; }}
  .first, .second, .third, .last {{ min-width: 0; max-width: 100%; }}
  .first {{ order: 1; }} .second {{ order: 2; }} .third {{ order: 3; }} .last {{ order: 4; }}
  .beside {{ display: block; }}
  .beside > .stick {{ top: 0; z-index: 5; margin: 0 -.7rem .8rem; }}
  .stick .panel {{ border-radius: 0; padding: .5rem .7rem; margin: 0; box-shadow: 0 2px 6px rgb(0 0 0 / .12); }}
  .stick .cards {{ grid-template-columns: 1fr 1fr; gap: .3rem; margin: 0; }}
  .stick .cards > div {{ grid-column: span 1; padding: .3rem .45rem; }}
  .stick .cards > [data-key=limit] {{ grid-column: span 2; }}
  .stick [data-key=limit] :is(dt, dd, .moved) {{ display: inline; margin-right: .4rem; }}
  .stick .cards > [data-key=rate], .stick .cards > [data-key=mfu], .stick .cards > [data-key=energy],
  .stick .cards .note, .stick .chips, .stick #said {{ display: none; }}
  .stick .cards [data-key] strong {{ font-size: 1.02rem; margin-right: .25rem; }}
  .stick .cards .interval {{ font-size: .76rem; }} .stick .compared {{ font-size: .82rem; margin: 0 0 .3rem; }}
  .stick h2 {{ font-size: .95rem; margin: 0 0 .2rem; }} .stick .moved {{ font-size: .85rem; }}
  .main {{ padding: .8rem .7rem; }} .top > div {{ padding: .5rem .7rem; }} .panel {{ padding: .9rem .8rem; }}
}}
@media (max-width: 40rem) {{
  .plot {{ height: calc(var(--high) + var(--legend)); }}
  .cards {{ grid-template-columns: 1fr 1fr; }} .cards > div {{ grid-column: span 1; }}
  .second .cards > [data-key=limit], .second .cards > [data-key=energy] {{ grid-column: span 2; }}
  .cards [data-key=step] strong, .cards [data-key=memory] strong {{ font-size: 1.35rem; }}
  .stages:not(.many) {{ flex-wrap: wrap; }} .stages:not(.many) li {{ flex: 1 0 6.5rem; }}
  .top nav {{ display: grid; grid-template-columns: repeat(4, auto); justify-content: space-between;
    flex: 1 1 100%; order: 3; gap: .1rem; }}
  .top nav a {{ padding: .5rem .55rem; white-space: nowrap; text-align: center; font-size: .95rem; }}
  .top > div {{ justify-content: space-between; }}
  .tabs {{ display: grid; grid-template-columns: 1fr 1fr; gap: .3rem; border-bottom: 0; }}
  .dv button.tab {{ border: 1px solid var(--line); border-radius: .5rem; background: var(--paper); min-height: 2.6rem;
    padding: .4rem; font-size: .95rem; }}
  .dv button.tab[aria-selected=true] {{ border-color: var(--accent); }}
  .dv button.file {{ min-height: 2.2rem; }}
  .wide-chart::before {{ content: "Swipe sideways for the rest."; color: var(--dim); font-size: .82rem;
    position: sticky; left: 0; }}
  .wide-chart {{ overflow-x: auto; }} .wide-chart > .plot {{ width: 46rem !important;
    height: var(--high); }}
  .stack, .stack tbody, .stack tr, .stack th, .stack td {{ display: block; }}
  .stack thead, .stack.frameworks thead {{ display: block; }}
  .stack thead tr {{ display: flex; flex-wrap: wrap; gap: 0 1rem; align-items: baseline; }}
  .stack.plans thead tr::before {{ content: "Sort by"; color: var(--dim); }}
  .stack thead th:not(:has(button)), .stack.frameworks thead {{ display: none; }}
  .stack thead th {{ border: 0; padding: 0; }} .stack thead button {{ min-height: 2.4rem; }}
  .stack tbody tr {{ display: flex; flex-wrap: wrap; gap: .25rem 1rem; align-items: baseline; padding: .7rem 0;
    border-bottom: 1px solid var(--line); position: relative; }}
  .dv .stack tbody :is(th, td) {{ border: 0; padding: 0; white-space: normal; text-align: left; position: static;
    min-width: 0; }}
  .stack .plan, .stack .name, .dv .stack tbody td[colspan] {{ flex: 1 1 100%; }}
  .stack td[data-label]::before {{ content: attr(data-label); color: var(--dim); display: block; font-size: .8rem; }}
  .stack .behind .note {{ display: inline; }}
  .stack .loses:empty {{ display: none; }} .dv .stack tbody .loses {{ flex: 1 1 55%; }}
  .dv .stack tr.open > * {{ background: none; }} .stack tr.open {{ background: var(--ground); }}
  .dv .stack tbody .use {{ margin-left: auto; }} .stack .use .act {{ min-height: 2.4rem; padding: .1rem .9rem; }}
  .designs, .designs thead, .designs tbody {{ display: block; }}
  .designs tr {{ display: grid; grid-template-columns: repeat(var(--designs), minmax(6.2rem, 1fr)); gap: 0 .5rem;
    border-bottom: 1px solid var(--line); padding: .35rem 0; }}
  .dv .designs :is(th, td) {{ border: 0; padding: 0; white-space: normal; overflow-wrap: anywhere; hyphens: auto; }}
  .dv .designs tbody th {{ grid-column: 1 / -1; position: static; color: var(--dim); font-size: .8rem; }}
  .dv .designs .group th {{ font-size: .9rem; padding-top: .6rem; }} .designs thead th:first-child {{ display: none; }}
  .designs thead th {{ font-size: .95rem; }}
  .rename {{ grid-template-columns: 1fr; gap: 0; }}
  .dv table {{ font-size: .82rem; }}
  .dv th, .dv td {{ padding-right: .7rem; }}
  .dv tbody th, .dv tbody td {{ white-space: nowrap; }}
  .dv tbody .long {{ white-space: normal; min-width: 9rem; }}
  .dv tbody th.long {{ min-width: 8.5rem; overflow-wrap: anywhere; }}
  .dv table:not(.stack) thead + tbody th {{ position: sticky; left: 0; background: var(--paper); }}
}}
"""
