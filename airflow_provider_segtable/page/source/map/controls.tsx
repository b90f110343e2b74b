// Around the picture: its legend, buttons for those without a wheel, and the whole range, small.

import { useEffect, useMemo, useState } from "preact/hooks";
import type { SegmentMap } from "../api.ts";
import { useWidth } from "../parts/charts.tsx";
import { Icon } from "../parts/icons.tsx";
import { onThemeChange, themeNow } from "../theme.ts";
import { colour, MEASURES, type Measure } from "./colours.ts";
import { fullest, layout, moved, type Range, stacks, zoomed } from "./layout.ts";

export function Legend({ measure }: { measure: Measure }) {
  const { low, high } = MEASURES[measure];
  const [theme, setTheme] = useState(themeNow);
  useEffect(() => onThemeChange(() => setTheme(themeNow())), []);
  const steps = [0, 1, 2, 3, 4, 5, 6, 7];
  return (
    <span class="legend">
      <span>{low}</span>
      <svg width="96" height="12" aria-hidden="true">
        {steps.map((step) => (
          <rect
            key={step}
            x={step * 12}
            width="12"
            height="12"
            fill={colour(measure, step / 7, theme)}
          />
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

export function ZoomButtons({
  range,
  whole,
  change,
}: {
  range: Range;
  whole: Range;
  change: (range: Range) => void;
}) {
  const middle = (range.start + range.end) / 2;
  const length = range.end - range.start;
  return (
    <div class="choice zoom" role="group" aria-label="Range">
      <button
        type="button"
        aria-label="Earlier"
        onClick={() => change(moved(range, whole, -length / 3))}
      >
        <Icon name="left" />
      </button>
      <button
        type="button"
        aria-label="Later"
        onClick={() => change(moved(range, whole, length / 3))}
      >
        <Icon name="right" />
      </button>
      <button
        type="button"
        aria-label="Zoom out"
        onClick={() => change(zoomed(range, whole, 2, middle))}
      >
        <Icon name="minus" />
      </button>
      <button
        type="button"
        aria-label="Zoom in"
        onClick={() => change(zoomed(range, whole, 0.5, middle))}
      >
        <Icon name="plus" />
      </button>
      <button type="button" aria-label="The whole range" onClick={() => change(whole)}>
        <Icon name="whole" />
      </button>
    </div>
  );
}

const OVERVIEW_HEIGHT = 34;

export function Overview({
  map,
  range,
  whole,
  change,
}: {
  map: SegmentMap;
  range: Range;
  whole: Range;
  change: (range: Range) => void;
}) {
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
        <svg
          width={width}
          height={OVERVIEW_HEIGHT}
          aria-hidden="true"
          onPointerDown={drag}
          onPointerMove={drag}
        >
          {rects.map((rect) => (
            <rect
              key={rect.cell.id}
              class="quiet-bar"
              x={rect.x}
              y={rect.y}
              width={Math.max(1, rect.width)}
              height={rect.height}
            />
          ))}
          <rect class="veil" width={left} height={OVERVIEW_HEIGHT} />
          <rect
            class="veil"
            x={right}
            width={Math.max(0, width - right)}
            height={OVERVIEW_HEIGHT}
          />
          <rect
            class="window"
            x={left + 0.5}
            y="0.5"
            width={Math.max(3, right - left - 1)}
            height={OVERVIEW_HEIGHT - 1}
          />
        </svg>
      )}
    </div>
  );
}
