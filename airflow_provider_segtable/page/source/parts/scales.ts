// Scales of plots: nice ticks of numbers and of time, and the way from a value to a pixel.

export interface Tick {
  at: number;
  text: string;
}

export function linear(
  from: number,
  to: number,
  start: number,
  end: number,
): (value: number) => number {
  const width = to - from || 1;
  return (value) => start + ((value - from) / width) * (end - start);
}

// Decimal numbers, bytes, or seconds.
export type Base = 10 | 1024 | 60;

const SECONDS = [
  1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400,
];

export function valueTicks(most: number, wanted: number, base: Base = 10): number[] {
  if (!(most > 0)) return [0];
  const step =
    base === 60
      ? secondsStep(most / wanted)
      : decimalStep(most / wanted, base === 10 ? 1 : unitOf(most));
  const ticks = [];
  for (let at = 0; at <= most * 1.0001; at += step) ticks.push(at);
  return ticks;
}

function unitOf(size: number): number {
  return 1024 ** Math.max(0, Math.floor(Math.log(size) / Math.log(1024)));
}

function decimalStep(rough: number, unit: number): number {
  const power = 10 ** Math.floor(Math.log10(rough / unit));
  return ([1, 2, 5, 10].find((each) => each * power >= rough / unit) ?? 10) * power * unit;
}

function secondsStep(rough: number): number {
  return SECONDS.find((each) => each >= rough) ?? decimalStep(rough, 86_400);
}

// Ticks are round numbers: they need no zeros after the point.
export function round(text: string): string {
  return text.replace(/\.0+(?= |$)/, "");
}

// Texts at either end stay inside.
export function anchor(x: number, left: number, right: number): "start" | "middle" | "end" {
  return x < left + 24 ? "start" : x > right - 24 ? "end" : "middle";
}

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const STEPS = [
  1000,
  5000,
  15_000,
  30_000,
  MINUTE,
  5 * MINUTE,
  15 * MINUTE,
  30 * MINUTE,
  HOUR,
  3 * HOUR,
  6 * HOUR,
  12 * HOUR,
  DAY,
  2 * DAY,
  7 * DAY,
  14 * DAY,
];
const MONTHS = [1, 2, 3, 6, 12, 24, 60, 120];
const NAMES = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

export function timeTicks(from: number, to: number, wanted: number): Tick[] {
  const rough = (to - from) / Math.max(1, wanted);
  if (!(rough > 0)) return [];
  const step = STEPS.find((each) => each >= rough);
  return step === undefined ? monthTicks(from, to, rough) : stepTicks(from, to, step);
}

function stepTicks(from: number, to: number, step: number): Tick[] {
  const ticks: Tick[] = [];
  let seen = "";
  const monday = step >= 7 * DAY ? 4 * DAY : 0; // 1970 began on a Thursday
  for (let at = Math.ceil((from - monday) / step) * step + monday; at <= to; at += step) {
    const iso = new Date(at).toISOString();
    const year = ticks.length || step < DAY ? "" : ` ${iso.slice(0, 4)}`;
    const date = `${Number(iso.slice(8, 10))} ${NAMES[Number(iso.slice(5, 7)) - 1]}${year}`;
    const clock = iso.slice(11, step < MINUTE ? 19 : 16);
    const day = step >= DAY ? "" : date;
    const isMidnight = at % DAY === 0;
    ticks.push({
      at,
      text:
        step >= DAY || isMidnight
          ? date
          : day === seen || ticks.length
            ? clock
            : `${date} ${clock}`,
    });
    seen = day;
  }
  return ticks;
}

function monthTicks(from: number, to: number, rough: number): Tick[] {
  const months = rough / (30.4 * DAY);
  const step = MONTHS.find((each) => each >= months * 0.8) ?? 240;
  const begin = new Date(from);
  const ticks: Tick[] = [];
  let month = Math.floor((begin.getUTCFullYear() * 12 + begin.getUTCMonth()) / step) * step;
  for (; ; month += step) {
    const at = Date.UTC(Math.floor(month / 12), month % 12, 1);
    if (at > to) return ticks;
    const year = String(Math.floor(month / 12));
    if (at >= from)
      ticks.push({
        at,
        text: month % 12 === 0 ? year : `${NAMES[month % 12]}${ticks.length ? "" : ` ${year}`}`,
      });
  }
}
