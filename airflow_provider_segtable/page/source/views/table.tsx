// A table at a glance: size and health, growth, columns with their history, properties with where
// each value comes from, and the readers that cleaning has to spare.

import { useEffect, useState } from "preact/hooks";
import { ActionButton } from "../actions.tsx";
import { type Asked, address, useAnswer } from "../answers.ts";
import type {
  Aim,
  ColumnShown,
  ConsumerShown,
  FindingShown,
  Growth,
  GrowthShown,
  HealthShown,
  Property,
  TableShown,
  Tag,
} from "../api.ts";
import { bytes, duration, integer, percent, place, readable, short } from "../format.ts";
import { Meter, TimePlot } from "../parts/charts.tsx";
import { Choice } from "../parts/choice.tsx";
import { type DataColumn, DataTable } from "../parts/data_table.tsx";
import { HealthMark, OF_SEVERITY, SEVERITY_WORDS } from "../parts/icons.tsx";
import { Chip, Command, Facts, Section, Time } from "../parts/marks.tsx";
import { Answered, Empty, Notice } from "../parts/states.tsx";
import { tableHash } from "../route.ts";

export function TableOverview({ table }: { table: string }) {
  const asked = useAnswer<TableShown>(address("api/table", { table }), { table });
  useDoctor(asked);
  return (
    <Answered asked={asked} what="table">
      {(view) => (
        <>
          <Numbers view={view} version={asked.answer?.version ?? 0} />
          <div class="actions">
            <ActionButton action="plan" table={table} given={{}} />
            <ActionButton action="clean" table={table} given={{}} />
            <ActionButton
              action="tag"
              table={table}
              given={{ version: asked.answer?.version ?? 0 }}
            >
              Tag this version
            </ActionButton>
          </div>
          <Health health={view.health} table={table} />
          {view.aims.length > 0 && <Aims aims={view.aims} />}
          <GrowthSection table={table} />
          <Columns view={view} />
          <Readers view={view} table={table} />
          <Needs needs={view.needs} />
          <Properties properties={view.properties} />
        </>
      )}
    </Answered>
  );
}

const DOCTOR_MS = 2000;

// The doctor takes longer than a page should: what it finds is asked for a little later.
function useDoctor(asked: Asked<TableShown>): void {
  const isLate = asked.data !== null && asked.data.health.late !== "";
  useEffect(() => {
    if (!isLate || asked.asking) return undefined;
    const timer = setTimeout(asked.again, DOCTOR_MS);
    return () => clearTimeout(timer);
  }, [isLate, asked.asking]);
}

function Numbers({ view, version }: { view: TableShown; version: number }) {
  const { counts } = view;
  const deleted = counts.deleted_rows / Math.max(1, counts.rows);
  const small = counts.small_segments
    ? `${integer(counts.small_segments)} under ${bytes(counts.small_below_bytes)}`
    : `none under ${bytes(counts.small_below_bytes)}`;
  const settings = Object.entries(view.kind_settings).map(
    ([name, value]) => `${name.replace(/_/g, " ")} ${String(value)}`,
  );
  return (
    <Facts
      facts={[
        ["Size", bytes(counts.bytes)],
        [
          "Rows",
          short(counts.rows),
          counts.deleted_rows ? `${percent(deleted)} of them deleted` : "none deleted",
        ],
        [
          "Files",
          integer(counts.segments),
          <Small counts={counts} small={small} table={view.name} />,
        ],
        [
          "Hidden behind them",
          integer(counts.hidden_segments),
          view.read_amplification === null
            ? undefined
            : `a read merges ${view.read_amplification} runs`,
        ],
        [
          "Time chunks",
          integer(counts.chunks),
          `of a ${view.granularity}${view.overrides.length ? `, ${view.overrides.length} times otherwise` : ""}`,
        ],
        ["Version", integer(version), <Time at={view.committed} age />],
        ["Kind", view.kind, settings.join(", ") || undefined],
      ]}
    />
  );
}

function Small({
  counts,
  small,
  table,
}: {
  counts: TableShown["counts"];
  small: string;
  table: string;
}) {
  const { worst_interval: worst, worst_small_segments: most } = counts;
  const [start = "", end = ""] = worst?.split("/") ?? [];
  if (!worst || most < 2) return <>{small}</>;
  return (
    <>
      {small}; most in <a href={tableHash(table, "map", { start, end })}>{place(worst)}</a>
    </>
  );
}

function Health({ health, table }: { health: HealthShown; table: string }) {
  const { findings } = health;
  const beside = (
    <span class="muted">
      {health.examined}
      {health.as_of && (
        <>
          , <Time at={health.as_of} age />
        </>
      )}
    </span>
  );
  return (
    <Section title="Health" count={findings.length || ""} beside={beside}>
      {health.late && <Notice tone="info">The doctor has not answered yet: {health.late}</Notice>}
      {findings.length === 0 ? (
        <Empty>
          {health.late || health.examined === "at a glance"
            ? "Nothing is wrong at a glance."
            : "The doctor finds nothing wrong."}
        </Empty>
      ) : (
        <ul class="findings">
          {findings.map((finding) => (
            <FindingLine key={`${finding.code} ${finding.where}`} finding={finding} table={table} />
          ))}
        </ul>
      )}
    </Section>
  );
}

function FindingLine({ finding, table }: { finding: FindingShown; table: string }) {
  return (
    <li>
      <HealthMark health={OF_SEVERITY[finding.severity]} word={SEVERITY_WORDS[finding.severity]} />
      <div>
        <p>
          {!finding.where.endsWith(`/${table}`) && <b>{readable(finding.where)}: </b>}
          {readable(finding.what)}
        </p>
        <p class="muted">{finding.why}</p>
        <p class="way">
          <span class="muted">Way out:</span> {finding.do.replace(/\bTABLE\b/g, table)}
        </p>
      </div>
      <code class="code">{finding.code}</code>
    </li>
  );
}

function Aims({ aims }: { aims: Aim[] }) {
  return (
    <Section title="Objective">
      <ul class="aims">
        {aims.map((aim) => (
          <li key={aim.name}>
            <HealthMark
              health={aim.missed ? "warning" : "ok"}
              word={aim.missed ? "missed" : "met"}
            />
            <span class="grow">{aim.sentence}</span>
            <Meter
              mark={0.5}
              share={Math.min(1, aim.found / (aim.aim * 2 || 1))}
              className={aim.missed ? "over" : "fill"}
              label={aim.sentence}
            />
          </li>
        ))}
      </ul>
    </Section>
  );
}

// ---- growth ----

const MEASURES = {
  bytes: { title: "Size", text: bytes, base: 1024 },
  files: { title: "Files", text: short, base: 10 },
  rows: { title: "Rows", text: short, base: 10 },
} as const;

type Measure = keyof typeof MEASURES;

function GrowthSection({ table }: { table: string }) {
  const [measure, setMeasure] = useState<Measure>("bytes");
  const asked = useAnswer<Growth>(address("api/growth", { table }), { table });
  const chosen = MEASURES[measure];
  return (
    <Section
      title="Growth"
      beside={<Choice value={measure} options={titles()} change={setMeasure} label="Measure" />}
    >
      <Answered asked={asked} what="growth">
        {({ points }) =>
          points.length < 2 ? (
            <Empty>The log has fewer than two versions, so there is nothing to compare.</Empty>
          ) : (
            <TimePlot
              label={`${chosen.title} over time, from ${chosen.text(points[0]?.[measure] ?? 0)} to ${chosen.text(points[points.length - 1]?.[measure] ?? 0)}`}
              text={chosen.text}
              base={chosen.base}
              series={series(points, measure)}
            />
          )
        }
      </Answered>
    </Section>
  );
}

function titles(): [Measure, string][] {
  return (Object.keys(MEASURES) as Measure[]).map((key) => [key, MEASURES[key].title]);
}

function series(points: GrowthShown[], measure: Measure) {
  const drawn = (key: Measure | "small") =>
    points.map((point) => ({ at: Date.parse(point.at), value: point[key] }));
  const first = {
    name: MEASURES[measure].title.toLowerCase(),
    points: drawn(measure),
    className: "s-main",
    area: true,
  };
  if (measure !== "files") return [first];
  return [first, { name: "small ones", points: drawn("small"), className: "s-second" }];
}

// ---- columns ----

function Columns({ view }: { view: TableShown }) {
  const present = view.columns.filter((column) => !column.dropped).length;
  return (
    <Section title="Columns" count={integer(present)}>
      <DataTable
        caption="Columns"
        columns={columnsOf(view)}
        lines={view.columns}
        id={(column) => String(column.id)}
        pageSize={50}
        lineClass={(column) => (column.dropped ? "dropped" : "")}
      />
    </Section>
  );
}

function columnsOf(view: TableShown): DataColumn<ColumnShown>[] {
  return [
    {
      key: "name",
      title: "Name",
      main: true,
      cell: (column) => (
        <>
          <b>{column.name}</b>{" "}
          {column.name === view.time_column && !column.dropped && <Chip>event time</Chip>}
          {column.dropped && <Chip tone="faint">dropped</Chip>}
        </>
      ),
    },
    { key: "type", title: "Type", cell: (column) => <code>{column.type}</code> },
    {
      key: "nullable",
      title: "Null",
      cell: (column) => (column.nullable ? "yes" : <span class="muted">no</span>),
    },
    {
      key: "default",
      title: "Default",
      hint: "In rows that were written before it was added",
      cell: (column) => column.default ?? <span class="faint">none</span>,
    },
    {
      key: "history",
      title: "History",
      wide: true,
      cell: (column) =>
        column.changes.length === 0 ? (
          <span class="faint">as created</span>
        ) : (
          <ul class="plain">
            {column.changes.map((change) => (
              <li key={`${change.schema_number} ${change.change}`}>
                {change.change} <span class="muted">in schema {change.schema_number}</span>
              </li>
            ))}
          </ul>
        ),
    },
  ];
}

// ---- readers ----

// "Can I drop this?"
function Needs({ needs }: { needs: TableShown["needs"] }) {
  return (
    <Section title="Who would miss it">
      <ul class="plain">
        {needs.sentences.map((sentence) => (
          <li key={sentence}>{sentence}</li>
        ))}
      </ul>
      <p class="muted">This lists what a drop would delete, and deletes nothing:</p>
      <Command text={needs.command} />
    </Section>
  );
}

function Readers({ view, table }: { view: TableShown; table: string }) {
  const { tags, consumers } = view.readers;
  return (
    <Section title="Who reads" count={tags.length + consumers.length || ""}>
      {tags.length + consumers.length === 0 ? (
        <Empty>No tag and no consumer: cleaning goes by the retention alone.</Empty>
      ) : (
        <div class="columns">
          {consumers.length > 0 && (
            <DataTable
              caption="Consumers"
              columns={CONSUMERS}
              lines={consumers}
              id={(each) => each.name}
              pageSize={20}
            />
          )}
          {tags.length > 0 && (
            <DataTable
              caption="Tags"
              columns={tagColumns(table)}
              lines={tags}
              id={(each) => each.name}
              pageSize={20}
            />
          )}
        </div>
      )}
      <p class="muted">
        Versions from {integer(view.retained_from)} on are kept, and those with a tag.
      </p>
    </Section>
  );
}

const CONSUMERS: DataColumn<ConsumerShown>[] = [
  {
    key: "name",
    title: "Consumer",
    main: true,
    by: (each) => each.name,
    cell: (each) => <b>{each.name}</b>,
  },
  {
    key: "version",
    title: "Has read to",
    number: true,
    by: (each) => each.version,
    cell: (each) => integer(each.version),
  },
  {
    key: "lag",
    title: "Behind",
    number: true,
    by: (each) => each.lag_seconds,
    cell: (each) =>
      each.lost ? (
        <span class="ill-text">position lost</span>
      ) : each.lag_seconds ? (
        duration(each.lag_seconds)
      ) : (
        <span class="muted">up to date</span>
      ),
  },
  {
    key: "advanced",
    title: "Said so",
    number: true,
    by: (each) => each.advanced,
    cell: (each) => <Time at={each.advanced} age />,
  },
];

function tagColumns(table: string): DataColumn<Tag>[] {
  return [
    {
      key: "name",
      title: "Tag",
      main: true,
      by: (tag) => tag.name,
      cell: (tag) => <b>{tag.name}</b>,
    },
    {
      key: "version",
      title: "Version",
      number: true,
      by: (tag) => tag.version,
      cell: (tag) => integer(tag.version),
    },
    {
      key: "see",
      title: "",
      name: "Show",
      number: true,
      cell: (tag) => (
        <>
          <a href={tableHash(table, "map", { version: String(tag.version) })}>map</a> ·{" "}
          <a href={tableHash(table, "timeline", { event: String(tag.version) })}>event</a>{" "}
          <ActionButton quiet action="untag" table={table} given={{ name: tag.name }} />
        </>
      ),
    },
  ];
}

// ---- properties ----

function Properties({ properties }: { properties: Property[] }) {
  const [every, setEvery] = useState(false);
  const set = properties.filter((property) => property.origin !== "default");
  const shown = every ? properties : set;
  const beside = (
    <Choice
      label="Properties to show"
      value={every ? "all" : "set"}
      options={[
        ["set", `Set (${set.length})`],
        ["all", `All (${properties.length})`],
      ]}
      change={(value) => setEvery(value === "all")}
    />
  );
  return (
    <Section title="Properties" beside={beside}>
      {shown.length === 0 ? (
        <Empty>Every property has its default.</Empty>
      ) : (
        <DataTable
          caption="Properties"
          columns={PROPERTIES}
          lines={shown}
          id={(property) => property.name}
          pageSize={100}
        />
      )}
    </Section>
  );
}

const PROPERTIES: DataColumn<Property>[] = [
  {
    key: "name",
    title: "Property",
    main: true,
    by: (each) => each.name,
    cell: (each) => <code>{each.name}</code>,
  },
  {
    key: "value",
    title: "Value",
    cell: (each) => <b class="num">{each.value || <span class="faint">empty</span>}</b>,
  },
  {
    key: "origin",
    title: "From",
    by: (each) => each.origin,
    cell: (each) => (each.origin === "default" ? <span class="faint">default</span> : each.origin),
  },
  {
    key: "default",
    title: "Default, and what it wins over",
    wide: true,
    cell: (each) => (
      <span class="muted num">
        {each.default || "none"}
        {each.over
          .filter((over) => over.origin !== "default")
          .map((over) => (
            <span key={over.origin}>
              {" "}
              · {over.value} from {over.origin}
            </span>
          ))}
      </span>
    ),
  },
];
