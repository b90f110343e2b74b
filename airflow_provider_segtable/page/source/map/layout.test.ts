import assert from "node:assert/strict";
import { test } from "node:test";
import type { Cell } from "../api.ts";
import {
  fullest,
  hit,
  layout,
  moved,
  neighbour,
  type Range,
  type Rect,
  stacks,
  zoomed,
} from "./layout.ts";

const DAY = 86_400_000;

function cell(id: string, day: number, changes: Partial<Cell> = {}): Cell {
  return {
    id,
    kind: "segment",
    start: new Date(day * DAY).toISOString(),
    end: new Date((day + 1) * DAY).toISOString(),
    left: 0,
    right: 1,
    lane: 0,
    version: 0,
    bucket: null,
    state: "visible",
    chunks: 1,
    segments: 1,
    hidden: 0,
    rows: 1,
    bytes: 1000,
    generation: 0,
    roots: null,
    base: null,
    clustering: "",
    sorted_share: 0,
    deleted_share: 0,
    small: 0,
    tombstone: false,
    created: null,
    oldest: null,
    ...changes,
  };
}

const RANGE: Range = { start: 0, end: 10 * DAY };

function drawn(cells: Cell[]): Rect[] {
  const some = stacks(cells);
  return layout(some, RANGE, 1000, 400, fullest(some, RANGE));
}

function rect(rects: Rect[], id: string): Rect {
  const found = rects.find((each) => each.cell.id === id);
  assert.ok(found);
  return found;
}

const area = (each: Rect) => each.height * (each.cell.right - each.cell.left);

test("areas are in the proportion of bytes", () => {
  const rects = drawn([
    cell("a", 0, { right: 0.25, bytes: 1000 }),
    cell("b", 0, { left: 0.25, bytes: 6000 }),
    cell("c", 1, { bytes: 3500 }),
  ]);
  const scale = area(rect(rects, "a")) / 1000;
  for (const id of ["b", "c"])
    assert.ok(Math.abs(area(rect(rects, id)) / rect(rects, id).cell.bytes - scale) < 1e-9);
});

test("the fullest stack fills the height", () => {
  const rects = drawn([
    cell("a", 0, { bytes: 100 }),
    cell("b", 3, { bytes: 900 }),
    cell("c", 3, { lane: 1, bytes: 900 }),
  ]);
  assert.ok(Math.abs(rect(rects, "c").y) <= 2);
  assert.equal(rect(rects, "b").y + rect(rects, "b").height, 400);
});

test("a compacted segment stands on those that it replaced", () => {
  const below = [0, 1, 2].map((n) =>
    cell(`old ${n}`, 2, { left: n / 3, right: (n + 1) / 3, state: "hidden", bytes: 300 }),
  );
  const rects = drawn([...below, cell("new", 2, { lane: 1, bytes: 800 })]);
  for (const n of [0, 1, 2])
    assert.ok(rect(rects, "new").y + rect(rects, "new").height <= rect(rects, `old ${n}`).y);
});

test("what stands on nothing lies on the ground", () => {
  const rects = drawn([
    cell("old", 2, { right: 0.5, state: "hidden" }),
    cell("new", 2, { lane: 1, left: 0.5 }),
  ]);
  assert.equal(rect(rects, "new").y + rect(rects, "new").height, 400);
});

test("each bucket has a ground of its own", () => {
  const rects = drawn([
    cell("a", 2, { bucket: 0, right: 0.5, bytes: 500 }),
    cell("b", 2, { bucket: 1, lane: 1, left: 0.5, bytes: 500 }),
  ]);
  assert.ok(rect(rects, "b").y + rect(rects, "b").height < rect(rects, "a").y);
});

test("chunks of different lengths that overlap share a stack", () => {
  const hour = (n: number) =>
    cell(`h${n}`, 0, {
      lane: 1,
      start: new Date((n * DAY) / 24).toISOString(),
      end: new Date(((n + 1) * DAY) / 24).toISOString(),
      bytes: 40,
    });
  const rects = drawn([cell("day", 0, { state: "hidden" }), hour(0), hour(1)]);
  assert.ok(rect(rects, "h1").y + rect(rects, "h1").height <= rect(rects, "day").y);
});

test("sums of one lane and different states lie above each other", () => {
  const rects = drawn([
    cell("v", 0, { kind: "chunks" }),
    cell("h", 0, { kind: "chunks", state: "hidden" }),
  ]);
  assert.ok(rect(rects, "v").y < rect(rects, "h").y);
});

test("nothing vanishes, however small it is", () => {
  const rects = drawn([
    cell("tiny", 0, { bytes: 0, tombstone: true }),
    cell("huge", 1, { bytes: 1e12 }),
  ]);
  assert.ok(rect(rects, "tiny").height >= 2 && rect(rects, "tiny").width >= 2);
});

test("a point finds the rectangle that it is in", () => {
  const rects = drawn([cell("a", 0), cell("b", 1)]);
  assert.equal(hit(rects, 150, 399)?.cell.id, "b");
  assert.equal(hit(rects, 550, 399), null);
});

test("arrows lead to neighbours, up to what stands above", () => {
  const rects = drawn([cell("a", 0), cell("b", 1), cell("above b", 1, { lane: 1 })]);
  assert.equal(neighbour(rects, rect(rects, "a"), "right")?.cell.id, "b");
  assert.equal(neighbour(rects, rect(rects, "b"), "up")?.cell.id, "above b");
  assert.equal(neighbour(rects, rect(rects, "a"), "left"), null);
});

test("zooming keeps the time below the pointer, and the table in sight", () => {
  const whole = { start: 0, end: 100 * DAY };
  const near = zoomed(whole, whole, 0.5, 20 * DAY);
  assert.ok(Math.abs((20 * DAY - near.start) / (near.end - near.start) - 0.2) < 1e-9);
  assert.deepEqual(moved(near, whole, -1e15), { start: 0, end: 50 * DAY });
  const far = zoomed(near, whole, 100, 20 * DAY);
  assert.ok(far.start <= 0 && far.end >= 100 * DAY);
});
