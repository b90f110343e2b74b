// Where each rectangle of the segment map lies. Pure: cells, a range of time and a size come in.
//
// 1. Across is time: a cell lies in its interval, at its share of it (`left` to `right`).
// 2. Up are generations, then versions: of cells that overlap in time, those of the lowest lane lie
//    on the ground, and each other one on the highest that it covers a part of. So a segment stands
//    on those that it replaced, and nothing floats. Each bucket has a ground of its own, above the
//    bucket before it.
// 3. Area is bytes: a cell's height is its bytes by its width, on one scale for the whole picture.
//    That scale lets the fullest stack fill the height.
// 4. What is there is seen: nothing is smaller than `LEAST` pixels either way.

import type { Cell } from "../api.ts";

export interface Rect {
  cell: Cell;
  x: number;
  y: number; // of its top, from the top of the plot
  width: number;
  height: number;
}

export interface Range {
  start: number; // milliseconds
  end: number;
}

const LEAST = 2;
const GAP = 1;
const BUCKET_GAP = 5;
const BUCKET_GAPS = 20; // of all buckets of a stack

// A cell with its place in units that no zoom changes: milliseconds, and bytes by millisecond.
interface Placed {
  cell: Cell;
  from: number;
  to: number;
  base: number;
  top: number;
  below: number; // cells under it
  bucket: number; // rank of its bucket in the stack
}

// Cells whose times overlap.
export interface Stack {
  start: number;
  end: number;
  top: number;
  buckets: number;
  cells: Placed[];
}

export function stacks(cells: Cell[]): Stack[] {
  const timed = cells.map((cell) => ({
    cell,
    start: Date.parse(cell.start),
    end: Date.parse(cell.end),
  }));
  timed.sort((a, b) => a.start - b.start || b.end - a.end);
  const found: { start: number; end: number; cells: Cell[] }[] = [];
  for (const { cell, start, end } of timed) {
    const last = found[found.length - 1];
    if (last && start < last.end) {
      last.end = Math.max(last.end, end);
      last.cells.push(cell);
    } else found.push({ start, end, cells: [cell] });
  }
  return found.map(({ start, end, cells: some }) => {
    const placed = stacked(some);
    return {
      start,
      end,
      cells: placed,
      top: highest(placed),
      buckets: (placed[placed.length - 1]?.bucket ?? 0) + 1,
    };
  });
}

const STATES = { hidden: 0, standby: 1, visible: 2 } as const;

// Sums of one lane lie over each other in time, so there each state has a row of its own.
function rowOf(cell: Cell): number {
  return cell.lane * 3 + (cell.kind === "chunks" ? STATES[cell.state] : 0);
}

function stacked(cells: Cell[]): Placed[] {
  const all: Placed[] = [];
  let lower: Placed[] = []; // of the same bucket
  let [ground, rank, bucket] = [0, 0, cells[0]?.bucket ?? null];
  for (const [n, [, row]] of [...grouped(cells)].sort(([a], [b]) => a - b).entries()) {
    const next = row[0]?.bucket ?? null;
    if (n > 0 && next !== bucket) [ground, rank, lower] = [highest(all), rank + 1, []];
    bucket = next;
    const placed = row.map((cell) => standing(cell, lower, ground, rank));
    lower.push(...placed);
    all.push(...placed);
  }
  return all;
}

function highest(some: Placed[]): number {
  return some.reduce((most, each) => Math.max(most, each.top), 0);
}

function grouped(cells: Cell[]): Map<number, Cell[]> {
  const rows = new Map<number, Cell[]>();
  for (const cell of cells) {
    const row = rows.get(rowOf(cell));
    if (row) row.push(cell);
    else rows.set(rowOf(cell), [cell]);
  }
  return rows;
}

function standing(cell: Cell, lower: Placed[], ground: number, bucket: number): Placed {
  const start = Date.parse(cell.start);
  const length = Date.parse(cell.end) - start;
  const [from, to] = [start + cell.left * length, start + cell.right * length];
  const edge = (to - from) * 1e-3; // neighbours that touch do not carry it
  let [base, below] = [ground, 0];
  for (const each of lower)
    if (each.to > from + edge && each.from < to - edge) {
      base = Math.max(base, each.top);
      below = Math.max(below, each.below + 1);
    }
  return {
    cell,
    from,
    to,
    base,
    top: base + cell.bytes / Math.max(1e-6, to - from),
    below,
    bucket,
  };
}

// The top of the fullest stack in a range: what the height of the plot stands for.
export function fullest(some: Stack[], range: Range): number {
  const seen = some.filter((stack) => stack.end > range.start && stack.start < range.end);
  return seen.reduce((most, stack) => Math.max(most, stack.top), 0);
}

export function layout(
  some: Stack[],
  range: Range,
  width: number,
  height: number,
  most: number,
): Rect[] {
  const scale = { x: width / (range.end - range.start), y: height / (most || 1) };
  return some
    .filter((stack) => stack.end > range.start && stack.start < range.end)
    .flatMap((stack) => stack.cells.map((each) => rectOf(each, stack, range, scale, height)));
}

function rectOf(
  each: Placed,
  stack: Stack,
  range: Range,
  scale: { x: number; y: number },
  ground: number,
): Rect {
  const wide = (each.to - each.from) * scale.x;
  const gap = wide > 12 ? GAP : wide > 4 ? 0.5 : 0;
  const tall = Math.max(LEAST, (each.top - each.base) * scale.y - (each.below ? GAP : 0));
  const apart = each.bucket * Math.min(BUCKET_GAP, BUCKET_GAPS / stack.buckets);
  const foot = Math.max(each.base * scale.y, each.below * LEAST) + (each.below ? GAP : 0) + apart;
  return {
    cell: each.cell,
    x: (each.from - range.start) * scale.x,
    y: ground - foot - tall,
    width: Math.max(LEAST, wide - gap),
    height: tall,
  };
}

export function hit(rects: Rect[], x: number, y: number): Rect | null {
  let near: Rect | null = null;
  for (const rect of rects) {
    const inside =
      x >= rect.x - 0.5 &&
      x <= rect.x + rect.width + 0.5 &&
      y >= rect.y - 0.5 &&
      y <= rect.y + rect.height + 0.5;
    if (inside) near = rect;
  }
  return near;
}

export type Direction = "left" | "right" | "up" | "down";

// The neighbour of a rectangle: the nearest one whose middle lies that way.
export function neighbour(rects: Rect[], from: Rect, direction: Direction): Rect | null {
  const [x, y] = middle(from);
  let best: Rect | null = null;
  let least = Infinity;
  for (const rect of rects) {
    const [a, b] = middle(rect);
    const along = { left: x - a, right: a - x, up: y - b, down: b - y }[direction];
    const aside = direction === "left" || direction === "right" ? Math.abs(b - y) : Math.abs(a - x);
    if (rect === from || along <= 0.5) continue;
    const away = along + aside * 3;
    if (away < least) [best, least] = [rect, away];
  }
  return best;
}

function middle(rect: Rect): [number, number] {
  return [rect.x + rect.width / 2, rect.y + rect.height / 2];
}

// ---- ranges ----

export const SHORTEST_MS = 1000;

export function zoomed(range: Range, whole: Range, factor: number, at: number): Range {
  const length = clamp(
    (range.end - range.start) * factor,
    SHORTEST_MS,
    (whole.end - whole.start) * 1.02,
  );
  const share = (at - range.start) / (range.end - range.start);
  const start = at - share * length;
  return within({ start, end: start + length }, whole);
}

export function moved(range: Range, whole: Range, by: number): Range {
  return within({ start: range.start + by, end: range.end + by }, whole);
}

// At least a part of the table stays in sight.
function within(range: Range, whole: Range): Range {
  const length = range.end - range.start;
  const most = whole.end - whole.start;
  if (length >= most) {
    const spare = (length - most) / 2;
    return { start: whole.start - spare, end: whole.end + spare };
  }
  const start = clamp(range.start, whole.start, whole.end - length);
  return { start, end: start + length };
}

function clamp(value: number, least: number, most: number): number {
  return Math.min(most, Math.max(least, value));
}
