// A table of lines: aligned, sortable by its heads, stacked into cards where there is no width.
//
// 1. Roles are written out: as `display: block` on a phone, a table would lose them.
// 2. It sorts the lines itself, or leaves that to the server (`order`).
// 3. It shows a page of lines at a time, so a view stays light however long its list is.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { integer } from "../format.ts";
import { Icon } from "./icons.tsx";

export interface DataColumn<L> {
  key: string;
  title: string;
  name?: string; // for those who do not see it, where there is no title
  hint?: string;
  number?: boolean;
  main?: boolean; // the card's head on a phone
  wide?: boolean; // gets the rest of the width
  drop?: boolean; // left out on a phone
  by?: (line: L) => number | string | null; // sortable by it
  second?: { key: string; title: string }; // of what stands below, where the server sorts
  newest?: boolean; // the first choice of the order is descending, as it is for numbers
  cell: (line: L) => ComponentChildren;
}

export interface Order {
  key: string;
  descending: boolean;
}

interface Props<L> {
  caption: string;
  columns: DataColumn<L>[];
  lines: L[];
  id: (line: L) => string;
  order?: Order;
  onOrder?: (order: Order) => void; // the server sorts
  pageSize?: number;
  onLine?: (line: L) => void;
  selected?: string | null;
  below?: (line: L) => ComponentChildren; // shown below a selected line
  lineClass?: (line: L) => string;
}

export function DataTable<L>(props: Props<L>) {
  const [own, setOwn] = useState<Order | null>(props.onOrder ? null : (props.order ?? null));
  const [page, setPage] = useState(0);
  const order = props.onOrder ? (props.order ?? null) : own;
  const lines = props.onOrder ? props.lines : sorted(props.lines, props.columns, order);
  const size = props.pageSize ?? lines.length;
  const start = Math.min(page, Math.max(0, Math.ceil(lines.length / size) - 1)) * size;
  const shown = size < lines.length ? lines.slice(start, start + size) : lines;
  const choose = (key: string) => {
    const next = {
      key,
      descending: order?.key === key ? !order.descending : isFirstDescending(props, key),
    };
    if (props.onOrder) props.onOrder(next);
    else setOwn(next);
  };
  return (
    <>
      <div class="scroll">
        <table class="data" aria-label={props.caption}>
          <thead>
            <tr>
              {props.columns.map((column) => (
                <Head
                  key={column.key}
                  column={column}
                  order={order}
                  choose={choose}
                  server={!!props.onOrder}
                />
              ))}
            </tr>
          </thead>
          <tbody>
            {shown.map((line) => (
              <Line key={props.id(line)} line={line} {...props} />
            ))}
          </tbody>
        </table>
      </div>
      {size < lines.length && (
        <Pager start={start} size={size} total={lines.length} show={(at) => setPage(at / size)} />
      )}
    </>
  );
}

function isFirstDescending<L>(props: Props<L>, key: string): boolean {
  const column = props.columns.find((each) => each.key === key || each.second?.key === key);
  return column?.number === true || column?.newest === true;
}

function sorted<L>(lines: L[], columns: DataColumn<L>[], order: Order | null): L[] {
  const by = columns.find((column) => column.key === order?.key)?.by;
  if (!by || !order) return lines;
  const sign = order.descending ? -1 : 1;
  return [...lines].sort((a, b) => compared(by(a), by(b), sign));
}

// What is not known comes last in either order.
function compared(a: number | string | null, b: number | string | null, sign: number): number {
  if (a === null || b === null) return Number(a === null) - Number(b === null);
  if (typeof a === "number" && typeof b === "number") return sign * (a - b);
  return sign * String(a).localeCompare(String(b), "en", { numeric: true });
}

function Head<L>(props: {
  column: DataColumn<L>;
  order: Order | null;
  server: boolean;
  choose: (key: string) => void;
}) {
  const { column, order } = props;
  const mine = order !== null && [column.key, column.second?.key].includes(order.key);
  const sort = mine ? (order.descending ? "descending" : "ascending") : "none";
  return (
    <th
      scope="col"
      class={classes(column)}
      {...(column.by ? { "aria-sort": sort } : {})}
      {...(column.hint ? { title: column.hint } : {})}
    >
      {column.by ? (
        <Sort name={column.key} title={column.title} order={order} choose={props.choose} />
      ) : (
        column.title || <span class="visually-hidden">{column.name ?? "More"}</span>
      )}
      {column.second && (
        <>
          {" "}
          <Sort
            name={column.second.key}
            title={column.second.title}
            order={order}
            choose={props.choose}
          />
        </>
      )}
    </th>
  );
}

function Sort(props: {
  name: string;
  title: string;
  order: Order | null;
  choose: (key: string) => void;
}) {
  const { name, title, order } = props;
  const mine = order?.key === name;
  return (
    <button type="button" class="head" onClick={() => props.choose(name)}>
      {title}
      <span class={`arrow ${mine ? "on" : ""}`}>
        <Icon name={mine && order.descending ? "down" : "up"} />
      </span>
    </button>
  );
}

function classes<L>(column: DataColumn<L>): string {
  const names = [
    column.number && "number",
    column.main && "main",
    column.wide && "wide",
    column.drop && "drop",
  ];
  return names.filter(Boolean).join(" ");
}

function Line<L>(props: Props<L> & { line: L }) {
  const { line, columns, onLine } = props;
  const isSelected = props.selected === props.id(line);
  const open = onLine
    ? {
        onClick: (event: MouseEvent) => {
          if ((event.target as Element).closest("a, button, input, select")) return;
          if (getSelection()?.toString()) return;
          onLine(line);
        },
      }
    : {};
  const name = [onLine && "opens", isSelected && "selected", props.lineClass?.(line)]
    .filter(Boolean)
    .join(" ");
  return (
    <>
      <tr class={name} {...open}>
        {columns.map((column) => (
          <td key={column.key} class={classes(column)} data-label={column.title}>
            {column.cell(line)}
          </td>
        ))}
      </tr>
      {isSelected && props.below && (
        <tr class="below">
          <td colSpan={columns.length}>{props.below(line)}</td>
        </tr>
      )}
    </>
  );
}

export function Pager(props: {
  start: number;
  size: number;
  total: number;
  show: (start: number) => void;
}) {
  const { start, size, total } = props;
  const end = Math.min(total, start + size);
  if (total <= size && start === 0) return null;
  return (
    <nav class="pager" aria-label="Pages">
      <button
        type="button"
        disabled={start === 0}
        onClick={() => props.show(Math.max(0, start - size))}
      >
        <Icon name="left" />
        Previous
      </button>
      <span class="num">
        {integer(start + 1)} to {integer(end)} of {integer(total)}
      </span>
      <button type="button" disabled={end >= total} onClick={() => props.show(start + size)}>
        Next
        <Icon name="right" />
      </button>
    </nav>
  );
}
