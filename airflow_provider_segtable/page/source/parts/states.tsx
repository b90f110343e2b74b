// What a view shows when it has nothing to show, not yet, no more, or only what was known before.
//
// 1. Loading is a quiet skeleton, and only after a moment: a fast answer does not flash.
// 2. A late answer stays, below a line with its age and the cause.
// 3. A failure without an earlier answer takes the view's place, with the way out.

import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { type Asked, type Refused, useClock } from "../answers.ts";
import { duration } from "../format.ts";
import { fleetHash } from "../route.ts";
import { HealthMark } from "./icons.tsx";

const PATIENCE_MS = 150;

export function Loading({ what }: { what: string }) {
  const [shown, setShown] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setShown(true), PATIENCE_MS);
    return () => clearTimeout(timer);
  }, []);
  return (
    <div class={`skeleton ${shown ? "shown" : ""}`} role="status">
      <span class="visually-hidden">Loading {what}</span>
      {[92, 78, 85, 64, 71].map((width) => (
        <svg key={width} width="100%" height="14" aria-hidden="true">
          <rect width={`${width}%`} height="14" rx="3" />
        </svg>
      ))}
    </div>
  );
}

export function Empty({
  children,
  action,
}: {
  children: ComponentChildren;
  action?: ComponentChildren;
}) {
  return (
    <div class="empty">
      <p>{children}</p>
      {action}
    </div>
  );
}

const TONE_WORDS = { info: "note", warning: "warning", ill: "error" } as const;

export function Notice(props: {
  tone: "info" | "warning" | "ill";
  children: ComponentChildren;
  beside?: ComponentChildren;
}) {
  const health = props.tone === "info" ? "unknown" : props.tone;
  return (
    <div class={`notice ${props.tone}`} role="status">
      <HealthMark health={health} word={TONE_WORDS[props.tone]} />
      <div class="text">{props.children}</div>
      {props.beside}
    </div>
  );
}

// Draws the data of an answer, whatever state it is in.
export function Answered<T>(props: {
  asked: Asked<T>;
  what: string;
  children: (data: T) => ComponentChildren;
}) {
  const { asked, what, children } = props;
  if (asked.data === null) {
    if (asked.failure) return <Failed failure={asked.failure} what={what} again={asked.again} />;
    return <Loading what={what} />;
  }
  return (
    <>
      <Late asked={asked} />
      {children(asked.data)}
    </>
  );
}

export function Late({ asked }: { asked: Asked<unknown> }) {
  useClock(1000);
  const { answer, failure } = asked;
  if (!answer) return null;
  const cause = failure ? failure.failure.message : answer.late;
  if (!cause) return null;
  const age = answer.age_seconds + (performance.now() - asked.received) / 1000;
  return (
    <Notice tone="warning" beside={<AgainButton again={asked.again} />}>
      Known from {duration(Math.max(1, age))} ago, because {lowered(cause)}
    </Notice>
  );
}

export function AgainButton({ again }: { again: () => void }) {
  return (
    <button type="button" onClick={again}>
      Ask again
    </button>
  );
}

function lowered(sentence: string): string {
  const rest = sentence.slice(1);
  return /^[a-z]/.test(rest) ? sentence.charAt(0).toLowerCase() + rest : sentence;
}

interface Said {
  title: string;
  text: string;
  way: string;
  again: boolean;
}

export function said(failure: Refused, what: string): Said {
  const { message, way_out: way } = failure.failure;
  switch (failure.status) {
    case 401:
      return {
        title: "Your session has ended",
        text: message,
        way: way || "sign in again, then reload the page",
        again: true,
      };
    case 403:
      return {
        title: "You may not see this",
        text: message,
        way: way || "ask for the right to view it",
        again: false,
      };
    case 404:
      return {
        title: `The ${what} is gone`,
        text: message,
        way: way || "go back to the fleet",
        again: true,
      };
    case 0:
      return { title: "No connection", text: message, way, again: true };
    case 503:
      return {
        title: "Nothing is known yet",
        text: message,
        way: way || "the page asks again by itself",
        again: true,
      };
    default:
      return { title: `The ${what} could not be shown`, text: message, way, again: true };
  }
}

export function Failed(props: { failure: Refused; what: string; again: () => void }) {
  const { title, text, way, again } = said(props.failure, props.what);
  if (props.failure.status === 400)
    return <Notice tone="ill">{way ? `${text}: ${way}` : text}</Notice>;
  return (
    <div class="failed" role="alert">
      <h2>{title}</h2>
      <p>{text}</p>
      {way && <p class="muted">Way out: {way}</p>}
      <p class="buttons">
        {again && <AgainButton again={props.again} />}
        <a class="button" href={fleetHash()}>
          Fleet
        </a>
      </p>
    </div>
  );
}
