// Passkeys: logging in with one on the login page, adding one on the account page.
"use strict";
(() => {
  const bytes = (text) =>
    Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (letter) => letter.charCodeAt(0));
  const text = (buffer) =>
    btoa(String.fromCharCode(...new Uint8Array(buffer))).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");

  async function ask(url, body) {
    const answer = await fetch(url, {
      method: "POST",
      headers: { "Content-Type": "application/json", Accept: "application/json" },
      body: JSON.stringify(body),
    });
    const said = await answer.json().catch(() => ({}));
    if (!answer.ok) {
      const detail = (said.detail || "The server does not answer").replace(/\.$/, "");
      throw new Error(detail[0].toUpperCase() + detail.slice(1) + (said.fix ? ": " + said.fix + "." : "."));
    }
    return said;
  }

  const withId = (each) => ({ ...each, id: bytes(each.id) });

  function sendable(credential) {
    const response = {};
    for (const name of ["clientDataJSON", "attestationObject", "authenticatorData", "signature", "userHandle"]) {
      if (credential.response[name]) response[name] = text(credential.response[name]);
    }
    return { id: credential.id, rawId: text(credential.rawId), type: credential.type, response };
  }

  async function logIn(next) {
    const { step, options } = await ask("/login/passkey/begin", {});
    const publicKey = { ...options, challenge: bytes(options.challenge), allowCredentials: [] };
    const credential = await navigator.credentials.get({ publicKey });
    const said = await ask("/login/passkey", { step, credential: sendable(credential), next });
    location.assign(said.next);
  }

  async function add(form) {
    const { step, options } = await ask("/account/passkeys/begin", { password: form.password.value });
    const publicKey = {
      ...options,
      challenge: bytes(options.challenge),
      user: withId(options.user),
      excludeCredentials: (options.excludeCredentials || []).map(withId),
    };
    const credential = await navigator.credentials.create({ publicKey });
    await ask("/account/passkeys", { step, credential: sendable(credential), name: form.name.value });
    location.assign("/account");
  }

  async function attempt(control, fault, act) {
    control.disabled = true;
    fault.hidden = true;
    try {
      await act();
    } catch (error) {
      const known = { NotAllowedError: "No passkey was used.", InvalidStateError: "This device has a passkey for you already." };
      fault.textContent = known[error.name] || error.message;
      fault.hidden = false;
    } finally {
      control.disabled = false;
    }
  }

  if (!window.PublicKeyCredential) return;
  const fault = document.getElementById("passkey-fault");
  const button = document.getElementById("passkey-login");
  if (button) {
    document.getElementById("other-ways").hidden = false;
    button.hidden = false;
    button.addEventListener("click", () => attempt(button, fault, () => logIn(button.dataset.next)));
  }
  const form = document.getElementById("passkey-form");
  if (form) {
    form.hidden = false;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      attempt(form.querySelector("button"), fault, () => add(form.elements));
    });
  }
})();
