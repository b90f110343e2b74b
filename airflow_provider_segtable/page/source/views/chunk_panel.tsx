// A time in the segment map: what happened to its segments and by whom, what will happen, and why
// nothing does.

import { ActionButton } from "../actions.tsx";
import { address, useAnswer } from "../answers.ts";
import type {
  Cell,
  ChunkChange,
  ChunkChanges,
  LeftAlone,
  PlanOffer,
  PlanProgress,
  Plans,
} from "../api.ts";
import { bytes, ends, integer, interval, readable, short } from "../format.ts";
import { type DataColumn, DataTable } from "../parts/data_table.tsx";
import { Icon } from "../parts/icons.tsx";
import { Facts, Kind, Section, Time } from "../parts/marks.tsx";
import { Answered, Empty } from "../parts/states.tsx";
import { tableHash } from "../route.ts";

const CHANGES = 50;

export function ChunkPanel(props: { table: string; cell: Cell; all: Cell[]; close: () => void }) {
  const { table, cell, all, close } = props;
  const here = all.filter((each) => each.start < cell.end && each.end > cell.start);
  const visible = here.filter((each) => each.state === "visible");
  const sum = (of: (each: Cell) => number) => visible.reduce((total, each) => total + of(each), 0);
  const hidden = here
    .filter((each) => each.state === "hidden")
    .reduce((total, each) => total + each.segments, 0);
  const beside = (
    <>
      <ActionButton
        action="compact"
        table={table}
        given={{ interval: `${cell.start}/${cell.end}` }}
      >
        Compact this time
      </ActionButton>
      <button type="button" class="quiet" onClick={close} aria-label="Close">
        <Icon name="close" />
      </button>
    </>
  );
  return (
    <Section title="Time" count={interval(cell.start, cell.end)} beside={beside}>
      <Facts
        facts={[
          [
            "Files",
            integer(sum((each) => each.segments)),
            sum((each) => each.small) ? `${integer(sum((each) => each.small))} small` : undefined,
          ],
          ["Size", bytes(sum((each) => each.bytes))],
          ["Rows", short(sum((each) => each.rows))],
          ["Hidden behind them", integer(hidden + sum((each) => each.hidden))],
        ]}
      />
      <div class="columns">
        <div>
          <h3 class="sub">What happens next, and why not</h3>
          <Next table={table} cell={cell} />
        </div>
        <div>
          <h3 class="sub">What happened</h3>
          <History table={table} cell={cell} />
        </div>
      </div>
    </Section>
  );
}

interface Reason {
  id: string;
  kind: string;
  word: string;
  sentence: string;
  until: string | null;
}

function Next({ table, cell }: { table: string; cell: Cell }) {
  const asked = useAnswer<Plans>(address("api/plans", { table, limit: 1000 }), { table });
  return (
    <Answered asked={asked} what="plans">
      {(plans) => {
        const reasons = reasonsOf(plans, cell);
        if (reasons.length === 0)
          return <Empty>Nothing is planned here, and nothing was left out for a reason.</Empty>;
        return (
          <DataTable
            caption="Plans and reasons of this time"
            columns={REASONS}
            lines={reasons}
            id={(each) => each.id}
            pageSize={10}
          />
        );
      }}
    </Answered>
  );
}

function reasonsOf(plans: Plans, cell: Cell): Reason[] {
  const [start, end] = [Date.parse(cell.start), Date.parse(cell.end)];
  const isHere = (each: PlanOffer | PlanProgress | LeftAlone) => {
    const [from, to] = ends(each.place.interval);
    const bucket = each.place.bucket;
    return (
      from < end &&
      to > start &&
      (bucket === null || cell.bucket === null || bucket === cell.bucket)
    );
  };
  const progress = (word: string) => (each: PlanProgress) => ({
    id: each.bar.id,
    kind: each.bar.kind,
    word,
    sentence: each.bar.reason,
    until: null,
  });
  return [
    ...plans.running.filter(isHere).map(progress("running")),
    ...plans.pending.filter(isHere).map(progress("pending")),
    ...plans.chosen.filter(isHere).map((each) => ({
      id: each.id,
      kind: each.kind,
      word: "would begin now",
      sentence: each.reason,
      until: null,
    })),
    ...plans.left.filter(isHere).map((each) => ({
      id: `${each.kind} ${each.code} ${each.place.interval} ${each.place.bucket} ${each.place.partitions}`,
      kind: each.kind,
      word: "left alone",
      sentence: each.sentence,
      until: each.until,
    })),
  ];
}

const REASONS: DataColumn<Reason>[] = [
  { key: "kind", title: "Kind", cell: (each) => <Kind kind={each.kind} /> },
  {
    key: "word",
    title: "State",
    cell: (each) => (
      <span class={each.word === "left alone" ? "muted nowrap" : "nowrap"}>{each.word}</span>
    ),
  },
  {
    key: "sentence",
    title: "Reason",
    main: true,
    wide: true,
    cell: (each) => (
      <>
        {readable(each.sentence)}
        {each.until && (
          <span class="muted">
            , until <Time at={each.until} age />
          </span>
        )}
      </>
    ),
  },
];

function History({ table, cell }: { table: string; cell: Cell }) {
  const asked = useAnswer<ChunkChanges>(
    address("api/map/changes", { table, start: cell.start, end: cell.end, limit: CHANGES }),
    { table },
  );
  return (
    <Answered asked={asked} what="changes">
      {(found) =>
        found.changes.length === 0 ? (
          <Empty>
            No event from {integer(found.scanned_from)} on changed segments of this time.
          </Empty>
        ) : (
          <DataTable
            caption="Events that changed this time, newest first"
            columns={changesOf(table)}
            lines={found.changes}
            id={(each) => String(each.n)}
            pageSize={10}
          />
        )
      }
    </Answered>
  );
}

function changesOf(table: string): DataColumn<ChunkChange>[] {
  return [
    {
      key: "n",
      title: "Event",
      number: true,
      cell: (each) => (
        <a href={tableHash(table, "timeline", { event: String(each.n) })}>{integer(each.n)}</a>
      ),
    },
    {
      key: "at",
      title: "When",
      cell: (each) => (
        <span class="nowrap">
          <Time at={each.at} age />
        </span>
      ),
    },
    {
      key: "sentence",
      title: "Change",
      main: true,
      wide: true,
      cell: (each) => readable(each.sentence),
    },
    {
      key: "author",
      title: "By",
      cell: (each) => (
        <span class="author" title={each.author}>
          {each.author}
        </span>
      ),
    },
  ];
}
