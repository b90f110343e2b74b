// Shortcuts: single keys, never while text is typed, all of them listed in the help dialog.

import { useEffect } from "preact/hooks";
import { Dialog } from "./parts/dialog.tsx";
import { fleetHash, type Route, TABLE_VIEWS, type TableViewName, tableHash } from "./route.ts";

const VIEW_KEYS: Record<string, TableViewName> = {
  o: "overview",
  m: "map",
  t: "timeline",
  p: "plans",
  i: "indexes",
  s: "logstore",
  d: "published",
  l: "locks",
  r: "runs",
};

const MAP_KEYS: [string, string][] = [
  ["← →", "to the segment before or after; with Shift: move the range"],
  ["↑ ↓", "to the segment above or below"],
  ["+ −", "zoom in and out"],
  ["0", "the whole range"],
  ["Enter", "zoom to the selected segment, down to its row groups"],
  ["[ ]", "the version before or after"],
  ["Space", "replay"],
  ["Esc", "let go of the segment"],
];

export function useShortcuts(route: Route, help: () => void): void {
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      if (document.querySelector("dialog[open]")) return;
      if (act(event.key, route, help)) event.preventDefault();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, [route]);
}

function act(key: string, route: Route, help: () => void): boolean {
  const view = VIEW_KEYS[key];
  if (key === "?") help();
  else if (key === "/") return focusSearch();
  else if (key === "f") location.hash = fleetHash();
  else if (view && route.page === "table") location.hash = tableHash(route.table, view);
  else return false;
  return true;
}

function focusSearch(): boolean {
  const input = document.querySelector<HTMLInputElement>("[data-shortcut=search]");
  input?.focus();
  input?.select();
  return input !== null;
}

function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof Element &&
    target.closest("input, select, textarea, [contenteditable]") !== null
  );
}

export function Help({ close }: { close: () => void }) {
  const views = Object.entries(VIEW_KEYS).map(([key, view]): [string, string] => [
    key,
    TABLE_VIEWS[view],
  ]);
  return (
    <Dialog title="Keyboard" close={close}>
      <div class="keys">
        <Keys
          title="Everywhere"
          keys={[
            ["f", "Fleet"],
            ["/", "Search"],
            ["?", "This help"],
          ]}
        />
        <Keys title="In a table" keys={views} />
        <Keys title="In the segment map" keys={MAP_KEYS} />
      </div>
    </Dialog>
  );
}

function Keys({ title, keys }: { title: string; keys: [string, string][] }) {
  return (
    <section>
      <h3>{title}</h3>
      <dl>
        {keys.map(([key, meaning]) => (
          <div key={key}>
            <dt>
              {key.split(" ").map((each) => (
                <kbd key={each}>{each}</kbd>
              ))}
            </dt>
            <dd>{meaning}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}
