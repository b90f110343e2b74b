// The keys of the segment map (listed in ../keys.tsx): from segment to segment, nearer and further,
// from version to version.

import type { Cell, SegmentMap } from "../api.ts";
import { type Direction, moved, neighbour, type Range, type Rect, zoomed } from "./layout.ts";

export interface Explored {
  map: SegmentMap;
  range: Range;
  whole: Range;
  selected: string | null;
  select: (id: string | null) => void;
  change: (range: Range) => void;
  setVersion: (version: number | null) => void;
}

const ARROWS: Record<string, Direction> = {
  ArrowLeft: "left",
  ArrowRight: "right",
  ArrowUp: "up",
  ArrowDown: "down",
};

export function keyed(event: KeyboardEvent, props: Explored, rects: Rect[]): boolean {
  if (event.ctrlKey || event.metaKey || event.altKey) return false;
  const { range, whole, change, select, map } = props;
  const length = range.end - range.start;
  const arrow = ARROWS[event.key];
  const shown = rects.find((rect) => rect.cell.id === props.selected) ?? null;
  if (arrow && event.shiftKey) {
    if (arrow === "up" || arrow === "down") return false;
    change(moved(range, whole, (arrow === "left" ? -0.2 : 0.2) * length));
    return true;
  }
  if (arrow) {
    const next = shown
      ? neighbour(rects, shown, arrow)
      : (rects[Math.floor(rects.length / 2)] ?? null);
    if (next) {
      select(next.cell.id);
      change(including(next.cell, range, whole));
    }
    return true;
  }
  const middle = shown
    ? (spanOf(shown.cell).start + spanOf(shown.cell).end) / 2
    : (range.start + range.end) / 2;
  switch (event.key) {
    case "+":
    case "=":
      change(zoomed(range, whole, 0.6, middle));
      return true;
    case "-":
    case "_":
      change(zoomed(range, whole, 1 / 0.6, middle));
      return true;
    case "0":
      change(whole);
      return true;
    case "Enter":
      if (shown) change(around(shown.cell, whole));
      return shown !== null;
    case "Escape":
      select(null);
      return shown !== null;
    case "[":
    case "]": {
      const next = map.versions.shown + (event.key === "[" ? -1 : 1);
      if (next >= map.versions.first && next <= map.versions.last)
        props.setVersion(next === map.versions.last ? null : next);
      return true;
    }
    case " ":
      document.querySelector<HTMLButtonElement>("[data-shortcut=replay]")?.click();
      return true;
    default:
      return false;
  }
}

function including(cell: Cell, range: Range, whole: Range): Range {
  const { start, end } = spanOf(cell);
  if (start >= range.start && end <= range.end) return range;
  if (end - start > range.end - range.start) return range;
  const by = start < range.start ? start - range.start : end - range.end;
  return moved(range, whole, by);
}

export function around(cell: Cell, whole: Range): Range {
  const [start, end] = [Date.parse(cell.start), Date.parse(cell.end)];
  const from = start + cell.left * (end - start);
  const until = start + cell.right * (end - start);
  const margin = (until - from) * (cell.kind === "segment" ? 0.15 : 0.05);
  const range = { start: from - margin, end: until + margin };
  return zoomed(range, whole, 1, (range.start + range.end) / 2);
}

export function spanOf(span: { start: string; end: string } | null): Range {
  return span ? { start: Date.parse(span.start), end: Date.parse(span.end) } : { start: 0, end: 1 };
}
