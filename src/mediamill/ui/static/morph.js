// Parts that htmx fetched are worked into what is there, instead of taking its place: the focus, an open menu, pictures
// and choices that were not sent yet stay as they are. What has data-kept is left alone: it tells of what was sent.
"use strict";

(() => {
  document.documentElement.classList.add("scripts");
  const KEPT = new Set(["open"]); // the reader's, not the server's

  const alike = (one, other) => one.nodeType === other.nodeType && one.nodeName === other.nodeName && !one.id;

  function morphAttributes(shown, fresh) {
    for (const { name, value } of fresh.attributes) {
      if (!KEPT.has(name) && shown.getAttribute(name) !== value) shown.setAttribute(name, value);
    }
    for (const { name } of [...shown.attributes]) {
      if (!KEPT.has(name) && !fresh.hasAttribute(name)) shown.removeAttribute(name);
    }
  }

  function morphChildren(shown, fresh) {
    let at = shown.firstChild;
    for (const want of [...fresh.childNodes]) {
      const known = want.id && [...shown.children].find((child) => child.id === want.id);
      const match = known || (at && !want.id && alike(at, want) ? at : null);
      if (!match) {
        shown.insertBefore(document.importNode(want, true), at);
        continue;
      }
      if (match !== at) shown.insertBefore(match, at);
      morph(match, want);
      at = match.nextSibling;
    }
    while (at) {
      const next = at.nextSibling;
      at.remove();
      at = next;
    }
  }

  function morph(shown, fresh) {
    if (shown.isEqualNode(fresh)) return;
    if (shown.nodeType !== Node.ELEMENT_NODE) {
      shown.nodeValue = fresh.nodeValue;
      return;
    }
    if ("kept" in shown.dataset) return;
    morphAttributes(shown, fresh);
    morphChildren(shown, fresh);
  }

  document.body.addEventListener("htmx:oobBeforeSwap", (event) => {
    const { target, fragment } = event.detail;
    if (!("morph" in target.dataset) || !fragment.firstElementChild) return;
    event.detail.shouldSwap = false;
    morph(target, fragment.firstElementChild);
    target.dispatchEvent(new Event("morphed", { bubbles: true }));
  });
})();
