// What scrolls by itself can be reached by keyboard. The theme wraps wide tables once a page is there, so we look again then.
const reach = () => {
  for (const wrap of document.querySelectorAll(".md-typeset__scrollwrap")) {
    if (wrap.scrollWidth > wrap.clientWidth) wrap.tabIndex = 0;
    else wrap.removeAttribute("tabindex");
  }
};
new MutationObserver(reach).observe(document.body, { childList: true, subtree: true });
window.addEventListener("resize", reach);
reach();
