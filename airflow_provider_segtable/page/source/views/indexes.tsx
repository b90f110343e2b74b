// Indexes: what each keeps, what it lacks and since when, its lag over time; and a condition
// explained as a picture: which steps leave which files out.

import { ActionButton } from "../actions.tsx";
import { address, useAnswer } from "../answers.ts";
import type { Indexes, IndexLine } from "../api.ts";
import { bytes, counted, duration, ends, integer, percent, place } from "../format.ts";
import { Meter, TimePlot, TimeStrip } from "../parts/charts.tsx";
import { Chip, Facts, Section } from "../parts/marks.tsx";
import { Answered, Empty, Notice } from "../parts/states.tsx";
import type { Route } from "../route.ts";
import { Explain } from "./explain.tsx";

type TableRoute = Extract<Route, { page: "table" }>;

export function IndexesView({ route }: { route: TableRoute }) {
  const { table } = route;
  const asked = useAnswer<Indexes>(address("api/indexes", { table }), { table });
  return (
    <Answered asked={asked} what="indexes">
      {({ indexes, planner_builds }) => (
        <>
          <div class="actions">
            <ActionButton action="index" table={table} given={{}} />
          </div>
          {indexes.length === 0 && (
            <Empty>This table has no index: reads open every file of the time they ask for.</Empty>
          )}
          {indexes.some((each) => !each.current) && !planner_builds && (
            <Notice tone="info">
              The planner does not build what is lacking: compaction.indexes is off.
            </Notice>
          )}
          {indexes.map((index) => (
            <Index key={index.id} index={index} table={table} />
          ))}
          <Explain route={route} />
        </>
      )}
    </Answered>
  );
}

function Index({ index, table }: { index: IndexLine; table: string }) {
  const on = index.columns.length ? ` on ${index.columns.join(", ")}` : "";
  const share = index.files ? (index.indexed ?? 0) / index.files : null;
  const settings = Object.entries(index.settings)
    .map(([name, value]) => `${name} ${value}`)
    .join(", ");
  const beside = (
    <>
      <Chip tone={index.current ? "plain" : "warning"}>
        {index.current
          ? "up to date"
          : index.lag_commits
            ? `${counted(index.lag_commits, "commit")} behind`
            : index.plan_status
              ? index.status
              : "not built"}
      </Chip>
      <span class="grow" />
      {!index.current && (
        <ActionButton action="build_index" table={table} given={{ name: index.name }} />
      )}
      <ActionButton action="rebuild_index" table={table} given={{ name: index.name }} />
    </>
  );
  return (
    <Section
      title={index.name}
      count={`${index.kind}${on}${settings ? `, ${settings}` : ""}`}
      beside={beside}
    >
      {index.trouble && <Notice tone="warning">{index.trouble}</Notice>}
      <Facts
        facts={[
          [
            "Files with entries",
            index.files === null ? "–" : `${integer(index.indexed)} of ${integer(index.files)}`,
            share === null ? undefined : (
              <Meter share={share} label={percent(share)} className={share < 1 ? "fill" : "good"} />
            ),
          ],
          [
            "Behind",
            index.lag_commits
              ? counted(index.lag_commits, "commit")
              : index.current
                ? "nothing"
                : "–",
            index.lag_seconds ? duration(index.lag_seconds) : undefined,
          ],
          ["Entries", integer(index.entries)],
          [
            "Own size",
            bytes(index.own_bytes),
            index.own_files === null ? undefined : counted(index.own_files, "file"),
          ],
          [
            "Plan",
            index.plan_status ?? "none",
            index.plan_age_seconds === null
              ? undefined
              : `since ${duration(index.plan_age_seconds)}`,
          ],
        ]}
      />
      {index.lacking.length > 0 && <Lacking index={index} />}
      {index.history.length > 1 && index.history.some((point) => point.lag_seconds > 0) && (
        <>
          <h3 class="sub">Lag over time</h3>
          <TimePlot
            height={120}
            label={`Lag of ${index.name} over time, now ${duration(index.lag_seconds)}`}
            text={duration}
            base={60}
            series={[
              {
                name: "lag",
                className: "s-second",
                area: true,
                points: index.history.map((point) => ({
                  at: Date.parse(point.at),
                  value: point.lag_seconds,
                })),
              },
            ]}
          />
        </>
      )}
    </Section>
  );
}

function Lacking({ index }: { index: IndexLine }) {
  const marks = index.lacking.map((gap) => {
    const [start, end] = ends(gap.interval);
    return {
      start,
      end,
      className: "over",
      title: `${place(gap.interval)}: lacks event ${gap.event}`,
    };
  });
  const [start, end] = [
    Math.min(...marks.map((mark) => mark.start)),
    Math.max(...marks.map((mark) => mark.end)),
  ];
  const margin = (end - start) * 0.1;
  const words = index.lacking
    .slice(0, 4)
    .map((gap) => `${place(gap.interval)} (event ${gap.event})`)
    .join(", ");
  return (
    <>
      <h3 class="sub">What it lacks</h3>
      <p>
        {words}
        {index.lacking_total > 4 && ` and ${integer(index.lacking_total - 4)} more`}
      </p>
      <TimeStrip
        start={start - margin}
        end={end + margin}
        marks={marks}
        label={`Times that ${index.name} lacks: ${words}`}
      />
    </>
  );
}
