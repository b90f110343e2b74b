// A simulation of other properties: the plans of now and then, the difference in numbers, where in time
// plans would begin, and the places that are treated otherwise. Nothing is written.

import { useState } from "preact/hooks";
import { address, Refused, simulate, useAnswer } from "../answers.ts";
import type { PlanOffer, Property, Simulation, SimulationOutcome, TableShown } from "../api.ts";
import { bytes, counted, duration, ends, integer, place, readable, short } from "../format.ts";
import { Pair, type StripMark, TimeStrip } from "../parts/charts.tsx";
import { DataTable } from "../parts/data_table.tsx";
import { Icon } from "../parts/icons.tsx";
import { kindClass, Section, Where } from "../parts/marks.tsx";
import { Notice } from "../parts/states.tsx";

interface Row {
  name: string;
  value: string;
}

type Trial =
  | { state: "idle" | "asking" }
  | { state: "answered"; found: Simulation }
  | { state: "refused"; refused: Refused };

export function Simulate({ table }: { table: string }) {
  const view = useAnswer<TableShown>(address("api/table", { table }));
  const properties =
    view.data?.properties.filter((each) => each.name.startsWith("compaction")) ?? [];
  const [rows, setRows] = useState<Row[]>([{ name: "compaction.min_segments", value: "" }]);
  const [trial, setTrial] = useState<Trial>({ state: "idle" });
  const filled = rows.filter((row) => row.name);
  const run = async () => {
    setTrial({ state: "asking" });
    try {
      const found = await simulate<Simulation>(
        table,
        Object.fromEntries(filled.map((row) => [row.name, row.value])),
      );
      setTrial({ state: "answered", found });
    } catch (cause) {
      if (!(cause instanceof Refused)) throw cause;
      setTrial({ state: "refused", refused: cause });
    }
  };
  const change = (n: number, changes: Partial<Row>) =>
    setRows(rows.map((row, at) => (at === n ? { ...row, ...changes } : row)));
  return (
    <Section title="Simulate other properties">
      <form
        class="simulate"
        onSubmit={(event) => {
          event.preventDefault();
          void run();
        }}
      >
        <datalist id="property-names">
          {properties.map((property) => (
            <option key={property.name} value={property.name} />
          ))}
        </datalist>
        {rows.map((row, n) => (
          <div key={n} class="pair-of-inputs">
            <input
              aria-label={`Property ${n + 1}`}
              list="property-names"
              placeholder="property"
              value={row.name}
              onInput={(event) => change(n, { name: event.currentTarget.value })}
            />
            <input
              aria-label={`Value ${n + 1}`}
              placeholder={presentValue(properties, row.name)}
              value={row.value}
              onInput={(event) => change(n, { value: event.currentTarget.value })}
            />
            {rows.length > 1 && (
              <button
                type="button"
                class="quiet"
                aria-label={`Remove property ${n + 1}`}
                onClick={() => setRows(rows.filter((_, at) => at !== n))}
              >
                <Icon name="close" />
              </button>
            )}
          </div>
        ))}
        <p class="buttons">
          <button type="submit" disabled={filled.length === 0 || trial.state === "asking"}>
            {trial.state === "asking" ? "Planning …" : "Simulate"}
          </button>
          <button
            type="button"
            class="quiet"
            onClick={() => setRows([...rows, { name: "", value: "" }])}
          >
            <Icon name="plus" /> another property
          </button>
          <span class="muted">nothing is written</span>
        </p>
      </form>
      {trial.state === "refused" && <Notice tone="ill">{trial.refused.failure.message}</Notice>}
      {trial.state === "answered" && <Difference found={trial.found} />}
    </Section>
  );
}

function presentValue(properties: Property[], name: string): string {
  const found = properties.find((property) => property.name === name);
  return found ? `now ${found.value}` : "value";
}

function Difference({ found }: { found: Simulation }) {
  const { before, after, difference } = found;
  const everything = [...before.chosen, ...after.chosen];
  const times = everything.flatMap((plan) => ends(plan.place.interval)).filter(Number.isFinite);
  const rows: [string, (outcome: SimulationOutcome) => number, (value: number) => string][] = [
    ["Plans", (outcome) => outcome.chosen_total, integer],
    ["Input files", (outcome) => outcome.segments, integer],
    ["Output files", (outcome) => outcome.outputs, integer],
    ["Bytes to copy", (outcome) => outcome.bytes, bytes],
    ["Time, one after the other", (outcome) => outcome.seconds, duration],
    ["Small files left", (outcome) => outcome.small_files, short],
  ];
  return (
    <div class="difference">
      <p class="sentence">{readable(difference.sentence)}</p>
      <p class="muted">
        {difference.properties
          .map((each) => `${each.name}: ${each.before || "default"} → ${each.after || "default"}`)
          .join(" · ")}
      </p>
      <div class="columns">
        <DataTable
          caption="Before and after"
          lines={rows}
          id={([title]) => title}
          columns={[
            { key: "title", title: "", name: "Measure", main: true, cell: ([title]) => title },
            { key: "before", title: "Now", number: true, cell: ([, of, text]) => text(of(before)) },
            {
              key: "after",
              title: "With these",
              number: true,
              cell: ([, of, text]) => <b>{text(of(after))}</b>,
            },
            {
              key: "bars",
              title: "",
              name: "Compared",
              drop: true,
              cell: ([, of]) => (
                <Pair
                  most={Math.max(of(before), of(after), 1e-9)}
                  first={{ name: "", value: of(before), text: "" }}
                  second={{ name: "", value: of(after), text: "" }}
                />
              ),
            },
          ]}
        />
        {times.length > 0 && (
          <div>
            <h3>Where plans would begin</h3>
            <TimeStrip
              start={Math.min(...times)}
              end={Math.max(...times)}
              marks={[]}
              rows={[
                { name: "now", marks: marks(before.chosen) },
                { name: "with these", marks: marks(after.chosen) },
              ]}
              label={`Where plans would begin: ${counted(before.chosen.length, "plan")} now, ${after.chosen.length} with these properties`}
            />
          </div>
        )}
      </div>
      {difference.places.length > 0 && (
        <DataTable
          caption="Places that are treated otherwise"
          lines={difference.places}
          id={(each) => `${each.place.interval} ${each.place.bucket} ${each.place.partitions}`}
          pageSize={20}
          columns={[
            {
              key: "where",
              title: "Where",
              main: true,
              cell: (each) => <Where each={each.place} />,
            },
            {
              key: "before",
              title: "Now",
              cell: (each) => (
                <span class={each.ends ? "" : "muted"}>{readable(each.before) || "nothing"}</span>
              ),
            },
            {
              key: "after",
              title: "With these",
              cell: (each) => (
                <span class={each.begins ? "" : "muted"}>{readable(each.after) || "nothing"}</span>
              ),
            },
          ]}
        />
      )}
    </div>
  );
}

function marks(plans: PlanOffer[]): StripMark[] {
  return plans.map((plan) => {
    const [start, end] = ends(plan.place.interval);
    return {
      start,
      end,
      className: kindClass(plan.kind),
      title: `${plan.kind} over ${place(plan.place.interval)}: ${plan.reason}`,
    };
  });
}
