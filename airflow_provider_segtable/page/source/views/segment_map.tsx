// The segment map: time across, generations and versions up, one rectangle a segment.
//
// 1. The picture is a canvas that takes the keyboard. The same cells are a table below it.
// 2. The range in sight moves at once; the cells of a new range are asked for when it rests, with
//    a margin, so that most moves need no question.
// 3. The slider shows any kept version; a replay steps through those that changed the range.
// 4. Range, version and measure are in the address: a link shows the same picture.

import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Cell, ChunkChanges, SegmentInFull, SegmentMap } from "../api.ts";
import { ActionButton } from "../actions.tsx";
import { address, ask, useAnswer } from "../answers.ts";
import { bytes, counted, integer, interval, moment, percent, readable, short } from "../format.ts";
import { colour, MEASURES, type Measure, share } from "../map/colours.ts";
import { type Direction, fullest, hit, layout, moved, neighbour, type Range, type Rect, stacks, zoomed } from "../map/layout.ts";
import { AXIS, draw, inksOf } from "../map/picture.ts";
import { useGestures } from "../map/gestures.ts";
import { useWidth } from "../parts/charts.tsx";
import { type DataColumn, DataTable } from "../parts/data_table.tsx";
import { Icon } from "../parts/icons.tsx";
import { Time } from "../parts/marks.tsx";
import { Answered, Empty } from "../parts/states.tsx";
import { type Route, replaceParameters } from "../route.ts";
import { onThemeChange } from "../theme.ts";
import { ChunkPanel } from "./chunk_panel.tsx";
import { SegmentPanel } from "./segment_panel.tsx";
import { Choice } from "./table.tsx";

const LIMIT = 2000;
const REST_MS = 140;
const REPLAY_MS = 420;
const MARGIN = 0.6; // of the range, asked for on either side
const DEEP_MS = 300;

type TableRoute = Extract<Route, { page: "table" }>;

export function SegmentMapView({ route }: { route: TableRoute }) {
  const { table } = route;
  const version = numberOf(route.parameters.version);
  const whole = useAnswer<SegmentMap>(address("api/map", { table, version, limit: LIMIT }), { keepLast: true, ...(version === null ? { table } : {}) });
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

function spanOf(span: { start: string; end: string } | null): Range {
  return span ? { start: Date.parse(span.start), end: Date.parse(span.end) } : { start: 0, end: 1 };
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
    replaceParameters(route, { start: at(rested.start), end: at(rested.end), by: measure === "sorted" ? "" : measure, segment: selected ?? "" });
  }, [rested, measure, selected]);
  const cell = map.cells.find((each) => each.id === selected) ?? null;
  const setVersion = useCallback((next: number | null) => replaceParameters(route, { version: next === null ? "" : String(next) }), [route]);
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
      <Versions table={table} map={overview} version={version} range={rested} setVersion={setVersion} />
      <p class="muted status" role="status">
        {summary(map, range)}
        {asking && <span> · reading …</span>}
      </p>
      {cell && cell.kind === "segment" && (
        <SegmentPanel table={table} id={cell.id} version={version} close={() => setSelected(null)} select={setSelected} />
      )}
      {cell && <ChunkPanel table={table} cell={cell} all={map.cells} close={() => setSelected(null)} />}
      <CellTable map={map} range={range} select={setSelected} selected={selected} />
    </div>
  );
}

function rangeOf(route: TableRoute, whole: Range): Range {
  const [start, end] = [Date.parse(route.parameters.start ?? ""), Date.parse(route.parameters.end ?? "")];
  return Number.isFinite(start) && Number.isFinite(end) && start < end ? { start, end } : whole;
}

function measureOf(route: TableRoute): Measure {
  const { by = "" } = route.parameters;
  return Object.hasOwn(MEASURES, by) ? (by as Measure) : "sorted";
}

function measures(): [Measure, string][] {
  return (Object.keys(MEASURES) as Measure[]).map((key) => [key, MEASURES[key].title]);
}

function summary(map: SegmentMap, range: Range): string {
  const inSight = map.cells.filter((cell) => Date.parse(cell.end) > range.start && Date.parse(cell.start) < range.end);
  const files = (state: Cell["state"]) => inSight.filter((cell) => cell.state === state).reduce((sum, cell) => sum + cell.segments, 0);
  const hidden = files("hidden") + inSight.reduce((sum, cell) => sum + cell.hidden, 0);
  const standby = files("standby");
  const size = inSight.filter((cell) => cell.state === "visible").reduce((sum, cell) => sum + cell.bytes, 0);
  const parts = [`${counted(files("visible"), "visible segment")} of ${bytes(size)}`, `${integer(hidden)} hidden`];
  if (standby) parts.push(`${integer(standby)} on standby`);
  const how = map.level === "chunks" ? "summed up by time chunk: zoom in for segments" : "one rectangle a segment";
  return `${interval(new Date(range.start).toISOString(), new Date(range.end).toISOString())}: ${parts.join(", ")} · ${how}`;
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
function useRange(table: string, version: number | null, overview: SegmentMap, range: Range, whole: Range) {
  const complete = overview.level === "segments" && overview.cells.every((cell) => cell.kind === "segment");
  const length = range.end - range.start;
  const isWhole = length >= (whole.end - whole.start) * 0.98;
  const wanted = useRef<Range | null>(null);
  const known = wanted.current;
  const covered = known !== null && known.start <= Math.max(range.start, whole.start) && known.end >= Math.min(range.end, whole.end) && known.end - known.start < length * (1 + 4 * MARGIN);
  if (!covered) wanted.current = { start: range.start - length * MARGIN, end: range.end + length * MARGIN };
  const at = wanted.current ?? range;
  const path = complete || isWhole ? null : address("api/map", { table, version, start: new Date(at.start).toISOString(), end: new Date(at.end).toISOString(), limit: LIMIT });
  const asked = useAnswer<SegmentMap>(path, { keepLast: true, ...(version === null ? { table } : {}) });
  const map = path !== null && asked.data ? asked.data : overview;
  return { map, asking: path !== null && asked.asking };
}

// ---- the picture ----

interface PictureProps {
  map: SegmentMap;
  table: string;
  range: Range;
  whole: Range;
  measure: Measure;
  selected: string | null;
  select: (id: string | null) => void;
  change: (range: Range) => void;
  version: number | null;
  setVersion: (version: number | null) => void;
}

function Picture(props: PictureProps) {
  const { map, range, whole, measure, selected, select, change } = props;
  const [box, width] = useWidth<HTMLDivElement>();
  const canvas = useRef<HTMLCanvasElement>(null);
  const [hovered, setHovered] = useState<{ rect: Rect; x: number; y: number } | null>(null);
  const [, redraw] = useState(0);
  const height = width < 600 ? 260 : 400;
  const some = useMemo(() => stacks(map.cells), [map]);
  const most = useEased(useMemo(() => fullest(some, range), [some, range]) * 1.06);
  const rects = useMemo(() => (width ? layout(some, range, width, height, most) : []), [some, range, width, height, most]);
  const bounds = useMemo(() => boundsOf(map), [map]);
  const fresh = useFresh(map);
  const inFull = useRowGroups(props.table, props.version, rects, width);
  useEffect(() => onThemeChange(() => redraw((n) => n + 1)), []);
  useLayoutEffect(() => {
    const element = canvas.current;
    const context = element?.getContext("2d");
    if (!element || !context || !width) return;
    const ratio = devicePixelRatio || 1;
    element.width = Math.round(width * ratio);
    element.height = Math.round((height + AXIS) * ratio);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const theme = document.documentElement.dataset.theme === "dark" ? "dark" : "light";
    const fill = (rect: Rect) => colour(measure, share(rect.cell, measure, bounds), theme);
    draw(context, { rects, range, width, height, fill, inks: inksOf(element), selected, hovered: hovered?.rect.cell.id ?? null, fresh, inFull });
  });
  useGestures(canvas, { range, whole, width, change });
  const at = (event: PointerEvent): [number, number] => {
    const bounds = (event.currentTarget as Element).getBoundingClientRect();
    return [event.clientX - bounds.left, event.clientY - bounds.top];
  };
  const move = (event: PointerEvent) => {
    if (event.buttons || event.pointerType === "touch") return setHovered(null);
    const [x, y] = at(event);
    const rect = hit(rects, x, y);
    setHovered(rect && { rect, x, y });
  };
  const click = (event: MouseEvent) => {
    const rect = hit(rects, ...at(event as PointerEvent));
    select(rect ? rect.cell.id : null);
  };
  const press = (event: KeyboardEvent) => {
    if (keyed(event, props, rects)) {
      event.preventDefault();
      event.stopPropagation();
    }
  };
  const chosen = rects.find((rect) => rect.cell.id === selected);
  return (
    <div class="picture" ref={box}>
      <canvas
        ref={canvas}
        class={`map-canvas ${width < 600 ? "small" : ""}`}
        tabIndex={0}
        role="application"
        aria-roledescription="segment map"
        aria-label={`${summary(map, range)}. Arrows move between segments, plus and minus zoom; the same is a table below.`}
        onPointerMove={move}
        onPointerLeave={() => setHovered(null)}
        onClick={click}
        onDblClick={(event) => {
          const rect = hit(rects, ...at(event as unknown as PointerEvent));
          if (rect) change(around(rect.cell, whole));
        }}
        onKeyDown={press}
      />
      {hovered && <Tip at={hovered} width={width} height={height} />}
      <div class="visually-hidden" aria-live="polite">
        {chosen ? described(chosen.cell) : ""}
      </div>
    </div>
  );
}

function boundsOf(map: SegmentMap) {
  const created = map.cells.flatMap((cell) => (cell.oldest ? [Date.parse(cell.oldest)] : []));
  return {
    oldest: created.reduce((a, b) => Math.min(a, b), Infinity),
    newest: map.newest ? Date.parse(map.newest) : Date.now(),
    generations: Math.max(1, ...map.cells.map((cell) => cell.generation)),
  };
}

// The scale of heights follows in a few frames, so that a zoom is seen as one.
function useEased(target: number): number {
  const [value, setValue] = useState(target);
  const still = useMemo(() => matchMedia("(prefers-reduced-motion: reduce)").matches, []);
  useEffect(() => {
    if (still || value === target || !value) {
      setValue(target);
      return undefined;
    }
    const frame = requestAnimationFrame(() => {
      const next = value + (target - value) * 0.35;
      setValue(Math.abs(next - target) < target * 0.01 ? target : next);
    });
    return () => cancelAnimationFrame(frame);
  }, [value, target]);
  return value || target;
}

// Segments that the version before did not show, if that version was the last one shown.
function useFresh(map: SegmentMap): ReadonlySet<string> {
  const before = useRef<{ shown: number; level: string; ids: Set<string>; fresh: Set<string> }>({ shown: 0, level: "", ids: new Set(), fresh: new Set() });
  return useMemo(() => {
    const last = before.current;
    const visible = map.cells.filter((cell) => cell.state === "visible").map((cell) => cell.id);
    const fresh = new Set<string>();
    if (map.versions.shown > last.shown && last.shown > 0 && map.level === "segments" && last.level === "segments")
      for (const id of visible) if (!last.ids.has(id)) fresh.add(id);
    const kept = map.versions.shown === last.shown ? last.fresh : fresh.size < visible.length / 2 ? fresh : new Set<string>();
    before.current = { shown: map.versions.shown, level: map.level, ids: new Set(visible), fresh: kept };
    return kept;
  }, [map]);
}

// Row groups of the few segments that are wide enough for them.
function useRowGroups(table: string, version: number | null, rects: Rect[], width: number): ReadonlyMap<string, SegmentInFull> {
  const [found, setFound] = useState<ReadonlyMap<string, SegmentInFull>>(new Map());
  const wide = rects
    .filter((rect) => rect.cell.kind === "segment" && rect.cell.state === "visible" && !rect.cell.tombstone)
    .filter((rect) => seen(rect, width) > width * 0.22 && rect.height > 12)
    .slice(0, 4)
    .map((rect) => rect.cell.id)
    .join("\n");
  useEffect(() => {
    const missing = wide.split("\n").filter((id) => id && !found.has(id));
    if (missing.length === 0) return undefined;
    const control = new AbortController();
    const timer = setTimeout(() => {
      for (const id of missing)
        ask<SegmentInFull>(address("api/segment", { table, id, version }), control.signal).then(
          (answer) => setFound((old) => new Map([...old, [id, answer.data]])),
          () => undefined, // the picture stays as it is; the panel says why
        );
    }, DEEP_MS);
    return () => {
      clearTimeout(timer);
      control.abort();
    };
  }, [wide]);
  return found;
}

function seen(rect: Rect, width: number): number {
  return Math.min(rect.x + rect.width, width) - Math.max(rect.x, 0);
}

function around(cell: Cell, whole: Range): Range {
  const [start, end] = [Date.parse(cell.start), Date.parse(cell.end)];
  const from = start + cell.left * (end - start);
  const until = start + cell.right * (end - start);
  const margin = (until - from) * (cell.kind === "segment" ? 0.15 : 0.05);
  const range = { start: from - margin, end: until + margin };
  return zoomed(range, whole, 1, (range.start + range.end) / 2);
}

// ---- keys ----

const ARROWS: Record<string, Direction> = { ArrowLeft: "left", ArrowRight: "right", ArrowUp: "up", ArrowDown: "down" };

function keyed(event: KeyboardEvent, props: PictureProps, rects: Rect[]): boolean {
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
    const next = shown ? neighbour(rects, shown, arrow) : (rects[Math.floor(rects.length / 2)] ?? null);
    if (next) {
      select(next.cell.id);
      change(including(next.cell, range, whole));
    }
    return true;
  }
  const middle = shown ? (spanOf(shown.cell).start + spanOf(shown.cell).end) / 2 : (range.start + range.end) / 2;
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
      if (next >= map.versions.first && next <= map.versions.last) props.setVersion(next === map.versions.last ? null : next);
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

// ---- words ----

const STATE_WORDS = { visible: "visible", hidden: "hidden behind later ones", standby: "on standby" } as const;

function described(cell: Cell): string {
  const what = cell.tombstone ? "tombstone" : cell.kind === "chunks" ? counted(cell.chunks, "time chunk") : cell.kind === "run" ? "neighbouring segments" : "segment";
  const files = cell.segments > 1 ? `, ${counted(cell.segments, "file")}` : "";
  return `${what} of ${interval(cell.start, cell.end)}, ${STATE_WORDS[cell.state]}, ${bytes(cell.bytes)}, ${short(cell.rows)} rows${files}, sorted ${percent(cell.sorted_share)}, deleted ${percent(cell.deleted_share)}`;
}

function Tip({ at, width, height }: { at: { rect: Rect; x: number; y: number }; width: number; height: number }) {
  const { cell } = at.rect;
  const tip = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const element = tip.current;
    if (!element) return;
    const { offsetWidth, offsetHeight } = element;
    const left = at.x + 16 + offsetWidth > width ? at.x - 16 - offsetWidth : at.x + 16;
    const top = at.y + 12 + offsetHeight > height + AXIS ? at.y - 12 - offsetHeight : at.y + 12;
    element.style.transform = `translate(${Math.max(0, left)}px, ${Math.max(0, top)}px)`;
  });
  return (
    <div class="tip" ref={tip} aria-hidden="true">
      <b>{interval(cell.start, cell.end)}</b>
      <dl>
        <Row name="State" value={cell.tombstone ? "tombstone" : STATE_WORDS[cell.state]} />
        {cell.segments > 1 && <Row name="Segments" value={integer(cell.segments)} />}
        {cell.hidden > 0 && <Row name="Hidden behind" value={integer(cell.hidden)} />}
        <Row name="Size" value={bytes(cell.bytes)} />
        <Row name="Rows" value={short(cell.rows)} />
        <Row name="Sorted" value={cell.clustering ? `by ${cell.clustering}` : percent(cell.sorted_share)} />
        {cell.deleted_share > 0 && <Row name="Deleted" value={percent(cell.deleted_share)} />}
        <Row name="Generation" value={generation(cell)} />
        {cell.roots && <Row name="Roots" value={`[${cell.roots[0]}, ${cell.roots[1]})`} />}
        {cell.bucket !== null && <Row name="Bucket" value={`${cell.bucket}${cell.base ? `, ${cell.base} file` : ""}`} />}
        {cell.created && <Row name="Written" value={moment(cell.created)} />}
      </dl>
    </div>
  );
}

function Row({ name, value }: { name: string; value: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  );
}

function generation(cell: Cell): string {
  return cell.generation === 0 ? "as appended" : `compacted, minor version ${cell.generation}`;
}

function Legend({ measure }: { measure: Measure }) {
  const { low, high } = MEASURES[measure];
  const [theme, setTheme] = useState(themeNow);
  useEffect(() => onThemeChange(() => setTheme(themeNow())), []);
  const steps = [0, 1, 2, 3, 4, 5, 6, 7];
  return (
    <span class="legend">
      <span>{low}</span>
      <svg width="96" height="12" aria-hidden="true">
        {steps.map((step) => (
          <rect key={step} x={step * 12} width="12" height="12" fill={colour(measure, step / 7, theme)} />
        ))}
      </svg>
      <span>{high}</span>
      <span class="mark">
        <svg width="16" height="12" aria-hidden="true">
          <rect class="legend-hidden" width="16" height="12" />
          <path class="legend-hatch" d="M-2 6l8-8M0 12L12 0M6 14l12-12M12 16l8-8" />
        </svg>
        hidden
      </span>
      <span class="mark">
        <svg width="16" height="12" aria-hidden="true">
          <rect class="legend-standby" x="0.5" y="0.5" width="15" height="11" />
        </svg>
        standby
      </span>
      <span class="mark">
        <svg width="16" height="12" aria-hidden="true">
          <rect class="legend-fresh" x="1" y="1" width="14" height="10" />
        </svg>
        new in this version
      </span>
    </span>
  );
}

function themeNow(): "light" | "dark" {
  return document.documentElement.dataset.theme === "dark" ? "dark" : "light";
}

function ZoomButtons({ range, whole, change }: { range: Range; whole: Range; change: (range: Range) => void }) {
  const middle = (range.start + range.end) / 2;
  const length = range.end - range.start;
  return (
    <div class="choice zoom" role="group" aria-label="Range">
      <button type="button" aria-label="Earlier" onClick={() => change(moved(range, whole, -length / 3))}>
        <Icon name="left" />
      </button>
      <button type="button" aria-label="Later" onClick={() => change(moved(range, whole, length / 3))}>
        <Icon name="right" />
      </button>
      <button type="button" aria-label="Zoom out" onClick={() => change(zoomed(range, whole, 2, middle))}>
        <Icon name="minus" />
      </button>
      <button type="button" aria-label="Zoom in" onClick={() => change(zoomed(range, whole, 0.5, middle))}>
        <Icon name="plus" />
      </button>
      <button type="button" aria-label="The whole range" onClick={() => change(whole)}>
        <Icon name="whole" />
      </button>
    </div>
  );
}

// ---- the whole range, small ----

const OVERVIEW_HEIGHT = 34;

function Overview({ map, range, whole, change }: { map: SegmentMap; range: Range; whole: Range; change: (range: Range) => void }) {
  const [box, width] = useWidth<HTMLDivElement>();
  const rects = useMemo(() => {
    const some = stacks(map.cells.filter((cell) => cell.state === "visible"));
    return width ? layout(some, whole, width, OVERVIEW_HEIGHT, fullest(some, whole)) : [];
  }, [map, whole, width]);
  const scale = width / (whole.end - whole.start);
  const left = Math.max(0, (range.start - whole.start) * scale);
  const right = Math.min(width, (range.end - whole.start) * scale);
  const drag = (event: PointerEvent) => {
    if (!event.buttons) return;
    const bounds = (event.currentTarget as Element).getBoundingClientRect();
    const at = whole.start + (event.clientX - bounds.left) / scale;
    change(moved(range, whole, at - (range.start + range.end) / 2));
  };
  return (
    <div class="whole" ref={box}>
      {width > 0 && (
        <svg width={width} height={OVERVIEW_HEIGHT} aria-hidden="true" onPointerDown={drag} onPointerMove={drag}>
          {rects.map((rect) => (
            <rect key={rect.cell.id} class="quiet-bar" x={rect.x} y={rect.y} width={Math.max(1, rect.width)} height={rect.height} />
          ))}
          <rect class="veil" width={left} height={OVERVIEW_HEIGHT} />
          <rect class="veil" x={right} width={Math.max(0, width - right)} height={OVERVIEW_HEIGHT} />
          <rect class="window" x={left + 0.5} y="0.5" width={Math.max(3, right - left - 1)} height={OVERVIEW_HEIGHT - 1} />
        </svg>
      )}
    </div>
  );
}

// ---- versions ----

function Versions(props: {
  table: string;
  map: SegmentMap;
  version: number | null;
  range: Range;
  setVersion: (version: number | null) => void;
}) {
  const { table, map, setVersion } = props;
  const { first, last } = map.versions;
  const shown = props.version ?? last;
  const [dragged, setDragged] = useState<number | null>(null);
  const [playing, setPlaying] = useState(false);
  const changes = useAnswer<ChunkChanges>(
    address("api/map/changes", { table, start: new Date(props.range.start).toISOString(), end: new Date(props.range.end).toISOString(), limit: 500 }),
    { keepLast: true },
  );
  const steps = useMemo(() => [...new Set((changes.data?.changes ?? []).map((change) => change.n))].sort((a, b) => a - b), [changes.data]);
  const set = (next: number) => setVersion(next >= last ? null : Math.max(first, next));
  useEffect(() => {
    if (dragged === null) return undefined;
    const timer = setTimeout(() => set(dragged), 60);
    return () => clearTimeout(timer);
  }, [dragged]);
  useEffect(() => setDragged(null), [shown]);
  useEffect(() => {
    if (!playing) return undefined;
    const next = steps.find((each) => each > shown);
    const ready = map.versions.shown === shown;
    if (next === undefined && ready) {
      setPlaying(false);
      return undefined;
    }
    if (!ready || next === undefined) return undefined;
    const timer = setTimeout(() => set(next), REPLAY_MS);
    return () => clearTimeout(timer);
  }, [playing, shown, map.versions.shown, steps]);
  const play = () => {
    const begin = steps[0];
    if (!playing && shown >= last && begin !== undefined) set(begin);
    setPlaying(!playing);
  };
  const before = [...steps].reverse().find((each) => each < shown);
  const after = steps.find((each) => each > shown);
  const change = changes.data?.changes.find((each) => each.n === (dragged ?? shown));
  return (
    <div class="versions">
      <div class="choice" role="group" aria-label="Versions">
        <button type="button" aria-label="The change before" disabled={before === undefined} onClick={() => before !== undefined && set(before)}>
          <Icon name="left" />
        </button>
        <button type="button" data-shortcut="replay" aria-label={playing ? "Pause" : "Replay"} disabled={steps.length === 0} onClick={play}>
          <Icon name={playing ? "pause" : "play"} />
        </button>
        <button type="button" aria-label="The change after" disabled={after === undefined && shown >= last} onClick={() => set(after ?? last)}>
          <Icon name="right" />
        </button>
      </div>
      <label class="slider">
        <span class="visually-hidden">Version</span>
        <input
          type="range"
          min={first}
          max={last}
          value={dragged ?? shown}
          aria-valuetext={`version ${dragged ?? shown} of ${last}`}
          onInput={(event) => setDragged(Number(event.currentTarget.value))}
        />
      </label>
      <div class="event">
        <span class="num">
          <b>{shown === last && dragged === null ? "Now" : "Version"}</b> {integer(dragged ?? shown)}
        </span>
        <span class="muted">
          {change ? readable(change.sentence) : shown === last ? "" : "this event changed no segment in sight"}
        </span>
        <Time at={change?.at ?? (dragged === null ? map.versions.at : null)} />
        {props.version !== null && (
          <>
            <button type="button" onClick={() => setVersion(null)}>
              Now
            </button>
            <ActionButton action="restore" table={table} given={{ version: shown }}>
              Restore this version
            </ActionButton>
            <ActionButton action="tag" table={table} given={{ version: shown }}>
              Tag it
            </ActionButton>
          </>
        )}
      </div>
    </div>
  );
}

// ---- the same as words ----

const COLUMNS: DataColumn<Cell>[] = [
  { key: "start", title: "Time", main: true, by: (cell) => cell.start, cell: (cell) => <span class="nowrap num">{interval(cell.start, cell.end)}</span> },
  { key: "state", title: "State", by: (cell) => cell.state, cell: (cell) => (cell.tombstone ? "tombstone" : cell.state) },
  { key: "segments", title: "Segments", number: true, by: (cell) => cell.segments, cell: (cell) => integer(cell.segments) },
  { key: "bytes", title: "Size", number: true, by: (cell) => cell.bytes, cell: (cell) => bytes(cell.bytes) },
  { key: "rows", title: "Rows", number: true, by: (cell) => cell.rows, cell: (cell) => short(cell.rows) },
  { key: "generation", title: "Generation", number: true, by: (cell) => cell.generation, cell: (cell) => cell.generation },
  { key: "roots", title: "Roots", cell: (cell) => (cell.roots ? `[${cell.roots[0]}, ${cell.roots[1]})` : "") },
  { key: "sorted", title: "Sorted", number: true, by: (cell) => cell.sorted_share, cell: (cell) => percent(cell.sorted_share) },
  { key: "deleted", title: "Deleted", number: true, by: (cell) => cell.deleted_share, cell: (cell) => percent(cell.deleted_share) },
  { key: "created", title: "Written", by: (cell) => cell.created, cell: (cell) => <Time at={cell.created} age /> },
];

function CellTable(props: { map: SegmentMap; range: Range; selected: string | null; select: (id: string) => void }) {
  const { map, range, select } = props;
  const [open, setOpen] = useState(false);
  const cells = map.cells.filter((cell) => Date.parse(cell.end) > range.start && Date.parse(cell.start) < range.end);
  const columns = useMemo(
    () => [
      ...COLUMNS,
      {
        key: "show",
        title: "",
        name: "Select",
        cell: (cell: Cell) => (
          <button type="button" class="link" onClick={() => select(cell.id)} aria-label={`Select ${described(cell)}`}>
            Select
          </button>
        ),
      },
    ],
    [select],
  );
  return (
    <details class="same" open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>The same as a table ({integer(cells.length)} lines)</summary>
      {open && <DataTable caption="Segments in sight" columns={columns} lines={cells} id={(cell) => cell.id} pageSize={50} selected={props.selected} order={{ key: "start", descending: true }} />}
    </details>
  );
}
