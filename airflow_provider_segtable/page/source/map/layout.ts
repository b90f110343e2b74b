// Where each rectangle of the segment map lies. Pure: cells, a range of time and a size come in.
//
// 1. Across is time: a cell lies in its interval, at its share of it (`left` to `right`).
// 2. Up are generations, then versions: cells that overlap in time stack by their lanes, the oldest
//    at the ground. So a segment stands on those that it replaced.
// 3. Area is bytes: a cell's height is its bytes by its width, on one scale for the whole picture.
//    That scale lets the fullest stack fill the height. A row is as high as its highest cell.
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

// Cells whose times overlap, by the rows that they lie in, from the ground up.
export interface Stack {
  start: number;
  end: number;
  rows: Cell[][];
}

const STATES = { hidden: 0, standby: 1, visible: 2 } as const;

export function stacks(cells: Cell[]): Stack[] {
  const timed = cells.map((cell) => ({ cell, start: Date.parse(cell.start), end: Date.parse(cell.end) }));
  timed.sort((a, b) => a.start - b.start || b.end - a.end);
  const found: { start: number; end: number; cells: Cell[] }[] = [];
  for (const { cell, start, end } of timed) {
    const last = found[found.length - 1];
    if (last && start < last.end) {
      last.end = Math.max(last.end, end);
      last.cells.push(cell);
    } else found.push({ start, end, cells: [cell] });
  }
  return found.map((each) => ({ start: each.start, end: each.end, rows: rowsOf(each.cells) }));
}

// A lane is a row. Sums of one lane lie over each other in time, so there each state has a row.
function rowsOf(cells: Cell[]): Cell[][] {
  const rows = new Map<number, Cell[]>();
  for (const cell of cells) {
    const key = cell.lane * 3 + (cell.kind === "chunks" ? STATES[cell.state] : 0);
    const row = rows.get(key);
    if (row) row.push(cell);
    else rows.set(key, [cell]);
  }
  return [...rows].sort(([a], [b]) => a - b).map(([, row]) => row);
}

// Bytes by time: a height in units that no zoom changes.
function density(cell: Cell): number {
  const length = Date.parse(cell.end) - Date.parse(cell.start);
  return cell.bytes / Math.max(1e-6, (cell.right - cell.left) * length);
}

function rowDensity(row: Cell[]): number {
  return Math.max(...row.map(density));
}

// The greatest weight in a range: what the height of the plot stands for.
export function fullest(some: Stack[], range: Range): number {
  let most = 0;
  for (const stack of some)
    if (stack.end > range.start && stack.start < range.end)
      most = Math.max(most, stack.rows.reduce((sum, row) => sum + rowDensity(row), 0));
  return most;
}

export function layout(some: Stack[], range: Range, width: number, height: number, most: number): Rect[] {
  const rects: Rect[] = [];
  const scale = width / (range.end - range.start);
  for (const stack of some) {
    if (stack.end <= range.start || stack.start >= range.end) continue;
    let ground = height;
    for (const row of stack.rows) {
      for (const cell of row) rects.push(placed(cell, range, scale, ground, tallness(density(cell), most, height)));
      ground -= tallness(rowDensity(row), most, height) + GAP;
    }
  }
  return rects;
}

function tallness(value: number, most: number, height: number): number {
  return Math.max(LEAST, (value / (most || 1)) * height);
}

function placed(cell: Cell, range: Range, scale: number, ground: number, height: number): Rect {
  const start = Date.parse(cell.start);
  const across = Math.max(LEAST, (Date.parse(cell.end) - start) * scale);
  const gap = across > 24 ? GAP : across > 6 ? 0.5 : 0;
  const x = (start - range.start) * scale + cell.left * across;
  const width = Math.max(Math.min(LEAST, across), (cell.right - cell.left) * across - gap);
  return { cell, x, y: ground - height, width, height };
}

export function hit(rects: Rect[], x: number, y: number): Rect | null {
  let near: Rect | null = null;
  for (const rect of rects) {
    const inside = x >= rect.x - 0.5 && x <= rect.x + rect.width + 0.5 && y >= rect.y - 0.5 && y <= rect.y + rect.height + 0.5;
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
  const length = clamp((range.end - range.start) * factor, SHORTEST_MS, (whole.end - whole.start) * 1.02);
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
