// The cells in sight as a table: the same as the picture.

import { useMemo, useState } from "preact/hooks";
import type { Cell, SegmentMap } from "../api.ts";
import { bytes, integer, interval, percent, short } from "../format.ts";
import { type DataColumn, DataTable } from "../parts/data_table.tsx";
import { Time } from "../parts/marks.tsx";
import type { Range } from "./layout.ts";
import { described } from "./words.ts";

const COLUMNS: DataColumn<Cell>[] = [
  {
    key: "start",
    title: "Time",
    main: true,
    by: (cell) => cell.start,
    cell: (cell) => <span class="nowrap num">{interval(cell.start, cell.end)}</span>,
  },
  {
    key: "state",
    title: "State",
    by: (cell) => cell.state,
    cell: (cell) => (cell.tombstone ? "tombstone" : cell.state),
  },
  {
    key: "segments",
    title: "Segments",
    number: true,
    by: (cell) => cell.segments,
    cell: (cell) => integer(cell.segments),
  },
  {
    key: "bytes",
    title: "Size",
    number: true,
    by: (cell) => cell.bytes,
    cell: (cell) => bytes(cell.bytes),
  },
  {
    key: "rows",
    title: "Rows",
    number: true,
    by: (cell) => cell.rows,
    cell: (cell) => short(cell.rows),
  },
  {
    key: "generation",
    title: "Generation",
    number: true,
    by: (cell) => cell.generation,
    cell: (cell) => cell.generation,
  },
  {
    key: "roots",
    title: "Roots",
    cell: (cell) => (cell.roots ? `[${cell.roots[0]}, ${cell.roots[1]})` : ""),
  },
  {
    key: "sorted",
    title: "Sorted",
    number: true,
    by: (cell) => cell.sorted_share,
    cell: (cell) => percent(cell.sorted_share),
  },
  {
    key: "deleted",
    title: "Deleted",
    number: true,
    by: (cell) => cell.deleted_share,
    cell: (cell) => percent(cell.deleted_share),
  },
  {
    key: "created",
    title: "Written",
    by: (cell) => cell.created,
    cell: (cell) => <Time at={cell.created} age />,
  },
];

export function CellTable(props: {
  map: SegmentMap;
  range: Range;
  selected: string | null;
  select: (id: string) => void;
}) {
  const { map, range, select } = props;
  const [open, setOpen] = useState(false);
  const cells = map.cells.filter(
    (cell) => Date.parse(cell.end) > range.start && Date.parse(cell.start) < range.end,
  );
  const columns = useMemo(
    () => [
      ...COLUMNS,
      {
        key: "show",
        title: "",
        name: "Select",
        cell: (cell: Cell) => (
          <button
            type="button"
            class="link"
            onClick={() => select(cell.id)}
            aria-label={`Select ${described(cell)}`}
          >
            Select
          </button>
        ),
      },
    ],
    [select],
  );
  return (
    <details class="same" open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>The same as a table ({integer(cells.length)} lines)</summary>
      {open && (
        <DataTable
          caption="Segments in sight"
          columns={columns}
          lines={cells}
          id={(cell) => cell.id}
          pageSize={50}
          selected={props.selected}
          order={{ key: "start", descending: true }}
        />
      )}
    </details>
  );
}
