import assert from "node:assert/strict";
import { test } from "node:test";
import { hashOf, parsed, tableHash } from "./route.ts";

test("a link to a table holds its whole name, with slashes", () => {
  const hash = tableHash("events/orders", "map", { version: "812" });
  assert.equal(hash, "#/table/events%2Forders/map?version=812");
  assert.deepEqual(parsed(hash), {
    page: "table",
    table: "events/orders",
    view: "map",
    parameters: { version: "812" },
  });
});

test("each address leads back to itself", () => {
  for (const hash of [
    "#/",
    "#/?search=ill",
    "#/runs?days=30",
    "#/table/a%20b",
    "#/table/x/timeline?event=3",
  ])
    assert.equal(hashOf(parsed(hash)), hash);
});

test("an address that is none says so", () => {
  for (const hash of ["#/tables", "#/table/x/nothing", "#/table/%E0%A4%A", "#/table/x/constructor"])
    assert.equal(parsed(hash).page, "missing");
});
