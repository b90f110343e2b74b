// Plans as bars over time, as in a trace: thin while one waits, thick while a worker has it.

import { useState } from "preact/hooks";
import { now } from "../answers.ts";
import type { PlanBar } from "../api.ts";
import { duration, place, readable } from "../format.ts";
import { useWidth } from "../parts/charts.tsx";
import { Kind, kindClass } from "../parts/marks.tsx";
import { anchor, linear, timeTicks } from "../parts/scales.ts";
import { Empty } from "../parts/states.tsx";

const ROW = 18;

const MOST_BARS = 60;

const TICKS = 20;

interface Drawn {
  plan: PlanBar;
  row: number;
  from: number;
  begin: number | null;
  to: number;
}

export function Bars({ plans }: { plans: PlanBar[] }) {
  const [box, width] = useWidth<HTMLDivElement>();
  const [hovered, setHovered] = useState<string | null>(null);
  const end = now();
  const some = plans.slice(0, 400);
  const drawn = packed(some, end);
  if (some.length === 0) return <Empty>No plan was requested or ended in this time.</Empty>;
  const from = Math.min(...drawn.map((each) => each.from));
  const to = Math.max(...drawn.map((each) => each.to));
  const margin = (to - from) * 0.02 + 1000;
  const x = linear(from - margin, to + margin, 0, width);
  const rows = Math.min(MOST_BARS, Math.max(...drawn.map((each) => each.row)) + 1);
  const height = rows * ROW + TICKS;
  const shown = drawn.find((each) => each.plan.id === hovered)?.plan;
  return (
    <div class="bars" ref={box}>
      {width > 0 && (
        <svg
          width={width}
          height={height}
          role="img"
          aria-label={`${plans.length} plans over time, from request to end; each is also an event below`}
        >
          {timeTicks(from - margin, to + margin, width / 110).map((tick) => (
            <g key={tick.at} class="tick">
              <line x1={x(tick.at)} x2={x(tick.at)} y1="0" y2={height - TICKS} />
              <text x={x(tick.at)} y={height - 5} text-anchor={anchor(x(tick.at), 0, width)}>
                {tick.text}
              </text>
            </g>
          ))}
          {drawn.map((each) => (
            <Bar key={each.plan.id} drawn={each} x={x} hover={setHovered} />
          ))}
        </svg>
      )}
      <p class="read" aria-hidden="true">
        {shown ? (
          <>
            <Kind kind={shown.kind} /> <b>{shown.status}</b> <span>{place(shown.interval)}</span>{" "}
            <span class="muted">{words(shown)}</span>
          </>
        ) : (
          <>
            <span class="muted">thin: requested, waiting · thick: a worker has it</span>
            {["minor", "semi-major", "major", "index"]
              .filter((kind) => plans.some((plan) => kindClass(plan.kind) === kindClass(kind)))
              .map((kind) => (
                <Kind key={kind} kind={kind} />
              ))}
          </>
        )}
      </p>
    </div>
  );
}

function words(plan: PlanBar): string {
  const worked = plan.worked_seconds === null ? "" : `, worked ${duration(plan.worked_seconds)}`;
  return `waited ${duration(plan.waited_seconds)}${worked} · ${readable(plan.note || plan.reason)}`;
}

// Each bar takes the first row that is free at its begin.
function packed(plans: PlanBar[], end: number): Drawn[] {
  const free: number[] = [];
  const sorted = [...plans].sort((a, b) => a.requested.localeCompare(b.requested));
  const starts = sorted.map((plan) => Date.parse(plan.requested));
  const span = end - Math.min(...starts);
  return sorted.map((plan, n) => {
    const from = starts[n] ?? 0;
    const to = Math.max(plan.completed ? Date.parse(plan.completed) : end, from);
    const found = free.findIndex((until) => until <= from);
    const row = found < 0 ? free.length : found;
    free[row] = to + span * 0.004;
    return { plan, row, from, begin: plan.inflight ? Date.parse(plan.inflight) : null, to };
  });
}

function Bar({
  drawn,
  x,
  hover,
}: {
  drawn: Drawn;
  x: (at: number) => number;
  hover: (id: string | null) => void;
}) {
  const { plan, row, from, begin, to } = drawn;
  const y = row * ROW + 3;
  const isEnded = plan.completed !== null;
  const worker = begin ?? to;
  const name = `${kindClass(plan.kind)} bar ${plan.status}`;
  return (
    <g class={name} onPointerEnter={() => hover(plan.id)} onPointerLeave={() => hover(null)}>
      <rect
        x={x(from)}
        y={y + 4}
        width={Math.max(1, x(worker) - x(from))}
        height="4"
        class="wait"
      />
      {begin !== null && (
        <rect x={x(begin)} y={y} width={Math.max(3, x(to) - x(begin))} height="12" rx="1.5" />
      )}
      {plan.status === "aborted" && (
        <path class="cross" d={`M${x(to) - 4} ${y + 2}l8 8M${x(to) + 4} ${y + 2}l-8 8`} />
      )}
      {!isEnded && <path class="open" d={`M${x(to)} ${y}l5 6l-5 6`} />}
      <rect
        class="target"
        x={x(from)}
        y={row * ROW}
        width={Math.max(6, x(to) - x(from))}
        height={ROW}
      />
    </g>
  );
}
