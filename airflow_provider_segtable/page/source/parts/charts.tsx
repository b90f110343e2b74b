// Plots, drawn as SVG: a sparkline, a line over time, bars by day, a meter.
//
// 1. A plot is a picture with a sentence for a label; its numbers are readable beside it or below.
// 2. Axes begin at zero; ticks are round numbers; lines are labelled where they end.

import type { RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { day } from "../format.ts";
import { anchor, type Base, linear, round, timeTicks, valueTicks } from "./scales.ts";

export function Spark({ values, label }: { values: number[]; label: string }) {
  if (values.length < 2) return <span class="spark" aria-hidden="true" />;
  const most = Math.max(...values);
  const least = Math.min(...values);
  const x = linear(0, values.length - 1, 1.5, 62.5);
  const y = linear(least, most === least ? least + 1 : most, 18, 2);
  const at = values.map(
    (value, n) => `${x(n).toFixed(1)} ${(most === least ? 10 : y(value)).toFixed(1)}`,
  );
  const last = at[at.length - 1]?.split(" ") ?? ["0", "0"];
  return (
    <svg class="spark" viewBox="0 0 64 20" width="64" height="20" role="img" aria-label={label}>
      <path d={`M${at.join("L")}`} />
      <circle cx={last[0]} cy={last[1]} r="1.8" />
    </svg>
  );
}

// The width that the layout gives, in pixels: text in a plot is never stretched.
export function useWidth<E extends Element>(): [RefObject<E | null>, number] {
  const box = useRef<E>(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const observer = new ResizeObserver(([entry]) => {
      if (entry) setWidth(Math.floor(entry.contentRect.width));
    });
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return [box, width];
}

export interface Point {
  at: number;
  value: number;
}

export interface Series {
  name: string;
  points: Point[];
  className: string;
  area?: boolean;
}

const MARGIN = { left: 64, right: 12, top: 10, bottom: 24 };

export function TimePlot(props: {
  series: Series[];
  label: string;
  text: (value: number) => string;
  base?: Base;
  height?: number;
  line?: { value: number; text: string };
}) {
  const [box, width] = useWidth<HTMLDivElement>();
  const [hover, setHover] = useState<number | null>(null);
  const height = props.height ?? 200;
  const points = props.series.flatMap((series) => series.points);
  const from = Math.min(...points.map((point) => point.at));
  const to = Math.max(...points.map((point) => point.at), from + 1);
  const most = Math.max(...points.map((point) => point.value), props.line?.value ?? 0, 1e-9) * 1.05;
  const x = linear(from, to, MARGIN.left, width - MARGIN.right);
  const y = linear(0, most, height - MARGIN.bottom, MARGIN.top);
  const move = (event: PointerEvent) => {
    const left = (event.currentTarget as Element).getBoundingClientRect().left;
    const at =
      from +
      ((event.clientX - left - MARGIN.left) / Math.max(1, width - MARGIN.left - MARGIN.right)) *
        (to - from);
    setHover(nearest(props.series[0]?.points ?? [], at));
  };
  return (
    <div class="plot" ref={box}>
      {width > 0 && points.length > 0 && (
        <svg
          width={width}
          height={height}
          role="img"
          aria-label={props.label}
          onPointerMove={move}
          onPointerLeave={() => setHover(null)}
        >
          {valueTicks(most, 4, props.base ?? 10).map((tick) => (
            <g key={tick} class="tick">
              <line x1={MARGIN.left} x2={width - MARGIN.right} y1={y(tick)} y2={y(tick)} />
              <text x={MARGIN.left - 8} y={y(tick) + 4} text-anchor="end">
                {round(props.text(tick))}
              </text>
            </g>
          ))}
          {timeTicks(from, to, width / 110).map((tick) => (
            <text
              key={tick.at}
              class="tick"
              x={x(tick.at)}
              y={height - 6}
              text-anchor={anchor(x(tick.at), MARGIN.left, width)}
            >
              {tick.text}
            </text>
          ))}
          {props.line && (
            <g class="aim">
              <line
                x1={MARGIN.left}
                x2={width - MARGIN.right}
                y1={y(props.line.value)}
                y2={y(props.line.value)}
              />
              <text x={width - MARGIN.right} y={y(props.line.value) - 4} text-anchor="end">
                {props.line.text}
              </text>
            </g>
          )}
          {props.series.map((series) => (
            <g key={series.name} class={`line ${series.className}`}>
              {series.area && <path class="area" d={area(series.points, x, y)} />}
              <path class="stroke" d={steps(series.points, x, y)} />
              {hover !== null && series.points[hover] && (
                <circle
                  cx={x(series.points[hover].at)}
                  cy={y(series.points[hover].value)}
                  r="3.5"
                />
              )}
            </g>
          ))}
        </svg>
      )}
      <Read series={props.series} at={hover} text={props.text} />
    </div>
  );
}

function Read(props: { series: Series[]; at: number | null; text: (value: number) => string }) {
  const first = props.series[0]?.points ?? [];
  const at = props.at ?? first.length - 1;
  const point = first[at];
  if (!point) return null;
  return (
    <p class="read" aria-hidden="true">
      <span class="muted num">
        {new Date(point.at).toISOString().slice(0, 16).replace("T", " ")}
      </span>
      {props.series.map((series) => (
        <span key={series.name} class="num">
          <span class={`swatch ${series.className}`} /> {series.name}{" "}
          <b>{props.text(series.points[at]?.value ?? 0)}</b>
        </span>
      ))}
    </p>
  );
}

function nearest(points: Point[], at: number): number | null {
  let best: number | null = null;
  let least = Infinity;
  points.forEach((point, n) => {
    const away = Math.abs(point.at - at);
    if (away < least) [best, least] = [n, away];
  });
  return best;
}

type Scale = (value: number) => number;

// A table stays as it is until the next event: so a line has steps.
function steps(points: Point[], x: Scale, y: Scale): string {
  return points
    .map((point, n) =>
      n
        ? `H${x(point.at).toFixed(1)}V${y(point.value).toFixed(1)}`
        : `M${x(point.at).toFixed(1)} ${y(point.value).toFixed(1)}`,
    )
    .join("");
}

function area(points: Point[], x: Scale, y: Scale): string {
  const first = points[0];
  const last = points[points.length - 1];
  if (!first || !last) return "";
  return `${steps(points, x, y)}L${x(last.at).toFixed(1)} ${y(0)}L${x(first.at).toFixed(1)} ${y(0)}Z`;
}

// ---- bars ----

export interface Stack {
  key: string;
  parts: { name: string; value: number; className: string }[];
}

export function DayBars(props: {
  stacks: Stack[];
  label: string;
  text: (value: number) => string;
  base?: Base;
}) {
  const [box, width] = useWidth<HTMLDivElement>();
  const height = 160;
  const sums = props.stacks.map((stack) => stack.parts.reduce((sum, part) => sum + part.value, 0));
  const most = Math.max(...sums, 1e-9) * 1.05;
  const y = linear(0, most, height - MARGIN.bottom, MARGIN.top);
  const step = (width - MARGIN.left - MARGIN.right) / Math.max(1, props.stacks.length);
  const every = Math.max(1, Math.ceil(52 / Math.max(1, step)));
  return (
    <div class="plot" ref={box}>
      {width > 0 && (
        <svg width={width} height={height} role="img" aria-label={props.label}>
          {valueTicks(most, 3, props.base ?? 10).map((tick) => (
            <g key={tick} class="tick">
              <line x1={MARGIN.left} x2={width - MARGIN.right} y1={y(tick)} y2={y(tick)} />
              <text x={MARGIN.left - 8} y={y(tick) + 4} text-anchor="end">
                {round(props.text(tick))}
              </text>
            </g>
          ))}
          {props.stacks.map((stack, n) => (
            <g key={stack.key}>
              <title>{`${stack.key}: ${stack.parts.map((part) => `${part.name} ${props.text(part.value)}`).join(", ")}`}</title>
              <Bar
                stack={stack}
                x={MARGIN.left + n * step + Math.min(4, step * 0.15)}
                width={Math.min(48, step * 0.7)}
                y={y}
              />
              {n % every === 0 && (
                <text
                  class="tick"
                  x={
                    MARGIN.left + n * step + Math.min(48, step * 0.7) / 2 + Math.min(4, step * 0.15)
                  }
                  y={height - 6}
                  text-anchor="middle"
                >
                  {day(stack.key).slice(5)}
                </text>
              )}
            </g>
          ))}
        </svg>
      )}
    </div>
  );
}

function Bar(props: { stack: Stack; x: number; width: number; y: Scale }) {
  let below = 0;
  return (
    <>
      {props.stack.parts.map((part) => {
        const top = props.y(below + part.value);
        const rect = (
          <rect
            key={part.name}
            class={part.className}
            x={props.x}
            width={Math.max(1, props.width)}
            y={top}
            height={Math.max(0, props.y(below) - top)}
          />
        );
        below += part.value;
        return rect;
      })}
    </>
  );
}

// A share as a bar, with its words beside it; `mark` is where an aim lies.
export function Meter(props: { share: number; label: string; className?: string; mark?: number }) {
  const width = Math.max(0, Math.min(1, props.share)) * 100;
  const at = `${(props.mark ?? 0) * 100}%`;
  return (
    <svg class="meter" width="100%" height="8" role="img" aria-label={props.label}>
      <rect class="track" width="100%" height="8" rx="2" />
      <rect class={props.className ?? "fill"} width={`${width}%`} height="8" rx="2" />
      {props.mark !== undefined && <line class="aim-mark" x1={at} x2={at} y1="0" y2="8" />}
    </svg>
  );
}

// Two lengths on one scale, and their numbers: expected and measured, read and written.
export function Pair(props: {
  most: number;
  first: { name: string; value: number | null; text: string };
  second: { name: string; value: number | null; text: string };
}) {
  const { first, second } = props;
  const length = (value: number | null) => ((value ?? 0) / (props.most || 1)) * PAIR_PX;
  return (
    <span class="pair">
      <svg width={PAIR_PX} height="13" aria-hidden="true">
        <rect class="quiet-bar" y="0.5" width={length(first.value)} height="5" rx="1" />
        <rect class="fill" y="7" width={length(second.value)} height="5" rx="1" />
      </svg>
      <span class="num">
        <span class="visually-hidden">{first.name} </span>
        <span class="muted">{first.text}</span>
        <span class="visually-hidden">, {second.name} </span> {second.text}
      </span>
    </span>
  );
}

const PAIR_PX = 64;

// A length on a scale, and its number.
export function Length({ most, value, text }: { most: number; value: number; text: string }) {
  return (
    <span class="pair">
      <svg width={PAIR_PX} height="8" aria-hidden="true">
        <rect class="fill" width={(value / (most || 1)) * PAIR_PX} height="8" rx="1" />
      </svg>
      <span class="num">{text}</span>
    </span>
  );
}

// Where in time something is: marks on a strip of the whole range.
export interface StripMark {
  start: number;
  end: number;
  className: string;
  title: string;
}

export function TimeStrip(props: {
  start: number;
  end: number;
  marks: StripMark[];
  label: string;
  rows?: { name: string; marks: StripMark[] }[];
}) {
  const [box, width] = useWidth<HTMLDivElement>();
  const rows = props.rows ?? [{ name: "", marks: props.marks }];
  const left = rows.some((row) => row.name) ? 72 : 0;
  const x = linear(props.start, props.end, left, width);
  const bottom = rows.length * 20;
  return (
    <div class="strip" ref={box}>
      {width > 0 && (
        <svg width={width} height={bottom + 20} role="img" aria-label={props.label}>
          {rows.map((row, n) => (
            <g key={row.name}>
              {row.name && (
                <text class="tick" x="0" y={n * 20 + 12}>
                  {row.name}
                </text>
              )}
              <rect
                class="track"
                x={left}
                y={n * 20 + 2}
                width={Math.max(0, width - left)}
                height="14"
                rx="2"
              />
              {row.marks.map((mark) => (
                <rect
                  key={`${mark.start} ${mark.end} ${mark.className}`}
                  class={mark.className}
                  x={Math.max(left, x(mark.start))}
                  y={n * 20 + 2}
                  width={Math.max(
                    2,
                    Math.min(width, x(mark.end)) - Math.max(left, x(mark.start)) - 0.5,
                  )}
                  height="14"
                >
                  <title>{mark.title}</title>
                </rect>
              ))}
            </g>
          ))}
          {timeTicks(props.start, props.end, (width - left) / 110).map((tick) => (
            <text
              key={tick.at}
              class="tick"
              x={x(tick.at)}
              y={bottom + 14}
              text-anchor={anchor(x(tick.at), left, width)}
            >
              {tick.text}
            </text>
          ))}
        </svg>
      )}
    </div>
  );
}
