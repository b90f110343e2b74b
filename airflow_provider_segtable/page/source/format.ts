// Numbers, sizes and times as text. Pure functions: the present time comes in as an argument.
//
// 1. Sizes are binary (KiB, MiB), as the command line writes them.
// 2. Times are UTC and are written in full where they are exact, as an age where recency counts.
// 3. "–" stands for what is not known.

export const UNKNOWN = "–";

const INTEGERS = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
const SHORT = ["", "k", "M", "G", "T"];

export function integer(value: number | null | undefined): string {
  return value === null || value === undefined ? UNKNOWN : INTEGERS.format(value);
}

// Three digits are enough for a column of numbers: 1.28 M, 43.1 k, 912.
export function short(value: number | null | undefined): string {
  if (value === null || value === undefined) return UNKNOWN;
  return scaled(value, 1000, SHORT).trim();
}

export function bytes(value: number | null | undefined): string {
  if (value === null || value === undefined) return UNKNOWN;
  return scaled(value, 1024, UNITS);
}

function scaled(value: number, base: number, units: string[]): string {
  let step = 0;
  let rest = Math.abs(value);
  while (rest >= base * 0.9995 && step < units.length - 1) {
    rest /= base;
    step += 1;
  }
  const digits = step === 0 || rest >= 99.95 ? 0 : rest >= 9.995 ? 1 : 2;
  const sign = value < 0 ? "−" : "";
  return `${sign}${rest.toFixed(step === 0 && !Number.isInteger(rest) ? 1 : digits)} ${units[step]}`;
}

export function percent(share: number | null | undefined): string {
  if (share === null || share === undefined) return UNKNOWN;
  if (share > 0 && share < 0.01) return "<1%";
  if (share < 1 && share > 0.99) return ">99%";
  return `${Math.round(share * 100)}%`;
}

export function signed(value: number, text: (value: number) => string): string {
  return value > 0 ? `+${text(value)}` : value < 0 ? text(value) : "0";
}

export function counted(value: number, noun: string): string {
  return `${integer(value)} ${noun}${value === 1 ? "" : plural(noun)}`;
}

function plural(noun: string): string {
  return /(s|x|ch|sh)$/.test(noun) ? "es" : "s";
}

const SPANS: [number, string][] = [
  [86_400 * 365, "y"],
  [86_400, "d"],
  [3600, "h"],
  [60, "min"],
  [1, "s"],
];

// Two units at most: "2 h 10 min", "3 d", "45 s".
export function duration(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined) return UNKNOWN;
  if (seconds < 1) return seconds > 0 ? `${Math.max(1, Math.round(seconds * 1000))} ms` : "0 s";
  const at = SPANS.findIndex(([length]) => seconds >= length);
  const [length, unit] = SPANS[at] ?? [1, "s"];
  const whole = Math.floor(seconds / length);
  const next = SPANS[at + 1];
  const rest = next ? Math.floor((seconds - whole * length) / next[0]) : 0;
  return rest && next && whole < 10 ? `${whole} ${unit} ${rest} ${next[1]}` : `${whole} ${unit}`;
}

export function ago(time: string | null | undefined, now: number): string {
  if (!time) return UNKNOWN;
  const seconds = (now - Date.parse(time)) / 1000;
  if (seconds < -1) return `in ${duration(-seconds)}`;
  return seconds < 5 ? "now" : `${duration(seconds)} ago`;
}

export function moment(time: string | null | undefined): string {
  if (!time) return UNKNOWN;
  return time.slice(0, 19).replace("T", " ");
}

export function day(time: string): string {
  return time.slice(0, 10);
}

// An interval, shortened at midnights and where both ends share a day.
export function interval(start: string, end: string): string {
  const from = start.replace(/T00:00:00(\.0+)?Z$/, "");
  const to = end.replace(/T00:00:00(\.0+)?Z$/, "");
  if (from.length === 10 && to.length === 10) {
    const days = Math.round((Date.parse(end) - Date.parse(start)) / 86_400_000);
    return days === 1 ? from : `${from} to ${to}`;
  }
  const sameDay = start.slice(0, 10) === end.slice(0, 10);
  const until = sameDay ? end.slice(11, 16) : moment(end).slice(0, 16);
  return `${moment(start).slice(0, 16)} to ${until}`;
}

// An interval as the library writes it: "start/end".
export function place(text: string): string {
  const [start, end] = text.split("/");
  return start && end ? interval(start, end) : text;
}

// A sentence of the library, with its intervals as people write them.
export function readable(sentence: string): string {
  return sentence
    .replace(INTERVAL, (text) => place(text))
    .replace(MOMENT, (text) => moment(text))
    .replace(/ -> /g, " → ");
}

const INSTANT = String.raw`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z`;
const MOMENT = new RegExp(INSTANT, "g");
const INTERVAL = new RegExp(`${INSTANT}/${INSTANT}`, "g");

export function ends(text: string): [number, number] {
  const [start = "", end = ""] = text.split("/");
  return [Date.parse(start), Date.parse(end)];
}
