// Before anything is drawn: light or dark as the person chose, else as the system has it.
"use strict";
try {
  const chosen = localStorage.getItem("theme");
  if (chosen === "light" || chosen === "dark") {
    document.documentElement.dataset.theme = chosen;
  }
} catch {
  // a browser that keeps nothing goes by the system
}
