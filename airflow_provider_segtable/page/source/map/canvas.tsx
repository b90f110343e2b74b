// The picture: a canvas that takes pointer, wheel and keys, and draws what `layout` places.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { address, ask } from "../answers.ts";
import type { SegmentInFull, SegmentMap } from "../api.ts";
import { useWidth } from "../parts/charts.tsx";
import { onThemeChange, themeNow } from "../theme.ts";
import { colour, type Measure, share } from "./colours.ts";
import { useGestures } from "./gestures.ts";
import { fullest, hit, layout, type Rect, stacks } from "./layout.ts";
import { around, type Explored, keyed } from "./map_keys.ts";
import { AXIS, draw, inksOf } from "./picture.ts";
import { Tip } from "./tip.tsx";
import { described, summary } from "./words.ts";

const DEEP_MS = 300;

interface PictureProps extends Explored {
  table: string;
  measure: Measure;
  version: number | null;
}

export function Picture(props: PictureProps) {
  const { map, range, whole, measure, selected, select, change } = props;
  const [box, width] = useWidth<HTMLDivElement>();
  const canvas = useRef<HTMLCanvasElement>(null);
  const [hovered, setHovered] = useState<{ rect: Rect; x: number; y: number } | null>(null);
  const [, redraw] = useState(0);
  const height = width < 600 ? 260 : 400;
  const some = useMemo(() => stacks(map.cells), [map]);
  const most = useEased(useMemo(() => fullest(some, range), [some, range]) * 1.06);
  const rects = useMemo(
    () => (width ? layout(some, range, width, height, most) : []),
    [some, range, width, height, most],
  );
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
    const theme = themeNow();
    const fill = (rect: Rect) => colour(measure, share(rect.cell, measure, bounds), theme);
    draw(context, {
      rects,
      range,
      width,
      height,
      fill,
      inks: inksOf(element),
      selected,
      hovered: hovered?.rect.cell.id ?? null,
      fresh,
      inFull,
    });
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
  const before = useRef<{ shown: number; level: string; ids: Set<string>; fresh: Set<string> }>({
    shown: 0,
    level: "",
    ids: new Set(),
    fresh: new Set(),
  });
  return useMemo(() => {
    const last = before.current;
    const visible = map.cells.filter((cell) => cell.state === "visible").map((cell) => cell.id);
    const fresh = new Set<string>();
    if (
      map.versions.shown > last.shown &&
      last.shown > 0 &&
      map.level === "segments" &&
      last.level === "segments"
    )
      for (const id of visible) if (!last.ids.has(id)) fresh.add(id);
    const kept =
      map.versions.shown === last.shown
        ? last.fresh
        : fresh.size < visible.length / 2
          ? fresh
          : new Set<string>();
    before.current = {
      shown: map.versions.shown,
      level: map.level,
      ids: new Set(visible),
      fresh: kept,
    };
    return kept;
  }, [map]);
}

// Row groups of the few segments that are wide enough for them.
function useRowGroups(
  table: string,
  version: number | null,
  rects: Rect[],
  width: number,
): ReadonlyMap<string, SegmentInFull> {
  const [found, setFound] = useState<ReadonlyMap<string, SegmentInFull>>(new Map());
  const wide = rects
    .filter(
      (rect) =>
        rect.cell.kind === "segment" && rect.cell.state === "visible" && !rect.cell.tombstone,
    )
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
