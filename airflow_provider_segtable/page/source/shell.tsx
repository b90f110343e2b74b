// The frame of every view: where one is, the views of a table, how fresh the page is, and help.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ActionDialogs } from "./actions.tsx";
import { address, useAnswer, useClock, watch } from "./answers.ts";
import type { AllowedActions, Session } from "./api.ts";
import { Help, useShortcuts } from "./keys.tsx";
import { setInAirflow } from "./parts/author.tsx";
import { Chip } from "./parts/marks.tsx";
import { Empty, Failed } from "./parts/states.tsx";
import {
  fleetHash,
  hashOf,
  type Route,
  TABLE_VIEWS,
  type TableViewName,
  tableHash,
  useRoute,
} from "./route.ts";
import { AllowedContext } from "./session.ts";
import { FleetView } from "./views/fleet.tsx";
import { IndexesView } from "./views/indexes.tsx";
import { PlansView } from "./views/plans.tsx";
import { RunsView } from "./views/runs.tsx";
import { SegmentMapView } from "./views/segment_map.tsx";
import { LocksView, LogStoreView, PublishedView } from "./views/services.tsx";
import { TableOverview } from "./views/table.tsx";
import { TimelineView } from "./views/timeline.tsx";

export function Shell() {
  const route = useRoute();
  const [help, setHelp] = useState(false);
  const asked = useAnswer<Session>("api/session");
  const allowed = useAllowedActions(route, asked.data);
  useClock(15_000);
  watch(route.page === "table" ? route.table : "");
  setInAirflow(asked.data?.airflow ?? false);
  useShortcuts(route, () => setHelp(true));
  useTitle(route);
  const blocked =
    asked.failure !== null && [401, 403].includes(asked.failure.status) && asked.data === null;
  return (
    <AllowedContext.Provider value={allowed}>
      <button type="button" class="skip" onClick={toMain}>
        Skip to the content
      </button>
      <Top route={route} session={asked.data} help={() => setHelp(true)} />
      {route.page === "table" && <Tabs table={route.table} view={route.view} />}
      <main id="main" tabIndex={-1} class={route.page === "table" ? route.view : route.page}>
        {blocked && asked.failure ? (
          <Failed failure={asked.failure} what="page" again={asked.again} />
        ) : (
          <View key={keyOf(route)} route={route} />
        )}
      </main>
      <ActionDialogs />
      {help && <Help close={() => setHelp(false)} />}
    </AllowedContext.Provider>
  );
}

const NOTHING: ReadonlySet<string> = new Set();

function useAllowedActions(route: Route, session: Session | null): ReadonlySet<string> {
  const table = route.page === "table" && session && !session.read_only ? route.table : null;
  const asked = useAnswer<AllowedActions>(
    table === null ? null : address("api/actions", { table }),
  );
  return useMemo(() => {
    if (table === null || asked.data === null) return NOTHING;
    return new Set(asked.data.actions.filter((each) => each.allowed).map((each) => each.name));
  }, [table, asked.data]);
}

function toMain(): void {
  document.getElementById("main")?.focus();
}

function keyOf(route: Route): string {
  return route.page === "table" ? `${route.view} ${route.table}` : route.page;
}

function View({ route }: { route: Route }) {
  if (route.page === "fleet") return <FleetView route={route} />;
  if (route.page === "runs") return <RunsView route={route} table={null} />;
  if (route.page === "table") return <TableViews route={route} />;
  return (
    <Empty
      action={
        <a class="button" href={fleetHash()}>
          Fleet
        </a>
      }
    >
      <h1 class="visually-hidden">Nothing here</h1>There is no view at {route.path}.
    </Empty>
  );
}

function TableViews({ route }: { route: Extract<Route, { page: "table" }> }) {
  const { table } = route;
  switch (route.view) {
    case "overview":
      return <TableOverview table={table} />;
    case "map":
      return <SegmentMapView route={route} />;
    case "timeline":
      return <TimelineView route={route} />;
    case "plans":
      return <PlansView table={table} />;
    case "indexes":
      return <IndexesView route={route} />;
    case "logstore":
      return <LogStoreView table={table} />;
    case "published":
      return <PublishedView table={table} />;
    case "locks":
      return <LocksView table={table} />;
    case "runs":
      return <RunsView route={route} table={table} />;
  }
}

function Top({
  route,
  session,
  help,
}: {
  route: Route;
  session: Session | null;
  help: () => void;
}) {
  return (
    <header class="top">
      <nav class="where" aria-label="Place">
        <a
          href={fleetHash()}
          {...(route.page === "fleet" ? { "aria-current": "page" as const } : {})}
        >
          {session?.fleet ? `Fleet ${session.fleet}` : "Fleet"}
        </a>
        {route.page === "table" ? (
          <>
            <span class="faint" aria-hidden="true">
              /
            </span>
            <h1>
              <TableName name={route.table} />
            </h1>
          </>
        ) : (
          <a href="#/runs" {...(route.page === "runs" ? { "aria-current": "page" as const } : {})}>
            Runs
          </a>
        )}
      </nav>
      <div class="beside">
        {session?.read_only && (
          <span title="This page only shows; nothing can be changed from it">
            <Chip tone="faint">read-only</Chip>
          </span>
        )}
        {session?.user && <span class="muted user">{session.user}</span>}
        <button
          type="button"
          class="quiet"
          onClick={help}
          aria-label="Keyboard shortcuts"
          title="Keyboard shortcuts (?)"
        >
          ?
        </button>
      </div>
    </header>
  );
}

// The folders of a name are quieter than the name; a long one breaks at its slashes.
function TableName({ name }: { name: string }) {
  const parts = name.split("/");
  return (
    <>
      {parts.map((part, n) => (
        <span key={n} class={n < parts.length - 1 ? "muted" : ""}>
          {part}
          {n < parts.length - 1 && (
            <>
              /<wbr />
            </>
          )}
        </span>
      ))}
    </>
  );
}

function Tabs({ table, view }: { table: string; view: TableViewName }) {
  const list = useRef<HTMLElement>(null);
  useEffect(() => {
    list.current
      ?.querySelector("[aria-current]")
      ?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [view]);
  return (
    <nav class="tabs" aria-label="Views of the table" ref={list}>
      {(Object.keys(TABLE_VIEWS) as TableViewName[]).map((each) => (
        <a
          key={each}
          href={tableHash(table, each)}
          {...(each === view ? { "aria-current": "page" as const } : {})}
        >
          {TABLE_VIEWS[each]}
        </a>
      ))}
    </nav>
  );
}

function useTitle(route: Route): void {
  const hash = hashOf({ ...route, parameters: {} } as Route);
  const before = useRef(hash);
  useEffect(() => {
    document.title = title(route);
    if (before.current === hash) return;
    before.current = hash;
    scrollTo(0, 0);
    document.getElementById("main")?.focus({ preventScroll: true });
  }, [hash]);
}

function title(route: Route): string {
  if (route.page === "table") return `${route.table} · ${TABLE_VIEWS[route.view]} · Lake`;
  return route.page === "runs" ? "Runs · Lake" : "Lake";
}
