import assert from "node:assert/strict";
import { test } from "node:test";
import {
  ago,
  bytes,
  counted,
  duration,
  interval,
  percent,
  place,
  readable,
  short,
} from "./format.ts";

test("sizes are binary, with three digits", () => {
  assert.equal(bytes(0), "0 B");
  assert.equal(bytes(1023), "1023 B");
  assert.equal(bytes(1536), "1.50 KiB");
  assert.equal(bytes(64 * 2 ** 20), "64.0 MiB");
  assert.equal(bytes(1024 ** 4 - 1), "1.00 TiB");
  assert.equal(bytes(null), "–");
});

test("large numbers are shortened", () => {
  assert.equal(short(999), "999");
  assert.equal(short(1_284_000), "1.28 M");
});

test("durations have two units at most", () => {
  assert.equal(duration(0), "0 s");
  assert.equal(duration(0.25), "250 ms");
  assert.equal(duration(45), "45 s");
  assert.equal(duration(7800), "2 h 10 min");
  assert.equal(duration(86_400 * 40), "40 d");
  assert.equal(duration(null), "–");
});

test("an age is of a given time, in the future too", () => {
  const now = Date.parse("2026-11-27T12:00:00Z");
  assert.equal(ago("2026-11-27T11:59:58Z", now), "now");
  assert.equal(ago("2026-11-27T09:50:00Z", now), "2 h 10 min ago");
  assert.equal(ago("2026-11-27T12:26:00Z", now), "in 26 min");
});

test("a share near an end is not rounded to it", () => {
  assert.equal(percent(0.004), "<1%");
  assert.equal(percent(0.996), ">99%");
  assert.equal(percent(1), "100%");
});

test("an interval is as short as its ends allow", () => {
  assert.equal(interval("2026-03-03T00:00:00Z", "2026-03-04T00:00:00Z"), "2026-03-03");
  assert.equal(
    interval("2026-03-01T00:00:00Z", "2026-04-01T00:00:00Z"),
    "2026-03-01 to 2026-04-01",
  );
  assert.equal(place("2026-03-03T10:00:00Z/2026-03-03T11:00:00Z"), "2026-03-03 10:00 to 11:00");
});

test("intervals in a sentence are written as people do", () => {
  assert.equal(
    readable("semi-major of 2026-11-23T00:00:00Z/2026-11-24T00:00:00Z (7 files to 4)"),
    "semi-major of 2026-11-23 (7 files to 4)",
  );
  assert.equal(
    readable("version 3 of 2026-11-27T18:01:56.971162Z -> now"),
    "version 3 of 2026-11-27 18:01:56 → now",
  );
});

test("nouns are counted", () => {
  assert.equal(counted(1, "plan"), "1 plan");
  assert.equal(counted(1200, "plan"), "1,200 plans");
});
