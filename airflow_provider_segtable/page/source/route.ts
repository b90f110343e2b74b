// Where the reader is: kept in the hash, so that deep links, the back button and an iframe work.
//
//   #/                              the fleet
//   #/runs                          runs of the fleet
//   #/table/<encoded name>/<view>   a view of a table
//
// Parameters follow a "?". A view keeps there what a link has to reproduce: search, range, version.

import { useEffect, useState } from "preact/hooks";

export const TABLE_VIEWS = {
  overview: "Overview",
  map: "Segment map",
  timeline: "Timeline",
  plans: "Plans and reasons",
  indexes: "Indexes",
  logstore: "Log store",
  published: "Published",
  locks: "Locks and waits",
  runs: "Runs",
} as const;

export type TableViewName = keyof typeof TABLE_VIEWS;
export type Parameters = Record<string, string>;

export type Route =
  | { page: "fleet"; parameters: Parameters }
  | { page: "runs"; parameters: Parameters }
  | { page: "table"; table: string; view: TableViewName; parameters: Parameters }
  | { page: "missing"; path: string; parameters: Parameters };

export function parsed(hash: string): Route {
  const [path = "", query = ""] = split(hash.replace(/^#/, "") || "/");
  const parameters = Object.fromEntries(new URLSearchParams(query));
  const parts = path.split("/").filter(Boolean);
  const [first, name, view = "overview"] = parts;
  if (!first) return { page: "fleet", parameters };
  if (first === "runs" && !name) return { page: "runs", parameters };
  const table = name === undefined ? null : decoded(name);
  if (first === "table" && table && isView(view) && parts.length <= 3)
    return { page: "table", table, view, parameters };
  return { page: "missing", path, parameters };
}

export function hashOf(route: Route): string {
  const query = new URLSearchParams(
    Object.entries(route.parameters).filter(([, value]) => value !== ""),
  ).toString();
  return `#${pathOf(route)}${query ? `?${query}` : ""}`;
}

export function fleetHash(parameters: Parameters = {}): string {
  return hashOf({ page: "fleet", parameters });
}

export function tableHash(
  table: string,
  view: TableViewName = "overview",
  parameters: Parameters = {},
): string {
  return hashOf({ page: "table", table, view, parameters });
}

function pathOf(route: Route): string {
  switch (route.page) {
    case "fleet":
      return "/";
    case "runs":
      return "/runs";
    case "table": {
      const view = route.view === "overview" ? "" : `/${route.view}`;
      return `/table/${encodeURIComponent(route.table)}${view}`;
    }
    case "missing":
      return route.path;
  }
}

function split(path: string): [string, string] {
  const at = path.indexOf("?");
  return at < 0 ? [path, ""] : [path.slice(0, at), path.slice(at + 1)];
}

function decoded(text: string): string | null {
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
}

function isView(name: string): name is TableViewName {
  return Object.hasOwn(TABLE_VIEWS, name);
}

export function go(route: Route): void {
  location.hash = hashOf(route);
}

// Changes of parameters within a view replace the entry: back leads to the view before.
export function replaceParameters(route: Route, changes: Parameters): void {
  const next = { ...route, parameters: { ...route.parameters, ...changes } } as Route;
  const hash = hashOf(next);
  if (hash === location.hash) return;
  history.replaceState(null, "", hash);
  dispatchEvent(new HashChangeEvent("hashchange"));
}

export function useRoute(): Route {
  const [route, setRoute] = useState(() => parsed(location.hash));
  useEffect(() => {
    const follow = () => setRoute(parsed(location.hash));
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);
  return route;
}
