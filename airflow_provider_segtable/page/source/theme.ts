// Light or dark: Airflow's choice where there is one, else the system's.
//
// Airflow keeps its choice in the local storage of the same origin (`theme`: light, dark, system),
// and an iframe hears of a change by the storage event. The page itself writes nothing there.

const KEY = "theme";
const DARK = matchMedia("(prefers-color-scheme: dark)");

function chosen(): string | null {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null; // storage may be refused to an iframe
  }
}

function isDark(): boolean {
  const theme = chosen()?.replace(/^"|"$/g, "");
  return theme === "dark" || (theme !== "light" && DARK.matches);
}

const listeners = new Set<() => void>();

function apply(): void {
  document.documentElement.dataset.theme = isDark() ? "dark" : "light";
  for (const listener of listeners) listener();
}

export function followTheme(): void {
  apply();
  DARK.addEventListener("change", apply);
  addEventListener("storage", (event) => {
    if (event.key === KEY || event.key === null) apply();
  });
}

export function themeNow(): "light" | "dark" {
  return document.documentElement.dataset.theme === "dark" ? "dark" : "light";
}

// What is drawn on a canvas has to be drawn again.
export function onThemeChange(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
