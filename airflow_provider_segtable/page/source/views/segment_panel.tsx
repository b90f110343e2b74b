// A segment in full: why it is visible or hidden, what stands above and below it, its row groups.

import { address, useAnswer } from "../answers.ts";
import type { RowGroup, SegmentInFull } from "../api.ts";
import { bytes, integer, interval, percent, readable, short } from "../format.ts";
import { useWidth } from "../parts/charts.tsx";
import { type DataColumn, DataTable } from "../parts/data_table.tsx";
import { Icon } from "../parts/icons.tsx";
import { Facts, Section, Time } from "../parts/marks.tsx";
import { Answered, Notice } from "../parts/states.tsx";
import { tableHash } from "../route.ts";

const SHOWN_IDS = 8;

export function SegmentPanel(props: {
  table: string;
  id: string;
  version: number | null;
  close: () => void;
  select: (id: string) => void;
}) {
  const { table, id, version, close } = props;
  const asked = useAnswer<SegmentInFull>(address("api/segment", { table, id, version }));
  const beside = (
    <button type="button" class="quiet" onClick={close} aria-label="Close the segment">
      <Icon name="close" />
    </button>
  );
  return (
    <Section title="Segment" count={id} beside={beside}>
      <Answered asked={asked} what="segment">
        {(segment) => <InFull segment={segment} {...props} />}
      </Answered>
    </Section>
  );
}

function InFull(props: { segment: SegmentInFull; table: string; select: (id: string) => void }) {
  const { segment, table, select } = props;
  const { cell } = segment;
  return (
    <div class="in-full">
      <p class="sentence">{readable(segment.why)}</p>
      <Ids title="Hidden by" ids={segment.replaced_by} select={select} />
      <Ids title="Stands on" ids={segment.replaces} select={select} />
      <Facts
        facts={[
          ["Size", bytes(cell.bytes)],
          [
            "Rows",
            short(cell.rows),
            segment.events === cell.rows ? undefined : `of ${short(segment.events)} ingested`,
          ],
          ["Deleted", percent(cell.deleted_share)],
          ["Order", cell.clustering || "none promised"],
          ["Event times", interval(segment.time_min, segment.time_max)],
          ["Written", <Time at={cell.created} age />],
        ]}
      />
      <dl class="lines">
        <div>
          <dt>File</dt>
          <dd>
            <code>{segment.path || "none: a tombstone"}</code>{" "}
            {segment.adopted && "(adopted: another program wrote it)"}
          </dd>
        </div>
        <div>
          <dt>Group</dt>
          <dd>{segment.group}</dd>
        </div>
        {segment.origin && (
          <div>
            <dt>Carried over from</dt>
            <dd>
              <code>{segment.origin}</code>
            </dd>
          </div>
        )}
        {segment.plan && (
          <div>
            <dt>Written by plan</dt>
            <dd>
              <a href={tableHash(table, "timeline", { search: segment.plan })}>{segment.plan}</a>
            </dd>
          </div>
        )}
      </dl>
      {segment.trouble && (
        <Notice tone="warning">Its row groups are not known: {segment.trouble}</Notice>
      )}
      {segment.row_groups.length > 0 && <RowGroups groups={segment.row_groups} />}
    </div>
  );
}

function Ids({
  title,
  ids,
  select,
}: {
  title: string;
  ids: string[];
  select: (id: string) => void;
}) {
  if (ids.length === 0) return null;
  return (
    <p class="ids">
      <span class="muted">{title}</span>
      {ids.slice(0, SHOWN_IDS).map((id) => (
        <button key={id} type="button" class="link" onClick={() => select(id)}>
          <code>{id}</code>
        </button>
      ))}
      {ids.length > SHOWN_IDS && <span class="muted">and {ids.length - SHOWN_IDS} more</span>}
    </p>
  );
}

function RowGroups({ groups }: { groups: RowGroup[] }) {
  const [box, width] = useWidth<HTMLDivElement>();
  const all = groups.reduce((sum, group) => sum + group.rows, 0);
  let before = 0;
  return (
    <div class="row-groups" ref={box}>
      <h3>Row groups</h3>
      {width > 0 && (
        <svg
          width={width}
          height="22"
          role="img"
          aria-label={`${groups.length} row groups, widths by rows`}
        >
          {groups.map((group) => {
            const x = (before / all) * width;
            before += group.rows;
            const wide = (group.rows / all) * width;
            return (
              <g key={group.number}>
                <rect class="fill" x={x} width={Math.max(1, wide - 1)} height="22" />
                {wide > 24 && (
                  <text class="on-fill" x={x + wide / 2} y="15" text-anchor="middle">
                    {group.number}
                  </text>
                )}
              </g>
            );
          })}
        </svg>
      )}
      <DataTable
        caption="Row groups"
        columns={columnsOf(groups)}
        lines={groups}
        id={(group) => String(group.number)}
        pageSize={20}
      />
    </div>
  );
}

const MOST_COLUMNS = 6;

function columnsOf(groups: RowGroup[]): DataColumn<RowGroup>[] {
  const names = [
    ...new Set(groups.flatMap((group) => group.columns.map((column) => column.column))),
  ].slice(0, MOST_COLUMNS);
  return [
    { key: "number", title: "Row group", number: true, main: true, cell: (group) => group.number },
    { key: "rows", title: "Rows", number: true, cell: (group) => integer(group.rows) },
    { key: "bytes", title: "Size", number: true, cell: (group) => bytes(group.bytes) },
    ...names.map((name) => ({
      key: `c ${name}`,
      title: name,
      cell: (group: RowGroup) => {
        const found = group.columns.find((column) => column.column === name);
        if (!found || found.least === null) return <span class="faint">–</span>;
        return (
          <span class="num">
            {found.least} … {found.greatest}
            {found.nulls ? <span class="muted">, {integer(found.nulls)} null</span> : ""}
          </span>
        );
      },
    })),
  ];
}
