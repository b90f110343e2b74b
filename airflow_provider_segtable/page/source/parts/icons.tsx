// Signs, drawn as SVG. Each state has a shape of its own, so colour is never its only mark.

import type { Line, Severity } from "../api.ts";

export type Health = Line["health"];

const SHAPES: Record<Health, string> = {
  ok: "M3 8.5l3.2 3.2L13 5",
  warning: "M8 2.2L14.3 13.4H1.7Z",
  ill: "M5 1.8h6L14.2 5v6L11 14.2H5L1.8 11V5Z",
  unknown: "M8 2.5a5.5 5.5 0 1 0 .01 0Z",
};

export const HEALTH_WORDS: Record<Health, string> = {
  ok: "ok",
  warning: "warning",
  ill: "ill",
  unknown: "unknown",
};

export function HealthMark({ health, word }: { health: Health; word?: string }) {
  return (
    <span class={`health ${health}`}>
      <svg viewBox="0 0 16 16" width="14" height="14" aria-hidden="true" focusable="false">
        <path d={SHAPES[health]} class={health === "ok" ? "stroke" : "shape"} />
        {health === "warning" && <path d="M8 6.2v3.4M8 11.3v.6" class="inner" />}
        {health === "ill" && <path d="M5.6 5.6l4.8 4.8M10.4 5.6l-4.8 4.8" class="inner" />}
      </svg>
      <span class="word">{word ?? HEALTH_WORDS[health]}</span>
    </span>
  );
}

export const SEVERITY_WORDS: Record<Severity, string> = {
  info: "note",
  unchecked: "unchecked",
  warning: "warning",
  critical: "ill",
};

export const OF_SEVERITY: Record<Severity, Health> = {
  info: "unknown",
  unchecked: "unknown",
  warning: "warning",
  critical: "ill",
};

const PATHS = {
  left: "M10 3L5 8l5 5",
  right: "M6 3l5 5-5 5",
  play: "M5 3l8 5-8 5Z",
  pause: "M5 3v10M11 3v10",
  plus: "M8 3v10M3 8h10",
  minus: "M3 8h10",
  whole: "M2 5V2h3M11 2h3v3M14 11v3h-3M5 14H2v-3",
  close: "M3.5 3.5l9 9M12.5 3.5l-9 9",
  copy: "M5.5 5.5h8v8h-8ZM3 10.5H2.5v-8h8V3",
  search: "M7 2.5a4.5 4.5 0 1 0 .01 0ZM10.3 10.3L14 14",
  up: "M8 13V3M4 7l4-4 4 4",
  down: "M8 3v10M4 9l4 4 4-4",
};

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg
      class="icon"
      viewBox="0 0 16 16"
      width="16"
      height="16"
      aria-hidden="true"
      focusable="false"
    >
      <path d={PATHS[name]} class={name === "play" ? "solid" : ""} />
    </svg>
  );
}
