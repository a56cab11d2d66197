// A key for a new worker: shown once, in the command that uses it.
"use strict";

(() => {
  const form = document.getElementById("register");
  if (!form) return; // whoever looks may not make keys
  const command = document.getElementById("command");
  const once = document.getElementById("once");
  const fault = document.getElementById("register-fault");

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    fault.textContent = "";
    const given = new FormData(form);
    const headers = { "Content-Type": "application/json" };
    try {
      const answer = await fetch(form.action, {
        method: "POST",
        headers,
        body: JSON.stringify({ name: given.get("name").trim(), capabilities: given.get("gpu") ? { gpu: true } : {} }),
      });
      const told = await answer.json();
      if (!answer.ok) throw new Error(`${told.detail}${told.fix ? ` (${told.fix})` : ""}`);
      command.textContent = command.textContent.replace(/--key \S+/, () => `--key ${told.key}`);
      once.hidden = false;
      form.reset();
    } catch (error) {
      fault.textContent = error instanceof TypeError ? "The server does not answer." : error.message;
    }
  });
  const copy = document.getElementById("copy");
  copy.hidden = !navigator.clipboard; // browsers have it on safe lines only
  copy.addEventListener("click", async (event) => {
    await navigator.clipboard.writeText(command.textContent);
    event.target.textContent = "Copied";
  });
})();
