// Ask the API, and keep what was answered.
//
// 1. Addresses are relative to the page, so they are right below any sub-path.
// 2. A view asks by `useAnswer`. While it asks again it keeps the last answer, so nothing flickers;
//    with a failure it keeps it, too, and the failure is shown above it.
// 3. One poll for the whole page asks which tables have a newer event, and looks at the table in
//    sight. It rests while the page is hidden. An answer about a table is asked for again when its
//    table has moved.
// 4. Ages count from the server's clock: the reader's may be wrong.

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import type {
  ActionRequest,
  Heads,
  ActionsOutcome as Outcome,
  Preview,
  Problem,
  RunRequest,
} from "./api.ts";

export interface Answer<T> {
  version: number | null;
  as_of: string;
  age_seconds: number;
  late: string;
  data: T;
}

export const POLL_MS = 5000;
const KEPT = 80;

export class Refused extends Error {
  constructor(
    readonly status: number, // 0: no answer at all
    readonly failure: Problem,
  ) {
    super(failure.message);
  }
}

export type Query = Record<string, string | number | boolean | null | undefined>;

export function address(path: string, query: Query = {}): string {
  const pairs = Object.entries(query).filter(
    ([, value]) => value !== null && value !== undefined && value !== "",
  );
  const text = new URLSearchParams(pairs.map(([key, value]) => [key, String(value)])).toString();
  return text ? `${path}?${text}` : path;
}

const SILENT: Problem = {
  error: "NoAnswer",
  message: "The server does not answer",
  way_out: "the page asks again by itself",
};

async function answered<T>(request: Promise<Response>): Promise<T> {
  let response: Response;
  try {
    response = await request;
  } catch (cause) {
    if (cause instanceof DOMException && cause.name === "AbortError") throw cause;
    throw new Refused(0, SILENT);
  }
  const isJson = response.headers.get("content-type")?.includes("json") ?? false;
  const body: unknown = isJson ? await response.json().catch(() => null) : null;
  if (response.ok && body !== null) return body as T;
  throw new Refused(response.status, failureOf(response, body));
}

function failureOf(response: Response, body: unknown): Problem {
  if (typeof body === "object" && body !== null) {
    const { error, message, way_out, detail } = body as Record<string, unknown>;
    if (typeof error === "string" && typeof message === "string")
      return { error, message, way_out: typeof way_out === "string" ? way_out : "" };
    if (typeof detail === "string")
      return { error: response.statusText, message: detail, way_out: "" };
  }
  const message = response.ok
    ? "The answer is not one of this page's server"
    : `The server answered ${response.status} ${response.statusText}`.trim();
  return { error: "UnexpectedAnswer", message, way_out: "" };
}

// ---- clock ----

let ahead = 0; // of the reader's clock, in milliseconds

function learnClock(answer: Answer<unknown>): void {
  const server = Date.parse(answer.as_of) + answer.age_seconds * 1000;
  if (Number.isFinite(server)) ahead = server - Date.now();
}

export function now(): number {
  return Date.now() + ahead;
}

// Redraws what shows ages.
export function useClock(everyMs = 10_000): number {
  const [, tick] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => tick((n) => n + 1), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return now();
}

// ---- answers ----

export interface Kept<T> {
  answer: Answer<T>;
  received: number; // performance.now()
}

const kept = new Map<string, Kept<unknown>>();

function keep(path: string, answer: Answer<unknown>): Kept<unknown> {
  const entry = { answer, received: performance.now() };
  kept.delete(path);
  kept.set(path, entry);
  const oldest = kept.keys().next().value;
  if (kept.size > KEPT && oldest !== undefined) kept.delete(oldest);
  learnClock(answer);
  return entry;
}

export async function ask<T>(path: string, signal?: AbortSignal): Promise<Answer<T>> {
  const headers = { Accept: "application/json" };
  const answer = await answered<Answer<T>>(
    fetch(path, { headers, credentials: "same-origin", ...(signal ? { signal } : {}) }),
  );
  keep(path, answer);
  return answer;
}

export function known<T>(path: string): Answer<T> | null {
  return (kept.get(path)?.answer as Answer<T> | undefined) ?? null;
}

export interface Asked<T> {
  data: T | null;
  answer: Answer<T> | null;
  received: number;
  failure: Refused | null;
  asking: boolean;
  again: () => void;
}

interface State<T> {
  path: string | null;
  entry: Kept<T> | null;
  failure: Refused | null;
  asking: boolean;
}

export interface Options {
  table?: string; // ask again when this table has a newer event
  anyTable?: boolean; // ask again when any has
  keepLast?: boolean; // show the last answer while another address is asked
}

export function useAnswer<T>(path: string | null, options: Options = {}): Asked<T> {
  const [state, setState] = useState<State<T>>(() => first<T>(path));
  const [round, setRound] = useState(0);
  const again = useCallback(() => setRound((n) => n + 1), []);
  const asked = useRef<string | null>(null);
  useEffect(() => {
    if (path === null) return undefined;
    const control = new AbortController();
    setState((old) => next(old, path, options.keepLast ?? false));
    asked.current = path;
    ask<T>(path, control.signal).then(
      () => {
        if (!control.signal.aborted) setState({ ...first<T>(path), asking: false });
      },
      (cause: unknown) => {
        if (control.signal.aborted || !(cause instanceof Refused)) return;
        setState((old) => ({ ...old, failure: cause, asking: false }));
      },
    );
    return () => control.abort();
  }, [path, round]);
  useRetry(state, again);
  useMoved(state.entry?.answer.version ?? null, options, again);
  return {
    data: state.entry?.answer.data ?? null,
    answer: state.entry?.answer ?? null,
    received: state.entry?.received ?? 0,
    failure: state.failure,
    asking: state.asking,
    again,
  };
}

function first<T>(path: string | null): State<T> {
  const entry = path === null ? null : ((kept.get(path) as Kept<T> | undefined) ?? null);
  return { path, entry, failure: null, asking: path !== null };
}

function next<T>(old: State<T>, path: string, keepLast: boolean): State<T> {
  const found = first<T>(path);
  const same = old.path === path;
  return {
    ...found,
    entry: found.entry ?? (same || keepLast ? old.entry : null),
    failure: same ? old.failure : null,
  };
}

// What passes by itself is asked again; what a person has to change is not.
function useRetry<T>({ failure, entry, asking }: State<T>, again: () => void): void {
  const passes = failure
    ? [0, 429, 502, 503, 504].includes(failure.status)
    : Boolean(entry?.answer.late);
  useEffect(() => {
    if (!passes || asking) return undefined;
    const timer = setTimeout(again, POLL_MS);
    return () => clearTimeout(timer);
  }, [passes, asking]);
}

// ---- the poll ----

const heads = new Map<string, number>();
type Follower = (moved: ReadonlySet<string>, begins: boolean) => void;
const followers = new Set<Follower>();
let since = "";
let inSight = "";
const REFUSALS = [401, 403, 404];
const LOST = -1;
const LOOKED_AT_MS = 15 * 60_000; // a commit may be noticed so long after it

// The table in sight is looked at in each poll; the others are as the fleet's watch knows them.
export function watch(table: string): void {
  inSight = table;
}

export async function poll(): Promise<void> {
  if (document.hidden || followers.size === 0) return;
  try {
    const answer = await ask<Heads>(address("api/fleet/changes", { since, table: inSight }));
    const begins = since === ""; // what views show is as new as this
    since = new Date(now() - LOOKED_AT_MS).toISOString();
    const moved = new Set<string>();
    for (const [table, head] of Object.entries(answer.data.heads)) {
      if (heads.get(table) !== head) moved.add(table);
      heads.set(table, head);
    }
    if (moved.size) for (const follower of followers) follower(moved, begins);
  } catch (cause) {
    if (cause instanceof Refused && REFUSALS.includes(cause.status)) lose(inSight);
    // Other failures pass: views say it themselves when they ask, and this poll is only late.
  }
}

// A table that is gone, or a session that has ended: the views in sight ask once more, and say so.
function lose(table: string): void {
  if (!table || heads.get(table) === LOST) return;
  heads.set(table, LOST);
  for (const follower of followers) follower(new Set([table]), false);
}

export function startPoll(): void {
  setInterval(() => void poll(), POLL_MS);
  document.addEventListener("visibilitychange", () => void poll());
}

function useMoved(version: number | null, options: Options, again: () => void): void {
  const { table, anyTable } = options;
  const shown = useRef(version);
  shown.current = version;
  useEffect(() => {
    if (!table && !anyTable) return undefined;
    const follow: Follower = (moved, begins) => {
      if (anyTable) {
        if (!begins) again();
      } else if (table && moved.has(table) && heads.get(table) !== shown.current) again();
    };
    followers.add(follow);
    return () => followers.delete(follow);
  }, [table, anyTable]);
}

// ---- actions ----

function send<T>(path: string, body: unknown): Promise<T> {
  return answered<T>(
    fetch(path, {
      method: "POST",
      credentials: "same-origin",
      headers: { "Content-Type": "application/json", "X-Segtable-Page": "1" },
      body: JSON.stringify(body),
    }),
  );
}

// An answer to a POST may come in an envelope, as those to GETs do.
function unwrapped<T>(body: T | Answer<T>): T {
  const isEnvelope = typeof body === "object" && body !== null && "as_of" in body && "data" in body;
  return isEnvelope ? body.data : (body as T);
}

export async function simulate<T>(table: string, properties: Record<string, string>): Promise<T> {
  return unwrapped(await send<T | Answer<T>>(address("api/simulate", { table }), { properties }));
}

export async function preview(request: ActionRequest): Promise<Preview> {
  return unwrapped(await send<Preview | Answer<Preview>>("api/preview", request));
}

export async function run(request: RunRequest): Promise<Outcome> {
  const outcome = unwrapped(await send<Outcome | Answer<Outcome>>("api/run", request));
  void poll();
  return outcome;
}
