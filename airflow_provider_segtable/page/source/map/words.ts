// The segment map in words: for those who do not see it, and beside it.

import type { Cell, SegmentMap } from "../api.ts";
import { bytes, counted, integer, interval, percent, short } from "../format.ts";
import type { Range } from "./layout.ts";

export const STATE_WORDS = {
  visible: "visible",
  hidden: "hidden behind later ones",
  standby: "on standby",
} as const;

export function described(cell: Cell): string {
  const what = cell.tombstone
    ? "tombstone"
    : cell.kind === "chunks"
      ? counted(cell.chunks, "time chunk")
      : cell.kind === "run"
        ? "neighbouring segments"
        : "segment";
  const files = cell.segments > 1 ? `, ${counted(cell.segments, "file")}` : "";
  return `${what} of ${interval(cell.start, cell.end)}, ${STATE_WORDS[cell.state]}, ${bytes(cell.bytes)}, ${short(cell.rows)} rows${files}, sorted ${percent(cell.sorted_share)}, deleted ${percent(cell.deleted_share)}`;
}

export function generation(cell: Cell): string {
  return cell.generation === 0 ? "as appended" : `compacted, minor version ${cell.generation}`;
}

export function summary(map: SegmentMap, range: Range): string {
  const inSight = map.cells.filter(
    (cell) => Date.parse(cell.end) > range.start && Date.parse(cell.start) < range.end,
  );
  const files = (state: Cell["state"]) =>
    inSight.filter((cell) => cell.state === state).reduce((sum, cell) => sum + cell.segments, 0);
  const hidden = files("hidden") + inSight.reduce((sum, cell) => sum + cell.hidden, 0);
  const standby = files("standby");
  const size = inSight
    .filter((cell) => cell.state === "visible")
    .reduce((sum, cell) => sum + cell.bytes, 0);
  const parts = [
    `${counted(files("visible"), "visible segment")} of ${bytes(size)}`,
    `${integer(hidden)} hidden`,
  ];
  if (standby) parts.push(`${integer(standby)} on standby`);
  const how =
    map.level === "chunks"
      ? "summed up by time chunk: zoom in for segments"
      : "one rectangle a segment";
  return `${interval(new Date(range.start).toISOString(), new Date(range.end).toISOString())}: ${parts.join(", ")} · ${how}`;
}
