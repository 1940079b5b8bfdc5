"use strict";
// Asks for the parts of this page every two seconds while it is seen, and exchanges those that changed.

const PAUSE = 2000;
const lost = document.getElementById("lost");

function exchange(part) {
  const section = document.getElementById(part.name);
  if (!section) {
    location.reload();  // a run that could not be read has fewer parts
    return;
  }
  if (section.dataset.digest === part.digest) return;
  const focused = section.contains(document.activeElement) && document.activeElement.getAttribute("href");
  section.innerHTML = part.html;
  section.dataset.digest = part.digest;
  if (focused) [...section.querySelectorAll("a")].find((link) => link.getAttribute("href") === focused)?.focus();
}

function say(words) {
  if (lost.textContent !== words) lost.textContent = words;
}

async function refresh() {
  const reply = await fetch(document.body.dataset.live);
  if (!reply.ok) throw new Error(reply.status);
  (await reply.json()).forEach(exchange);
}

async function live() {
  if (document.visibilityState === "visible") {
    try {
      await refresh();
      say("");
    } catch {
      say("The dashboard does not answer; this page may be out of date.");
    }
  }
  setTimeout(live, PAUSE);
}

setTimeout(live, PAUSE);
