// The segment map: time across, generations and versions up, one rectangle a segment.
//
// 1. The picture is a canvas that takes the keyboard. The same cells are a table below it.
// 2. The range in sight moves at once; the cells of a new range are asked for when it rests, with
//    a margin, so that most moves need no question.
// 3. The slider shows any kept version; a replay steps through those that changed the range.
// 4. Range, version and measure are in the address: a link shows the same picture.

import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { address, useAnswer } from "../answers.ts";
import type { SegmentMap } from "../api.ts";
import { Picture } from "../map/canvas.tsx";
import { CellTable } from "../map/cell_table.tsx";
import { MEASURES, type Measure } from "../map/colours.ts";
import { Legend, Overview, ZoomButtons } from "../map/controls.tsx";
import type { Range } from "../map/layout.ts";
import { spanOf } from "../map/map_keys.ts";
import { Versions } from "../map/versions.tsx";
import { summary } from "../map/words.ts";
import { Choice } from "../parts/choice.tsx";
import { Answered, Empty } from "../parts/states.tsx";
import { type Route, replaceParameters } from "../route.ts";
import { ChunkPanel } from "./chunk_panel.tsx";
import { SegmentPanel } from "./segment_panel.tsx";

const LIMIT = 2000;
const REST_MS = 140;

const MARGIN = 0.6; // of the range, asked for on either side

type TableRoute = Extract<Route, { page: "table" }>;

export function SegmentMapView({ route }: { route: TableRoute }) {
  const { table } = route;
  const version = numberOf(route.parameters.version);
  const whole = useAnswer<SegmentMap>(address("api/map", { table, version, limit: LIMIT }), {
    keepLast: true,
    ...(version === null ? { table } : {}),
  });
  return (
    <>
      <h2 class="visually-hidden">Segment map</h2>
      <Answered asked={whole} what="segment map">
        {(map) =>
          map.whole === null ? (
            <Empty>This version has no segments: nothing was appended yet.</Empty>
          ) : (
            <Explorer route={route} overview={map} />
          )
        }
      </Answered>
    </>
  );
}

function numberOf(text: string | undefined): number | null {
  const value = Number(text);
  return text && Number.isInteger(value) && value > 0 ? value : null;
}

function Explorer({ route, overview }: { route: TableRoute; overview: SegmentMap }) {
  const { table } = route;
  const whole = useMemo(() => spanOf(overview.whole), [overview.whole?.start, overview.whole?.end]);
  const version = numberOf(route.parameters.version);
  const [range, setRange] = useState<Range>(() => rangeOf(route, whole));
  const [measure, setMeasure] = useState<Measure>(() => measureOf(route));
  const [selected, setSelected] = useState<string | null>(route.parameters.segment ?? null);
  const before = useRef(whole);
  useEffect(() => {
    const was = before.current;
    before.current = whole;
    setRange((now) => (now.start === was.start && now.end === was.end ? whole : now)); // it grew
  }, [whole]);
  const rested = useRested(range);
  const { map, asking } = useRange(table, version, overview, rested, whole);
  useEffect(() => {
    const isWhole = rested.start <= whole.start && rested.end >= whole.end;
    const at = (time: number) => (isWhole ? "" : new Date(time).toISOString());
    replaceParameters(route, {
      start: at(rested.start),
      end: at(rested.end),
      by: measure === "sorted" ? "" : measure,
      segment: selected ?? "",
    });
  }, [rested, measure, selected]);
  const cell = map.cells.find((each) => each.id === selected) ?? null;
  const setVersion = useCallback(
    (next: number | null) =>
      replaceParameters(route, { version: next === null ? "" : String(next) }),
    [route],
  );
  return (
    <div class="segment-map">
      <div class="toolbar">
        <Choice label="Colour by" value={measure} options={measures()} change={setMeasure} />
        <Legend measure={measure} />
        <span class="grow" />
        <ZoomButtons range={range} whole={whole} change={setRange} />
      </div>
      <Picture
        map={map}
        table={table}
        range={range}
        whole={whole}
        measure={measure}
        selected={selected}
        select={setSelected}
        change={setRange}
        version={version}
        setVersion={setVersion}
      />
      <Overview map={overview} range={range} whole={whole} change={setRange} />
      <Versions
        table={table}
        map={overview}
        version={version}
        range={rested}
        setVersion={setVersion}
      />
      <p class="muted status" role="status">
        {summary(map, range)}
        {asking && <span> · reading …</span>}
      </p>
      {cell && (
        <ChunkPanel table={table} cell={cell} all={map.cells} close={() => setSelected(null)} />
      )}
      {cell && cell.kind === "segment" && (
        <SegmentPanel
          table={table}
          id={cell.id}
          version={version}
          close={() => setSelected(null)}
          select={setSelected}
        />
      )}
      <CellTable map={map} range={range} select={setSelected} selected={selected} />
    </div>
  );
}

function rangeOf(route: TableRoute, whole: Range): Range {
  const [start, end] = [
    Date.parse(route.parameters.start ?? ""),
    Date.parse(route.parameters.end ?? ""),
  ];
  return Number.isFinite(start) && Number.isFinite(end) && start < end ? { start, end } : whole;
}

function measureOf(route: TableRoute): Measure {
  const { by = "" } = route.parameters;
  return Object.hasOwn(MEASURES, by) ? (by as Measure) : "sorted";
}

function measures(): [Measure, string][] {
  return (Object.keys(MEASURES) as Measure[]).map((key) => [key, MEASURES[key].title]);
}

// ---- data ----

function useRested(range: Range): Range {
  const [rested, setRested] = useState(range);
  useEffect(() => {
    const timer = setTimeout(() => setRested(range), REST_MS);
    return () => clearTimeout(timer);
  }, [range.start, range.end]);
  return rested;
}

// The overview serves while it has every segment; else the range is asked for, with a margin.
function useRange(
  table: string,
  version: number | null,
  overview: SegmentMap,
  range: Range,
  whole: Range,
) {
  const complete =
    overview.level === "segments" && overview.cells.every((cell) => cell.kind === "segment");
  const length = range.end - range.start;
  const isWhole = length >= (whole.end - whole.start) * 0.98;
  const wanted = useRef<Range | null>(null);
  const known = wanted.current;
  const covered =
    known !== null &&
    known.start <= Math.max(range.start, whole.start) &&
    known.end >= Math.min(range.end, whole.end) &&
    known.end - known.start < length * (1 + 4 * MARGIN);
  if (!covered)
    wanted.current = { start: range.start - length * MARGIN, end: range.end + length * MARGIN };
  const at = wanted.current ?? range;
  const path =
    complete || isWhole
      ? null
      : address("api/map", {
          table,
          version,
          start: new Date(at.start).toISOString(),
          end: new Date(at.end).toISOString(),
          limit: LIMIT,
        });
  const asked = useAnswer<SegmentMap>(path, {
    keepLast: true,
    ...(version === null ? { table } : {}),
  });
  const map = path !== null && asked.data ? asked.data : overview;
  return { map, asking: path !== null && asked.asking };
}
