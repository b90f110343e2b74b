// The fleet: a table a line, worst first, with the reason of its health in words.
//
// Search, order and page are in the address, so that "all ill tables of events/" is a link.

import { address, now, useAnswer } from "../answers.ts";
import type { FleetLines, Line } from "../api.ts";
import { ago, bytes, duration, integer, moment, readable, short, UNKNOWN } from "../format.ts";
import { Spark } from "../parts/charts.tsx";
import { type DataColumn, DataTable, type Order, Pager } from "../parts/data_table.tsx";
import { HealthMark } from "../parts/icons.tsx";
import { Chip, Facts, Time } from "../parts/marks.tsx";
import { Search } from "../parts/search.tsx";
import { Answered, Empty } from "../parts/states.tsx";
import { type Route, replaceParameters, tableHash } from "../route.ts";

const PAGE = 100;

export function FleetView({ route }: { route: Route }) {
  const { search = "", sort = "", descending = "", offset = "0" } = route.parameters;
  const query = { search, sort, descending: sort ? descending === "1" : null, offset, limit: PAGE };
  const asked = useAnswer<FleetLines>(address("api/fleet", query), {
    anyTable: true,
    keepLast: true,
  });
  const order = sort
    ? { key: sort, descending: descending === "1" }
    : { key: "worst", descending: false };
  const set = (changes: Record<string, string>) =>
    replaceParameters(route, { offset: "", ...changes });
  const onOrder = (next: Order) => set({ sort: next.key, descending: next.descending ? "1" : "" });
  return (
    <>
      <h1 class="visually-hidden">Fleet</h1>
      <Answered asked={asked} what="fleet">
        {(fleet) => (
          <>
            <Summary fleet={fleet} />
            <div class="toolbar">
              <Search
                value={search}
                change={(text) => set({ search: text })}
                label="Search tables"
              />
              <label class="inline only-narrow">
                Order
                <select
                  value={order.key}
                  onChange={(event) =>
                    set({
                      sort: event.currentTarget.value,
                      descending: isLargestFirst(event.currentTarget.value),
                    })
                  }
                >
                  {ORDERS.map(([key, title]) => (
                    <option key={key} value={key}>
                      {title}
                    </option>
                  ))}
                </select>
              </label>
              <span class="muted num" role="status">
                {search
                  ? `${integer(fleet.total)} of ${integer(fleet.totals.tables)}`
                  : integer(fleet.total)}{" "}
                tables
              </span>
            </div>
            {fleet.lines.length === 0 ? (
              <Empty>
                {search
                  ? `No table's name or group has “${search}” in it.`
                  : "There is no table below the roots yet."}
              </Empty>
            ) : (
              <DataTable
                caption="Tables, worst first"
                columns={COLUMNS}
                lines={fleet.lines}
                id={(line) => line.table}
                order={order}
                onOrder={onOrder}
                onLine={(line) => {
                  location.hash = tableHash(line.table);
                }}
              />
            )}
            <Pager
              start={Number(offset)}
              size={PAGE}
              total={fleet.total}
              show={(start) => replaceParameters(route, { offset: String(start || "") })}
            />
          </>
        )}
      </Answered>
    </>
  );
}

// Where there is no width for heads to click at.
const ORDERS: [string, string][] = [
  ["worst", "worst first"],
  ["table", "name"],
  ["bytes", "largest"],
  ["files", "most files"],
  ["small_files", "most small files"],
  ["backlog", "longest backlog"],
  ["last_run", "last run"],
];

function isLargestFirst(key: string): string {
  return key === "worst" || key === "table" ? "" : "1";
}

function Summary({ fleet }: { fleet: FleetLines }) {
  const { tables, files, bytes: size, rows } = fleet.totals;
  return (
    <Facts
      facts={[
        ["Tables", integer(tables)],
        ["Ill", <span class={fleet.ill ? "ill-text" : ""}>{integer(fleet.ill)}</span>],
        [
          "Miss their objective",
          <span class={fleet.missed ? "warning-text" : ""}>{integer(fleet.missed)}</span>,
        ],
        ["Size", bytes(size)],
        ["Rows", short(rows)],
        ["Files", short(files)],
      ]}
    />
  );
}

const COLUMNS: DataColumn<Line>[] = [
  {
    key: "worst",
    title: "Health",
    by: (line) => line.health,
    cell: (line) => <HealthMark health={line.health} />,
  },
  {
    key: "table",
    title: "Table",
    main: true,
    wide: true,
    by: (line) => line.table,
    cell: (line) => (
      <div class="two">
        <a href={tableHash(line.table)} class="name">
          {line.table}
        </a>
        <span class="reason">{readable(line.error || line.reason) || "nothing to do"}</span>
      </div>
    ),
  },
  {
    key: "misses",
    title: "Objective",
    hint: "Aims of the fleet file that the table misses",
    cell: (line) => <Objective line={line} />,
  },
  {
    key: "bytes",
    title: "Size",
    second: { key: "rows", title: "Rows" },
    number: true,
    by: (line) => line.bytes,
    cell: (line) => (
      <Two line={line} first={bytes(line.bytes)} second={`${short(line.rows)} rows`} />
    ),
  },
  {
    key: "files",
    title: "Files",
    second: { key: "small_files", title: "Small" },
    hint: "Files, and those below the small size of the table's policy",
    number: true,
    by: (line) => line.files,
    cell: (line) => (
      <Two line={line} first={integer(line.files)} second={`${integer(line.small_files)} small`} />
    ),
  },
  {
    key: "spark",
    title: "Files over time",
    drop: true,
    cell: (line) => <Spark values={line.spark.files} label={trend(line)} />,
  },
  {
    key: "backlog",
    title: "Backlog",
    hint: "How long the oldest worthwhile plan has waited",
    number: true,
    by: (line) => line.backlog_seconds,
    cell: (line) =>
      line.backlog_seconds ? duration(line.backlog_seconds) : <span class="faint">{UNKNOWN}</span>,
  },
  {
    key: "lag",
    title: "Behind",
    hint: "The longest lag of index, log store, publication and consumers",
    cell: (line) => <Lag line={line} />,
  },
  {
    key: "next_plan",
    title: "Next plan",
    drop: true,
    cell: (line) => <Next line={line} />,
  },
  {
    key: "last_run",
    title: "Last run",
    newest: true,
    by: (line) => line.last_run?.at ?? null,
    cell: (line) =>
      line.last_run ? (
        <span class="two nowrap" title={`${line.last_run.kind}, ${moment(line.last_run.at)} UTC`}>
          <Time at={line.last_run.at} age />
          <span class={line.last_run.state === "aborted" ? "ill-text" : "muted"}>
            {line.last_run.kind}
            {line.last_run.state === "completed" ? "" : `, ${line.last_run.state}`}
          </span>
        </span>
      ) : (
        <span class="faint">{UNKNOWN}</span>
      ),
  },
];

function Two({ line, first, second }: { line: Line; first: string; second: string }) {
  if (line.version === null) return <span class="faint">{UNKNOWN}</span>;
  return (
    <span class="two">
      <span>{first}</span>
      <span class="muted">{second}</span>
    </span>
  );
}

function Next({ line }: { line: Line }) {
  const when = readable(line.next_when);
  return (
    <span class="two next">
      {line.next_plan && <span>{line.next_plan}</span>}
      <span class="muted clamp" title={when}>
        {when || "none"}
      </span>
    </span>
  );
}

function Objective({ line }: { line: Line }) {
  if (!line.objective) return <span class="faint">none</span>;
  if (line.misses.length === 0) return <span class="muted">met</span>;
  return (
    <span title={line.misses.join("\n")}>
      <Chip tone="warning">
        {line.misses.length === 1 ? "1 missed" : `${line.misses.length} missed`}
      </Chip>
    </span>
  );
}

const LAG_WORDS = {
  index: "index",
  log_store: "log store",
  publication: "published",
  consumer: "consumer",
} as const;

function Lag({ line }: { line: Line }) {
  const lags = (Object.keys(LAG_WORDS) as (keyof typeof LAG_WORDS)[])
    .map((key) => [LAG_WORDS[key], line.lags[key]] as const)
    .filter((lag): lag is readonly [(typeof lag)[0], number] => lag[1] !== null)
    .sort((a, b) => b[1] - a[1]);
  const [worst] = lags;
  if (!worst) return <span class="faint">{UNKNOWN}</span>;
  const all = lags.map(([name, seconds]) => `${name}: ${duration(seconds)}`).join("\n");
  if (worst[1] < 1)
    return (
      <span class="muted nowrap" title={all}>
        up to date
      </span>
    );
  return (
    <span class="two nowrap" title={all}>
      <span>{duration(worst[1])}</span>
      <span class="muted">{worst[0]}</span>
    </span>
  );
}

function trend(line: Line): string {
  const { files } = line.spark;
  const [first, last] = [files[0] ?? 0, files[files.length - 1] ?? 0];
  return `files over time: from ${integer(first)} to ${integer(last)}, committed ${ago(line.committed, now())}`;
}
