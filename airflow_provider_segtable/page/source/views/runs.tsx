// Runs: what maintenance cost and what it brought, by day, by owner, and run by run; of one table or
// of the whole fleet.

import { useState } from "preact/hooks";
import { address, useAnswer } from "../answers.ts";
import type { Run, RunSum, Runs } from "../api.ts";
import { bytes, duration, integer, percent, place } from "../format.ts";
import { Author } from "../parts/author.tsx";
import { DayBars, Length, Pair } from "../parts/charts.tsx";
import { Choice } from "../parts/choice.tsx";
import { type DataColumn, DataTable } from "../parts/data_table.tsx";
import { Facts, Kind, Section, Time } from "../parts/marks.tsx";
import { Answered, Empty, Notice } from "../parts/states.tsx";
import { type Route, replaceParameters, tableHash } from "../route.ts";

const DAYS = ["1", "7", "30", "90"] as const;
type Days = (typeof DAYS)[number];

export function RunsView({ route, table }: { route: Route; table: string | null }) {
  const days = DAYS.find((each) => each === route.parameters.days) ?? "7";
  const options = table ? { table, keepLast: true } : { anyTable: true, keepLast: true };
  const asked = useAnswer<Runs>(address("api/runs", { table, days, limit: 500 }), options);
  return (
    <>
      {table === null && <h1 class="visually-hidden">Runs of the fleet</h1>}
      <div class="toolbar first">
        <Choice
          label="Days"
          value={days}
          options={DAYS.map((each): [Days, string] => [
            each,
            each === "1" ? "1 day" : `${each} days`,
          ])}
          change={(each) => replaceParameters(route, { days: each === "7" ? "" : each })}
        />
      </div>
      <Answered asked={asked} what="runs">
        {(runs) => <Shown runs={runs} table={table} />}
      </Answered>
    </>
  );
}

type Measure = "seconds" | "bytes_read" | "files_removed";

const MEASURES: Record<
  Measure,
  { title: string; text: (value: number) => string; base: 10 | 1024 | 60 }
> = {
  seconds: { title: "Work", text: duration, base: 60 },
  bytes_read: { title: "Bytes read", text: bytes, base: 1024 },
  files_removed: { title: "Files removed", text: integer, base: 10 },
};

function Shown({ runs, table }: { runs: Runs; table: string | null }) {
  const [measure, setMeasure] = useState<Measure>("seconds");
  const { title, text, base } = MEASURES[measure];
  if (runs.all.runs === 0) {
    return (
      <>
        <Missing missing={runs.missing} />
        <Empty>
          No plan was completed in {runs.days === 1 ? "the last day" : `the last ${runs.days} days`}
          .
        </Empty>
      </>
    );
  }
  const measures = (Object.keys(MEASURES) as Measure[]).map((each): [Measure, string] => [
    each,
    MEASURES[each].title,
  ]);
  return (
    <>
      <Missing missing={runs.missing} />
      <Facts
        facts={[
          ["Runs", integer(runs.all.runs)],
          ["Work", duration(runs.all.seconds), "seconds of workers, summed up"],
          [
            "Files",
            `${integer(runs.all.inputs)} → ${integer(runs.all.outputs)}`,
            `${integer(runs.all.files_removed)} fewer to open`,
          ],
          ["Read", bytes(runs.all.bytes_read)],
          [
            "Written",
            bytes(runs.all.bytes_written),
            `${bytes(runs.all.bytes_saved)} less than read`,
          ],
          ["Gained", percent(runs.all.gain), "of the possible gain"],
        ]}
      />
      <Section
        title="By day"
        beside={<Choice label="Measure" value={measure} options={measures} change={setMeasure} />}
      >
        <DayBars
          label={`${title} by day`}
          text={text}
          base={base}
          stacks={runs.by_day.map((day) => ({
            key: day.name,
            parts: [{ name: title.toLowerCase(), value: day[measure], className: "fill" }],
          }))}
        />
      </Section>
      <div class="columns">
        <Section title="By owner">
          <Sums sums={runs.by_owner} word="Owner" />
        </Section>
        <Section title="By kind">
          <Sums sums={runs.by_kind} word="Kind" kinds />
        </Section>
      </div>
      <Section title="Runs" count={integer(runs.total)}>
        <DataTable
          caption="Runs, newest first"
          columns={columnsOf(runs.runs, table)}
          lines={runs.runs}
          id={(run) => `${run.table} ${run.plan}`}
          pageSize={50}
          order={{ key: "ended", descending: true }}
        />
        {runs.total > runs.runs.length && (
          <p class="muted">The newest {integer(runs.runs.length)} are shown; the sums have all.</p>
        )}
      </Section>
    </>
  );
}

function Missing({ missing }: { missing: string[] }) {
  if (missing.length === 0) return null;
  return (
    <Notice tone="warning">
      Without {missing.slice(0, 3).join("; ")}
      {missing.length > 3 && ` and ${missing.length - 3} more`}
    </Notice>
  );
}

function Sums({ sums, word, kinds = false }: { sums: RunSum[]; word: string; kinds?: boolean }) {
  const most = Math.max(1, ...sums.map((sum) => sum.seconds));
  const columns: DataColumn<RunSum>[] = [
    {
      key: "name",
      title: word,
      main: true,
      wide: true,
      by: (sum) => sum.name,
      cell: (sum) => (kinds ? <Kind kind={sum.name} /> : sum.name),
    },
    {
      key: "runs",
      title: "Runs",
      number: true,
      by: (sum) => sum.runs,
      cell: (sum) => integer(sum.runs),
    },
    {
      key: "seconds",
      title: "Work",
      by: (sum) => sum.seconds,
      cell: (sum) => <Length most={most} value={sum.seconds} text={duration(sum.seconds)} />,
    },
    {
      key: "files",
      title: "Files removed",
      number: true,
      by: (sum) => sum.files_removed,
      cell: (sum) => integer(sum.files_removed),
    },
    {
      key: "bytes",
      title: "Read",
      number: true,
      by: (sum) => sum.bytes_read,
      cell: (sum) => bytes(sum.bytes_read),
    },
  ];
  return (
    <DataTable
      caption={`Sums by ${word.toLowerCase()}`}
      columns={columns}
      lines={sums}
      id={(sum) => sum.name}
      order={{ key: "seconds", descending: true }}
      pageSize={12}
    />
  );
}

function columnsOf(runs: Run[], table: string | null): DataColumn<Run>[] {
  const most = Math.max(1, ...runs.map((run) => run.inputs));
  const ofTable: DataColumn<Run>[] = table
    ? []
    : [
        {
          key: "table",
          title: "Table",
          main: true,
          by: (run) => run.table,
          cell: (run) => <a href={tableHash(run.table, "runs")}>{run.table}</a>,
        },
      ];
  return [
    {
      key: "ended",
      title: "Ended",
      by: (run) => run.ended,
      cell: (run) => (
        <span class="nowrap">
          <Time at={run.ended} age />
        </span>
      ),
    },
    ...ofTable,
    { key: "kind", title: "Kind", by: (run) => run.kind, cell: (run) => <Kind kind={run.kind} /> },
    {
      key: "where",
      title: "Where",
      main: table !== null,
      by: (run) => run.interval,
      cell: (run) => <span class="nowrap num">{place(run.interval)}</span>,
    },
    {
      key: "files",
      title: "Files",
      hint: "Files read and files written",
      by: (run) => run.inputs,
      cell: (run) => (
        <Pair
          most={most}
          first={{ name: "read", value: run.inputs, text: `${integer(run.inputs)} →` }}
          second={{ name: "written", value: run.outputs, text: integer(run.outputs) }}
        />
      ),
    },
    {
      key: "read",
      title: "Read",
      number: true,
      by: (run) => run.bytes_read,
      cell: (run) => bytes(run.bytes_read),
    },
    {
      key: "written",
      title: "Written",
      number: true,
      drop: true,
      by: (run) => run.bytes_written,
      cell: (run) => bytes(run.bytes_written),
    },
    {
      key: "waited",
      title: "Waited",
      number: true,
      drop: true,
      by: (run) => run.waited_seconds,
      cell: (run) => duration(run.waited_seconds),
    },
    {
      key: "seconds",
      title: "Worked",
      number: true,
      by: (run) => run.seconds,
      cell: (run) => (run.seconds ? duration(run.seconds) : <span class="faint">–</span>),
    },
    {
      key: "gain",
      title: "Gained",
      number: true,
      by: (run) => run.gain,
      cell: (run) => percent(run.gain),
    },
    {
      key: "owner",
      title: "Owner",
      by: (run) => run.owner,
      cell: (run) => <Author author={run.owner} task={run.task} />,
    },
    {
      key: "event",
      title: "Event",
      number: true,
      by: (run) => run.event,
      cell: (run) => (
        <a href={tableHash(run.table, "timeline", { event: String(run.event) })}>
          {integer(run.event)}
        </a>
      ),
    },
  ];
}
