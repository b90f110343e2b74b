// The timeline: plans as bars from request to end, as in a trace, and below them every event.
//
// Events come in pages, the newest first. A link may open one: `?event=812`.

import { useEffect, useState } from "preact/hooks";
import { ActionButton } from "../actions.tsx";
import { address, ask, Refused, useAnswer } from "../answers.ts";
import type { EventInFull, EventLine, PlanBar, Timeline } from "../api.ts";
import { bytes, integer, moment, place, readable, short } from "../format.ts";
import { Author } from "../parts/author.tsx";
import { type DataColumn, DataTable } from "../parts/data_table.tsx";
import { Chip, Kind, Section, Time } from "../parts/marks.tsx";
import { Search } from "../parts/search.tsx";
import { Answered, Empty, Notice } from "../parts/states.tsx";
import { type Route, replaceParameters, tableHash } from "../route.ts";
import { Bars } from "./plan_bars.tsx";

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
                <Search
                  value={search}
                  change={(text) => set({ search: text, event: "" })}
                  label="Search events"
                />
                <label class="inline">
                  Kind
                  <select
                    value={kind}
                    onChange={(each) => set({ kind: each.currentTarget.value, event: "" })}
                  >
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

function columnsOf(
  table: string,
  event: string,
  set: (changes: Record<string, string>) => void,
): DataColumn<EventLine>[] {
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
    {
      key: "at",
      title: "Time, UTC",
      cell: (each) => (
        <span class="nowrap num">
          <Time at={each.at} />
        </span>
      ),
    },
    {
      key: "kind",
      title: "Kind",
      cell: (each) => <Kind kind={each.kind} {...(each.plans[0] ? { like: each.plans[0] } : {})} />,
    },
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
    {
      key: "rows",
      title: "Rows",
      number: true,
      cell: (each) => (
        <Change
          added={each.rows_added}
          removed={each.rows_deleted}
          text={short}
          moved={each.moved}
        />
      ),
    },
    {
      key: "bytes",
      title: "Bytes",
      number: true,
      drop: true,
      cell: (each) => (
        <Change added={each.bytes_added} removed={each.bytes_removed} text={bytes} moved={false} />
      ),
    },
    {
      key: "author",
      title: "By",
      cell: (each) => <Author author={each.author} task={each.task} />,
    },
    {
      key: "map",
      title: "",
      name: "Segment map",
      drop: true,
      cell: (each) =>
        each.readable ? (
          <a class="nowrap" href={tableHash(table, "map", { version: String(each.n) })}>
            map
          </a>
        ) : (
          <span class="faint nowrap" title="Cleaned: it cannot be read or restored any more">
            cleaned
          </span>
        ),
    },
  ];
}

function Change(props: {
  added: number;
  removed: number | null;
  text: (value: number) => string;
  moved: boolean;
}) {
  const { added, removed, text } = props;
  if (props.moved)
    return (
      <span class="faint" title="Rows moved to other files; none were added or deleted">
        moved
      </span>
    );
  const parts = [
    added ? `+${text(added)}` : "",
    removed ? `−${text(removed)}` : removed === null ? "−?" : "",
  ].filter(Boolean);
  return <span class="nowrap">{parts.join(" ") || <span class="faint">0</span>}</span>;
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
