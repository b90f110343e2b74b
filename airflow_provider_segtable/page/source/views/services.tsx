// Log store, publications, locks: what runs beside the table, and how far each is behind.

import { ActionButton } from "../actions.tsx";
import { address, useAnswer } from "../answers.ts";
import type {
  BucketLine,
  ConsumerLine,
  LockLine,
  Locks,
  LogStore,
  Publications,
  PublishedLine,
} from "../api.ts";
import { counted, duration, integer, place } from "../format.ts";
import { Length, useWidth } from "../parts/charts.tsx";
import { type DataColumn, DataTable } from "../parts/data_table.tsx";
import { Chip, Command, Facts, Section, Time } from "../parts/marks.tsx";
import { Answered, Empty, Notice } from "../parts/states.tsx";

// ---- log store ----

export function LogStoreView({ table }: { table: string }) {
  const asked = useAnswer<LogStore>(address("api/log_store", { table }), { table });
  return (
    <Answered asked={asked} what="log store">
      {(store) =>
        !store.has ? (
          <Empty>This table has no log store: its rows are seen when they are committed.</Empty>
        ) : (
          <>
            {store.trouble && <Notice tone="warning">{store.trouble}</Notice>}
            <Facts
              facts={[
                ["Buckets", integer(store.buckets.length)],
                [
                  "Committed records",
                  integer(store.buckets.reduce((sum, bucket) => sum + bucket.committed, 0)),
                ],
                ["Not yet committed", integer(store.uncommitted)],
              ]}
            />
            <Section title="Buckets" count={store.buckets.length}>
              <DataTable
                caption="Buckets"
                columns={bucketColumns(store.buckets)}
                lines={store.buckets}
                id={(each) => String(each.bucket)}
                pageSize={50}
              />
            </Section>
            <Section title="Epochs">
              <p class="muted">
                Each writer of a bucket begins an epoch. Across are offsets; the orange end is not
                committed yet.
              </p>
              <Epochs buckets={store.buckets} />
            </Section>
            {store.consumers.length > 0 && (
              <Section title="Readers" count={store.consumers.length}>
                <DataTable
                  caption="Readers"
                  columns={CONSUMERS}
                  lines={store.consumers}
                  id={(each) => each.name}
                  pageSize={50}
                />
              </Section>
            )}
          </>
        )
      }
    </Answered>
  );
}

function bucketColumns(buckets: BucketLine[]): DataColumn<BucketLine>[] {
  const most = Math.max(1, ...buckets.map((bucket) => bucket.uncommitted ?? 0));
  return [
    {
      key: "bucket",
      title: "Bucket",
      number: true,
      main: true,
      by: (each) => each.bucket,
      cell: (each) => each.bucket,
    },
    { key: "epoch", title: "Epoch", number: true, cell: (each) => integer(each.epoch) },
    {
      key: "committed",
      title: "Committed to",
      number: true,
      by: (each) => each.committed,
      cell: (each) => integer(each.committed),
    },
    {
      key: "end",
      title: "Written to",
      number: true,
      by: (each) => each.end,
      cell: (each) => integer(each.end),
    },
    {
      key: "uncommitted",
      title: "Not committed",
      by: (each) => each.uncommitted,
      cell: (each) =>
        each.uncommitted === null ? (
          <span class="faint">–</span>
        ) : (
          <Length most={most} value={each.uncommitted} text={integer(each.uncommitted)} />
        ),
    },
    {
      key: "lag",
      title: "Oldest of them",
      number: true,
      by: (each) => each.lag_seconds,
      cell: (each) => duration(each.lag_seconds),
    },
    {
      key: "owner",
      title: "Writer",
      cell: (each) => each.owner ?? <span class="faint">none</span>,
    },
    {
      key: "address",
      title: "Service",
      wide: true,
      cell: (each) =>
        each.trouble ? (
          <span class="warning-text">{each.trouble}</span>
        ) : (
          <code>{each.address}</code>
        ),
    },
  ];
}

const BAR = 20;
const SHADES = ["k-append", "k-publish"];

function Epochs({ buckets }: { buckets: BucketLine[] }) {
  const [box, width] = useWidth<HTMLDivElement>();
  const most = Math.max(1, ...buckets.map((bucket) => bucket.end ?? bucket.committed));
  const left = 64;
  const x = (offset: number) => left + (offset / most) * (width - left);
  const shown = buckets.slice(0, 64);
  return (
    <div class="strip" ref={box}>
      {width > 0 && (
        <svg
          width={width}
          height={shown.length * BAR}
          role="img"
          aria-label="Epochs of each bucket by offset; the table above has the numbers"
        >
          {shown.map((bucket, row) => (
            <g key={bucket.bucket}>
              <text class="tick" x="0" y={row * BAR + 13}>
                bucket {bucket.bucket}
              </text>
              {bucket.epochs.map(([epoch, offset], n) => {
                const until = bucket.epochs[n + 1]?.[1] ?? bucket.committed;
                return (
                  <rect
                    key={epoch}
                    class={SHADES[n % SHADES.length] ?? ""}
                    x={x(offset)}
                    y={row * BAR + 3}
                    width={Math.max(1, x(until) - x(offset) - 1)}
                    height={BAR - 6}
                  >
                    <title>{`bucket ${bucket.bucket}, epoch ${epoch}: offsets ${integer(offset)} to ${integer(until)}`}</title>
                  </rect>
                );
              })}
              {bucket.end !== null && bucket.end > bucket.committed && (
                <rect
                  class="over"
                  x={x(bucket.committed)}
                  y={row * BAR + 3}
                  width={Math.max(2, x(bucket.end) - x(bucket.committed))}
                  height={BAR - 6}
                >
                  <title>{`${counted(bucket.end - bucket.committed, "record")} not committed`}</title>
                </rect>
              )}
            </g>
          ))}
        </svg>
      )}
    </div>
  );
}

const CONSUMERS: DataColumn<ConsumerLine>[] = [
  {
    key: "name",
    title: "Reader",
    main: true,
    by: (each) => each.name,
    cell: (each) => <b>{each.name}</b>,
  },
  {
    key: "records",
    title: "Records behind",
    number: true,
    by: (each) => each.records_behind,
    cell: (each) => integer(each.records_behind),
  },
  {
    key: "events",
    title: "Events behind",
    number: true,
    by: (each) => each.behind_events,
    cell: (each) => integer(each.behind_events),
  },
  {
    key: "seconds",
    title: "Behind",
    number: true,
    by: (each) => each.behind_seconds,
    cell: (each) => duration(each.behind_seconds),
  },
  {
    key: "position",
    title: "Position",
    wide: true,
    cell: (each) => <code class="path">{each.position}</code>,
  },
];

// ---- published ----

export function PublishedView({ table }: { table: string }) {
  const asked = useAnswer<Publications>(address("api/published", { table }), { table });
  return (
    <Answered asked={asked} what="publications">
      {({ formats }) =>
        formats.length === 0 ? (
          <Empty action={<ActionButton action="publish" table={table} given={{}} />}>
            This table is published in no other format.
          </Empty>
        ) : (
          formats.map((each) => <Format key={each.format} each={each} table={table} />)
        )
      }
    </Answered>
  );
}

function Format({ each, table }: { each: PublishedLine; table: string }) {
  const trouble = each.error || each.refusal;
  const isCurrent = each.lag_events === 0;
  const tone = trouble ? "ill" : isCurrent ? "plain" : each.enabled ? "warning" : "faint";
  const word = trouble
    ? "fails"
    : !each.enabled
      ? "switched off"
      : isCurrent
        ? "up to date"
        : "behind";
  return (
    <Section
      title={each.format}
      beside={
        <>
          <Chip tone={tone}>{word}</Chip>
          <span class="grow" />
          <ActionButton action="publish" table={table} given={{ formats: [each.format] }} />
        </>
      }
    >
      {trouble && <Notice tone="ill">{trouble}</Notice>}
      <Facts
        facts={[
          ["Shows event", integer(each.event), <Time at={each.at} age />],
          [
            "Behind",
            each.lag_events === null
              ? "unknown"
              : each.lag_events
                ? counted(each.lag_events, "event")
                : "nothing",
            each.lag_seconds ? duration(each.lag_seconds) : undefined,
          ],
        ]}
      />
      {each.address && (
        <>
          <p class="muted sub">Readers of {each.format} open</p>
          <Command text={each.address} />
        </>
      )}
    </Section>
  );
}

// ---- locks ----

export function LocksView({ table }: { table: string }) {
  const asked = useAnswer<Locks>(address("api/locks", { table }), { table });
  return (
    <Answered asked={asked} what="locks">
      {(locks) => (
        <>
          {locks.trouble && <Notice tone="warning">{locks.trouble}</Notice>}
          {locks.unreadable.length > 0 && (
            <Notice tone="warning">Not readable: {locks.unreadable.join(", ")}</Notice>
          )}
          <p class="muted">
            {locks.coordinator
              ? "Locks are hints: the log decides what is committed."
              : "There is no coordinator, so there are no locks: the log alone decides what is committed."}
          </p>
          <Section title="Held" count={locks.held.length || ""}>
            {locks.held.length ? (
              <DataTable
                caption="Held locks"
                columns={heldColumns(table)}
                lines={locks.held}
                id={(each) => each.group}
                pageSize={50}
              />
            ) : (
              <Empty>Nothing is locked.</Empty>
            )}
          </Section>
          <Section title="Waiting" count={locks.waiting.length || ""}>
            {locks.waiting.length ? (
              <DataTable
                caption="The queue for locks"
                columns={waitingColumns(locks.held)}
                lines={locks.waiting}
                id={(each) => each.group}
                pageSize={50}
              />
            ) : (
              <Empty>No one waits for a lock.</Empty>
            )}
          </Section>
        </>
      )}
    </Answered>
  );
}

const COMMON: DataColumn<LockLine>[] = [
  {
    key: "purpose",
    title: "For",
    main: true,
    by: (each) => each.purpose,
    cell: (each) => <b class="nowrap">{each.purpose}</b>,
  },
  { key: "mode", title: "Mode", by: (each) => each.mode, cell: (each) => <code>{each.mode}</code> },
  {
    key: "where",
    title: "Where",
    cell: (each) => (
      <>
        {each.intervals.slice(0, 2).map((text) => (
          <span key={text} class="nowrap num">
            {place(text)}{" "}
          </span>
        ))}
        {each.intervals.length > 2 && (
          <span class="muted">and {each.intervals.length - 2} more </span>
        )}
        {each.segments > 0 && <span class="muted nowrap">{counted(each.segments, "segment")}</span>}
      </>
    ),
  },
  {
    key: "age",
    title: "Since",
    number: true,
    by: (each) => each.age_seconds,
    cell: (each) => <Time at={each.since} age />,
  },
  { key: "holder", title: "Holder", cell: (each) => <span class="author">{each.holder}</span> },
];

function heldColumns(table: string): DataColumn<LockLine>[] {
  return [
    ...COMMON,
    {
      key: "state",
      title: "State",
      cell: (each) => (
        <Chip tone={each.state === "revoked" ? "warning" : "plain"}>{each.state}</Chip>
      ),
    },
    {
      key: "progress",
      title: "Reports",
      wide: true,
      cell: (each) => (
        <span class="muted">
          {Object.entries(each.progress)
            .map(([name, value]) => `${name} ${value}`)
            .join(", ")}
        </span>
      ),
    },
    {
      key: "act",
      title: "",
      name: "Action",
      cell: (each) => (
        <ActionButton quiet action="unlock" table={table} given={{ group: each.group }} />
      ),
    },
  ];
}

function waitingColumns(held: LockLine[]): DataColumn<LockLine>[] {
  const nameOf = (group: string) => held.find((each) => each.group === group)?.purpose ?? group;
  return [
    ...COMMON,
    {
      key: "priority",
      title: "Priority",
      number: true,
      by: (each) => each.priority,
      cell: (each) => integer(each.priority),
    },
    {
      key: "yields",
      title: "Gave way",
      number: true,
      by: (each) => each.yields,
      cell: (each) => (each.yields ? counted(each.yields, "time") : "never"),
    },
    {
      key: "waits",
      title: "Waits for",
      wide: true,
      cell: (each) => each.waits_for.map(nameOf).join(", ") || <span class="faint">its turn</span>,
    },
  ];
}
