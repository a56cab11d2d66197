// The field catalog as a form: rows are added and taken out.
"use strict";

(() => {
  const rows = document.getElementById("field-rows");
  if (!rows) return;
  const blank = document.getElementById("blank-row"); // not for those who may only look

  function number() {
    [...rows.children].forEach((row, index) => {
      for (const part of row.querySelectorAll("[aria-label]"))
        part.setAttribute("aria-label", part.getAttribute("aria-label").replace(/\d+$/, index + 1));
    });
  }

  document.getElementById("add-field")?.addEventListener("click", () => {
    rows.append(blank.content.cloneNode(true));
    number();
    rows.lastElementChild.querySelector("input").focus();
  });
  rows.addEventListener("click", (event) => {
    const button = event.target.closest("[data-remove]");
    if (!button) return;
    const row = button.closest("li");
    const next = row.nextElementSibling || row.previousElementSibling;
    row.remove();
    number();
    (next?.querySelector("input") || document.getElementById("add-field")).focus();
  });
  if (location.hash === "#fields") document.getElementById("fields").open = true;
  for (const link of document.querySelectorAll('a[href$="#fields"]'))
    link.addEventListener("click", () => (document.getElementById("fields").open = true));
})();
