// Plans and reasons: running, pending, what would begin now, what is left alone and the number that
// would change that, and what was done, expected beside measured. A simulation shows the difference
// that other properties make.

import { ActionButton } from "../actions.tsx";
import { address, useAnswer } from "../answers.ts";
import type { LeftAlone, Limit, PlanDone, PlanOffer, PlanProgress, Plans } from "../api.ts";
import { bytes, duration, integer, percent, readable } from "../format.ts";
import { Author } from "../parts/author.tsx";
import { Meter, Pair } from "../parts/charts.tsx";
import { type DataColumn, DataTable } from "../parts/data_table.tsx";
import { Chip, Kind, Section, Time, Where } from "../parts/marks.tsx";
import { Answered, Empty, Notice } from "../parts/states.tsx";
import { tableHash } from "../route.ts";
import { Simulate } from "./simulation.tsx";

export function PlansView({ table }: { table: string }) {
  const asked = useAnswer<Plans>(address("api/plans", { table, limit: 200 }), { table });
  return (
    <Answered asked={asked} what="plans">
      {(plans) => (
        <>
          {plans.trouble && <Notice tone="warning">Progress is not known: {plans.trouble}</Notice>}
          <Section title="Running" count={plans.running.length || ""}>
            {plans.running.length ? (
              <DataTable
                caption="Running plans"
                columns={RUNNING}
                lines={plans.running}
                id={(each) => each.bar.id}
                pageSize={20}
              />
            ) : (
              <Empty>No worker has a plan of this table.</Empty>
            )}
          </Section>
          {plans.pending.length > 0 && (
            <Section title="Pending" count={plans.pending.length}>
              <DataTable
                caption="Pending plans"
                columns={PENDING}
                lines={plans.pending}
                id={(each) => each.bar.id}
                pageSize={20}
              />
            </Section>
          )}
          <Section
            title="Would begin now"
            count={plans.chosen.length || ""}
            beside={
              <>
                <span class="muted">
                  looked at version {integer(plans.planned_version)},{" "}
                  <Time at={plans.planned_at} age />
                </span>
                <ActionButton action="plan" table={table} given={{}} />
              </>
            }
          >
            {plans.chosen.length ? (
              <DataTable
                caption="Chosen plans, best first"
                columns={CHOSEN}
                lines={plans.chosen}
                id={(each) => each.id}
                pageSize={20}
              />
            ) : (
              <Empty>
                Nothing is worth a plan now
                {plans.due ? (
                  <>
                    ; that may change by itself <Time at={plans.due} age />
                  </>
                ) : (
                  "; only a commit can change that"
                )}
                .
              </Empty>
            )}
          </Section>
          <Section title="Left alone" count={integer(plans.left_total)}>
            {plans.left.length ? (
              <DataTable
                caption="Left alone, with reasons"
                columns={leftColumns(table)}
                lines={plans.left}
                id={(each) =>
                  `${each.place.interval} ${each.place.bucket} ${each.place.partitions} ${each.kind} ${each.code}`
                }
                pageSize={50}
              />
            ) : (
              <Empty>Every part of the table has a plan.</Empty>
            )}
            {!plans.whole && (
              <p class="muted">
                Not every part was looked at: the rest is left for the next run of the planner.
              </p>
            )}
          </Section>
          <Simulate table={table} />
          <Section
            title="Done"
            count={integer(plans.done_total)}
            beside={<a href={tableHash(table, "runs")}>Sums by day and owner</a>}
          >
            {plans.done.length ? (
              <Done done={plans.done} />
            ) : (
              <Empty>The log has no plan that ended.</Empty>
            )}
          </Section>
        </>
      )}
    </Answered>
  );
}

const RUNNING: DataColumn<PlanProgress>[] = [
  { key: "kind", title: "Kind", cell: (each) => <Kind kind={each.bar.kind} /> },
  { key: "where", title: "Where", main: true, cell: (each) => <Where each={each.place} /> },
  {
    key: "progress",
    title: "Progress",
    cell: (each) => (
      <div class="progress">
        {each.waiting ? (
          <Chip tone="warning">waits for locks</Chip>
        ) : each.share === null ? (
          <span class="muted">not reported</span>
        ) : (
          <>
            <Meter share={each.share} label={percent(each.share)} className="good" />
            <span class="num">{percent(each.share)}</span>
          </>
        )}
      </div>
    ),
  },
  {
    key: "detail",
    title: "Reports",
    cell: (each) => <span class="muted nowrap">{reported(each.progress)}</span>,
  },
  {
    key: "inputs",
    title: "Input",
    number: true,
    cell: (each) => `${integer(each.bar.files_read)} → ${integer(each.outputs)}`,
  },
  { key: "bytes", title: "Size", number: true, cell: (each) => bytes(each.bar.bytes) },
  {
    key: "age",
    title: "Since",
    number: true,
    cell: (each) => <Time at={each.bar.inflight ?? each.bar.requested} age />,
  },
  {
    key: "expected",
    title: "Expected",
    number: true,
    cell: (each) => duration(each.expected_seconds),
  },
  {
    key: "holder",
    title: "Worker",
    wide: true,
    cell: (each) => <span class="author">{each.holder || <span class="faint">unknown</span>}</span>,
  },
];

function reported(progress: Record<string, string>): string {
  return Object.entries(progress)
    .map(([name, value]) => `${name} ${value}`)
    .join(", ");
}

const PENDING: DataColumn<PlanProgress>[] = [
  { key: "kind", title: "Kind", cell: (each) => <Kind kind={each.bar.kind} /> },
  { key: "where", title: "Where", main: true, cell: (each) => <Where each={each.place} /> },
  {
    key: "inputs",
    title: "Input",
    number: true,
    cell: (each) => `${integer(each.bar.files_read)} → ${integer(each.outputs)}`,
  },
  { key: "bytes", title: "Size", number: true, cell: (each) => bytes(each.bar.bytes) },
  { key: "age", title: "Waits", number: true, cell: (each) => duration(each.age_seconds) },
  {
    key: "expected",
    title: "Expected",
    number: true,
    cell: (each) => duration(each.expected_seconds),
  },
  { key: "reason", title: "Why", wide: true, cell: (each) => readable(each.bar.reason) },
  {
    key: "author",
    title: "By",
    cell: (each) => <Author author={each.bar.author} task={each.bar.task} />,
  },
];

const CHOSEN: DataColumn<PlanOffer>[] = [
  { key: "kind", title: "Kind", cell: (each) => <Kind kind={each.kind} /> },
  { key: "where", title: "Where", main: true, cell: (each) => <Where each={each.place} /> },
  {
    key: "inputs",
    title: "Files",
    number: true,
    by: (each) => each.segments,
    cell: (each) => `${integer(each.segments)} → ${integer(each.outputs)}`,
  },
  {
    key: "bytes",
    title: "Cost",
    hint: "Bytes of its inputs",
    number: true,
    by: (each) => each.bytes,
    cell: (each) => bytes(each.bytes),
  },
  {
    key: "gain",
    title: "Gain",
    hint: "Segments that it removes or tidies",
    number: true,
    by: (each) => each.gain,
    cell: (each) => integer(Math.round(each.gain)),
  },
  {
    key: "seconds",
    title: "Expected",
    number: true,
    by: (each) => each.expected_seconds,
    cell: (each) => duration(each.expected_seconds),
  },
  {
    key: "order",
    title: "Order",
    drop: true,
    cell: (each) => each.clustering || <span class="faint">as it is</span>,
  },
  { key: "reason", title: "Why", wide: true, cell: (each) => readable(each.reason) },
];

function leftColumns(table: string): DataColumn<LeftAlone>[] {
  return [
    {
      key: "places",
      title: "Places",
      number: true,
      by: (each) => each.places,
      cell: (each) => integer(each.places),
    },
    {
      key: "where",
      title: "Where",
      main: true,
      by: (each) => each.place.interval,
      cell: (each) => <Where each={each.place} />,
    },
    {
      key: "kind",
      title: "By",
      by: (each) => each.kind,
      cell: (each) => <Kind kind={each.kind} />,
    },
    {
      key: "sentence",
      title: "Reason",
      wide: true,
      cell: (each) => (
        <>
          {readable(each.sentence)} <code class="code">{each.code}</code>
        </>
      ),
    },
    {
      key: "number",
      title: "The number that would change it",
      cell: (each) => <Bound limit={each.number} />,
    },
    {
      key: "until",
      title: "Until",
      by: (each) => each.until,
      cell: (each) => (
        <span class="nowrap">
          {each.until ? <Time at={each.until} age /> : <span class="faint">an event</span>}
        </span>
      ),
    },
    {
      key: "act",
      title: "",
      name: "Action",
      cell: (each) => (
        <ActionButton
          quiet
          action="compact"
          table={table}
          given={{ interval: each.place.interval }}
        >
          Compact
        </ActionButton>
      ),
    },
  ];
}

function Bound({ limit }: { limit: Limit | null }) {
  if (!limit) return <span class="faint">none</span>;
  const text = (value: number | null) => (value === null ? "unknown" : inUnit(value, limit.unit));
  const near = limit.value !== null && limit.bound ? limit.value / limit.bound : 0;
  return (
    <span class="bound">
      <code>{limit.name}</code>
      <span class="num">
        {text(limit.value)} <span class="muted">of {text(limit.bound)}</span>
      </span>
      <Meter
        share={Math.min(1, near)}
        label={`${text(limit.value)} of ${text(limit.bound)}`}
        className={near > 1 ? "over" : "fill"}
      />
    </span>
  );
}

function inUnit(value: number, unit: string): string {
  if (unit === "bytes") return bytes(value);
  if (unit === "seconds") return duration(value);
  if (unit === "minutes") return duration(value * 60);
  if (unit === "share") return percent(value);
  return integer(value);
}

// ---- done ----

function Done({ done }: { done: PlanDone[] }) {
  const seconds = Math.max(
    1,
    ...done.flatMap((each) => [each.expected_seconds, each.bar.worked_seconds ?? 0]),
  );
  const files = Math.max(
    1,
    ...done.flatMap((each) => [each.expected_files_removed, each.files_removed ?? 0]),
  );
  const columns: DataColumn<PlanDone>[] = [
    {
      key: "ended",
      title: "Ended",
      by: (each) => each.bar.completed,
      cell: (each) => <Time at={each.bar.completed} age />,
    },
    {
      key: "kind",
      title: "Kind",
      by: (each) => each.bar.kind,
      cell: (each) => <Kind kind={each.bar.kind} />,
    },
    {
      key: "where",
      title: "Where",
      main: true,
      by: (each) => each.place.interval,
      cell: (each) => <Where each={each.place} />,
    },
    {
      key: "files",
      title: "Files removed",
      by: (each) => each.files_removed,
      cell: (each) => (
        <Measured
          most={files}
          expected={each.expected_files_removed}
          measured={each.files_removed}
          text={integer}
        />
      ),
    },
    {
      key: "seconds",
      title: "Time",
      by: (each) => each.bar.worked_seconds,
      cell: (each) => (
        <Measured
          most={seconds}
          expected={each.expected_seconds}
          measured={each.bar.worked_seconds}
          text={duration}
        />
      ),
    },
    {
      key: "gained",
      title: "Gained",
      hint: "Share of the possible gain",
      number: true,
      by: (each) => each.gained,
      cell: (each) => percent(each.gained),
    },
    {
      key: "overlap",
      title: "Overlap",
      hint: "Files over one instant, on average",
      number: true,
      cell: (each) =>
        each.overlap_before === null ? (
          <span class="faint">–</span>
        ) : (
          `${each.overlap_before.toFixed(1)} → ${(each.overlap_after ?? 0).toFixed(1)}`
        ),
    },
    {
      key: "note",
      title: "",
      name: "Note",
      wide: true,
      cell: (each) =>
        each.bar.status === "aborted" ? (
          <span class="ill-text">aborted: {each.bar.note}</span>
        ) : (
          <span class="muted">{each.bar.note}</span>
        ),
    },
  ];
  return (
    <>
      <p class="read inline-legend">
        <span>
          <span class="swatch quiet-swatch" /> expected
        </span>
        <span>
          <span class="swatch k-minor" /> measured
        </span>
      </p>
      <DataTable
        caption="Plans that ended: expected and measured"
        columns={columns}
        lines={done}
        id={(each) => each.bar.id}
        pageSize={25}
      />
    </>
  );
}

function Measured(props: {
  most: number;
  expected: number;
  measured: number | null;
  text: (value: number | null) => string;
}) {
  return (
    <Pair
      most={props.most}
      first={{ name: "expected", value: props.expected, text: props.text(props.expected) }}
      second={{ name: "measured", value: props.measured, text: props.text(props.measured) }}
    />
  );
}
