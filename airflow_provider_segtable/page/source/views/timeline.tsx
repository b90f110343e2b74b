// The timeline: plans as bars from request to end, as in a trace, and below them every event.
//
// Events come in pages, the newest first. A link may open one: `?event=812`.

import { useEffect, useState } from "preact/hooks";
import type { EventInFull, EventLine, PlanBar, TaskName, Timeline } from "../api.ts";
import { ActionButton } from "../actions.tsx";
import { address, ask, now, Refused, useAnswer } from "../answers.ts";
import { bytes, duration, integer, moment, place, readable, short } from "../format.ts";
import { useWidth } from "../parts/charts.tsx";
import { type DataColumn, DataTable } from "../parts/data_table.tsx";
import { Chip, Kind, kindClass, Outside, Section, Time } from "../parts/marks.tsx";
import { anchor, linear, timeTicks } from "../parts/scales.ts";
import { Answered, Empty, Notice } from "../parts/states.tsx";
import { type Route, replaceParameters, tableHash } from "../route.ts";
import { Search } from "./fleet.tsx";

const PAGE = 100;
type TableRoute = Extract<Route, { page: "table" }>;

export function TimelineView({ route }: { route: TableRoute }) {
  const { table } = route;
  const { kind = "", search = "", event = "" } = route.parameters;
  const first = event && !kind && !search ? Number(event) + 20 : null;
  const [begin] = useState(first);
  const query = { table, kind, search, limit: PAGE, before: begin };
  const asked = useAnswer<Timeline>(address("api/timeline", query), { table, keepLast: true });
  const [more, setMore] = useState<Timeline[]>([]);
  const [trouble, setTrouble] = useState("");
  useEffect(() => setMore([]), [kind, search, asked.answer?.version]);
  const set = (changes: Record<string, string>) => replaceParameters(route, changes);
  return (
    <Answered asked={asked} what="timeline">
      {(timeline) => {
        const pages = [timeline, ...more];
        const events = pages.flatMap((page) => page.events);
        const last = pages[pages.length - 1]?.before ?? null;
        const older = async () => {
          try {
            const answer = await ask<Timeline>(address("api/timeline", { ...query, before: last }));
            setMore([...more, answer.data]);
            setTrouble("");
          } catch (cause) {
            if (!(cause instanceof Refused)) throw cause;
            setTrouble(cause.failure.message);
          }
        };
        return (
          <>
            <Section title="Plans" count={pages.reduce((sum, page) => sum + page.plans.length, 0)}>
              <Bars plans={unique(pages.flatMap((page) => page.plans))} />
            </Section>
            <Section title="Events" count={integer(timeline.total)}>
              <div class="toolbar">
                <Search value={search} change={(text) => set({ search: text, event: "" })} label="Search events" />
                <label class="inline">
                  Kind
                  <select value={kind} onChange={(each) => set({ kind: each.currentTarget.value, event: "" })}>
                    <option value="">all</option>
                    {timeline.kinds.map((each) => (
                      <option key={each}>{each}</option>
                    ))}
                  </select>
                </label>
              </div>
              {events.length === 0 ? (
                <Empty>No event is like that.</Empty>
              ) : (
                <DataTable
                  caption="Events, newest first"
                  columns={columnsOf(table, event, set)}
                  lines={events}
                  id={(each) => String(each.n)}
                  selected={event || null}
                  onLine={(each) => set({ event: event === String(each.n) ? "" : String(each.n) })}
                  below={(each) => <InFull table={table} n={each.n} />}
                />
              )}
              {trouble && <Notice tone="warning">{trouble}</Notice>}
              {last !== null && (
                <p class="buttons more">
                  <button type="button" onClick={() => void older()}>
                    Older events
                  </button>
                </p>
              )}
              {begin !== null && begin <= timeline.newest && (
                <p class="muted">
                  Newer events are left out. <a href={tableHash(table, "timeline")}>Show them</a>
                </p>
              )}
            </Section>
          </>
        );
      }}
    </Answered>
  );
}

function unique(plans: PlanBar[]): PlanBar[] {
  return [...new Map(plans.map((plan) => [plan.id, plan])).values()];
}

function columnsOf(table: string, event: string, set: (changes: Record<string, string>) => void): DataColumn<EventLine>[] {
  return [
    {
      key: "n",
      title: "Event",
      number: true,
      cell: (each) => (
        <button
          type="button"
          class="link num"
          aria-expanded={event === String(each.n)}
          onClick={() => set({ event: event === String(each.n) ? "" : String(each.n) })}
        >
          {integer(each.n)}
        </button>
      ),
    },
    { key: "at", title: "Time, UTC", cell: (each) => <span class="nowrap num"><Time at={each.at} /></span> },
    { key: "kind", title: "Kind", cell: (each) => <Kind kind={each.kind} {...(each.plans[0] ? { like: each.plans[0] } : {})} /> },
    {
      key: "sentence",
      title: "Change",
      main: true,
      wide: true,
      cell: (each) => (
        <>
          {readable(each.sentence)}{" "}
          {each.tags.map((tag) => (
            <Chip key={tag} tone="accent">
              {tag}
            </Chip>
          ))}
        </>
      ),
    },
    { key: "rows", title: "Rows", number: true, cell: (each) => <Change added={each.rows_added} removed={each.rows_deleted} text={short} moved={each.moved} /> },
    { key: "bytes", title: "Bytes", number: true, drop: true, cell: (each) => <Change added={each.bytes_added} removed={each.bytes_removed} text={bytes} moved={false} /> },
    { key: "author", title: "By", cell: (each) => <Author author={each.author} task={each.task} /> },
    {
      key: "map",
      title: "",
      name: "Segment map",
      drop: true,
      cell: (each) => (each.readable ? <a class="nowrap" href={tableHash(table, "map", { version: String(each.n) })}>map</a> : <span class="faint nowrap" title="Cleaned: it cannot be read or restored any more">cleaned</span>),
    },
  ];
}

function Change(props: { added: number; removed: number | null; text: (value: number) => string; moved: boolean }) {
  const { added, removed, text } = props;
  if (props.moved) return <span class="faint" title="Rows moved to other files; none were added or deleted">moved</span>;
  const parts = [added ? `+${text(added)}` : "", removed ? `−${text(removed)}` : removed === null ? "−?" : ""].filter(Boolean);
  return <span class="nowrap">{parts.join(" ") || <span class="faint">0</span>}</span>;
}

// A task is a link to its run in Airflow.
export function Author({ author, task }: { author: string; task: TaskName | null }) {
  if (!task || !task.dag_id) return <span class="author" title={author}>{author || <span class="faint">unknown</span>}</span>;
  return (
    <span class="author" title={author}>
      <Outside href={runHref(task)}>
        {task.dag_id}
        {task.task_id && <span class="muted"> {task.task_id}</span>}
      </Outside>
    </span>
  );
}

// The page lies below Airflow's own address; its UI is beside the folder of mounted apps.
export function runHref(task: TaskName): string | null {
  if (!inAirflow) return null;
  const parts = ["dags", task.dag_id, "runs", task.run_id, ...(task.task_id ? ["tasks", task.task_id] : [])];
  return `${airflowRoot()}/${parts.map(encodeURIComponent).join("/")}`;
}

let inAirflow = false;

export function setInAirflow(value: boolean): void {
  inAirflow = value;
}

function airflowRoot(): string {
  return location.pathname.replace(/\/[^/]+\/?(index\.html)?$/, "");
}

function InFull({ table, n }: { table: string; n: number }) {
  const asked = useAnswer<EventInFull>(address("api/event", { table, n }));
  return (
    <Answered asked={asked} what="event">
      {({ line, body, cut, touches, everywhere }) => (
        <div class="event-full">
          <p class="sentence">{readable(line.sentence)}</p>
          <div class="actions">
            {line.readable && (
              <a class="button" href={tableHash(table, "map", { version: String(n) })}>
                Segment map then
              </a>
            )}
            {line.readable && <ActionButton action="tag" table={table} given={{ version: n }} />}
            {line.readable && (
              <ActionButton action="restore" table={table} given={{ version: n }}>
                Restore this version
              </ActionButton>
            )}
          </div>
          <p class="muted">
            {line.author} · {moment(line.at)} UTC · {touched(touches, everywhere)}
          </p>
          <pre>{JSON.stringify(body, null, 2)}</pre>
          {cut > 0 && <p class="muted">{integer(cut)} entries of long lists are left out.</p>}
        </div>
      )}
    </Answered>
  );
}

function touched(touches: string[], everywhere: boolean): string {
  if (everywhere) return "may change segments anywhere";
  if (touches.length === 0) return "changes no segment";
  const first = touches.slice(0, 3).map(place).join(", ");
  return `changes segments of ${first}${touches.length > 3 ? ` and ${touches.length - 3} more` : ""}`;
}

// ---- bars ----

const ROW = 18;
const MOST_BARS = 60;
const TICKS = 20;

interface Drawn {
  plan: PlanBar;
  row: number;
  from: number;
  begin: number | null;
  to: number;
}

function Bars({ plans }: { plans: PlanBar[] }) {
  const [box, width] = useWidth<HTMLDivElement>();
  const [hovered, setHovered] = useState<string | null>(null);
  const end = now();
  const some = plans.slice(0, 400);
  const drawn = packed(some, end);
  if (some.length === 0) return <Empty>No plan was requested or ended in this time.</Empty>;
  const from = Math.min(...drawn.map((each) => each.from));
  const to = Math.max(...drawn.map((each) => each.to));
  const margin = (to - from) * 0.02 + 1000;
  const x = linear(from - margin, to + margin, 0, width);
  const rows = Math.min(MOST_BARS, Math.max(...drawn.map((each) => each.row)) + 1);
  const height = rows * ROW + TICKS;
  const shown = drawn.find((each) => each.plan.id === hovered)?.plan;
  return (
    <div class="bars" ref={box}>
      {width > 0 && (
        <svg width={width} height={height} role="img" aria-label={`${plans.length} plans over time, from request to end; each is also an event below`}>
          {timeTicks(from - margin, to + margin, width / 110).map((tick) => (
            <g key={tick.at} class="tick">
              <line x1={x(tick.at)} x2={x(tick.at)} y1="0" y2={height - TICKS} />
              <text x={x(tick.at)} y={height - 5} text-anchor={anchor(x(tick.at), 0, width)}>
                {tick.text}
              </text>
            </g>
          ))}
          {drawn.map((each) => (
            <Bar key={each.plan.id} drawn={each} x={x} hover={setHovered} />
          ))}
        </svg>
      )}
      <p class="read" aria-hidden="true">
        {shown ? (
          <>
            <Kind kind={shown.kind} /> <b>{shown.status}</b> <span>{place(shown.interval)}</span> <span class="muted">{words(shown)}</span>
          </>
        ) : (
          <>
            <span class="muted">thin: requested, waiting · thick: a worker has it</span>
            {["minor", "semi-major", "major", "index"].filter((kind) => plans.some((plan) => kindClass(plan.kind) === kindClass(kind))).map((kind) => (
              <Kind key={kind} kind={kind} />
            ))}
          </>
        )}
      </p>
    </div>
  );
}

function words(plan: PlanBar): string {
  const worked = plan.worked_seconds === null ? "" : `, worked ${duration(plan.worked_seconds)}`;
  return `waited ${duration(plan.waited_seconds)}${worked} · ${readable(plan.note || plan.reason)}`;
}

// Each bar takes the first row that is free at its begin.
function packed(plans: PlanBar[], end: number): Drawn[] {
  const free: number[] = [];
  const sorted = [...plans].sort((a, b) => a.requested.localeCompare(b.requested));
  const starts = sorted.map((plan) => Date.parse(plan.requested));
  const span = end - Math.min(...starts);
  return sorted.map((plan, n) => {
    const from = starts[n] ?? 0;
    const to = Math.max(plan.completed ? Date.parse(plan.completed) : end, from);
    const found = free.findIndex((until) => until <= from);
    const row = found < 0 ? free.length : found;
    free[row] = to + span * 0.004;
    return { plan, row, from, begin: plan.inflight ? Date.parse(plan.inflight) : null, to };
  });
}

function Bar({ drawn, x, hover }: { drawn: Drawn; x: (at: number) => number; hover: (id: string | null) => void }) {
  const { plan, row, from, begin, to } = drawn;
  const y = row * ROW + 3;
  const isEnded = plan.completed !== null;
  const worker = begin ?? to;
  const name = `${kindClass(plan.kind)} bar ${plan.status}`;
  return (
    <g class={name} onPointerEnter={() => hover(plan.id)} onPointerLeave={() => hover(null)}>
      <rect x={x(from)} y={y + 4} width={Math.max(1, x(worker) - x(from))} height="4" class="wait" />
      {begin !== null && <rect x={x(begin)} y={y} width={Math.max(3, x(to) - x(begin))} height="12" rx="1.5" />}
      {plan.status === "aborted" && <path class="cross" d={`M${x(to) - 4} ${y + 2}l8 8M${x(to) + 4} ${y + 2}l-8 8`} />}
      {!isEnded && <path class="open" d={`M${x(to)} ${y}l5 6l-5 6`} />}
      <rect class="target" x={x(from)} y={row * ROW} width={Math.max(6, x(to) - x(from))} height={ROW} />
    </g>
  );
}
