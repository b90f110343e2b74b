import assert from "node:assert/strict";
import { test } from "node:test";
import { timeTicks, valueTicks } from "./scales.ts";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

test("ticks of numbers are round, from zero", () => {
  assert.deepEqual(valueTicks(1050, 4), [0, 500, 1000]);
  assert.deepEqual(valueTicks(0, 4), [0]);
});

test("ticks of sizes are round in their unit", () => {
  const ticks = valueTicks(5.2 * 2 ** 30, 4, 1024);
  assert.deepEqual(
    ticks.map((tick) => tick / 2 ** 30),
    [0, 2, 4],
  );
});

test("ticks of durations are round in minutes and hours", () => {
  assert.deepEqual(valueTicks(3600, 4, 60), [0, 900, 1800, 2700, 3600]);
  assert.deepEqual(valueTicks(256, 3, 60), [0, 120, 240]);
});

test("ticks of time are as many as there is room for, at every length", () => {
  const start = Date.parse("2026-03-01T00:00:00Z");
  for (const length of [5000, HOUR, DAY, 9 * DAY, 90 * DAY, 3000 * DAY]) {
    const ticks = timeTicks(start, start + length, 8);
    assert.ok(ticks.length >= 1 && ticks.length <= 10, `${length}: ${ticks.length}`);
  }
});

test("ticks of weeks are Mondays", () => {
  const start = Date.parse("2026-11-01T00:00:00Z");
  assert.deepEqual(
    timeTicks(start, start + 30 * DAY, 5).map((tick) => new Date(tick.at).getUTCDay()),
    [1, 1, 1, 1, 1],
  );
});

test("a day's ticks name the day once, then hours", () => {
  const start = Date.parse("2026-03-01T01:00:00Z");
  const texts = timeTicks(start, start + DAY, 8).map((tick) => tick.text);
  assert.equal(texts[0], "1 Mar 03:00");
  assert.ok(texts.includes("06:00"));
  assert.ok(texts.includes("2 Mar"));
});
