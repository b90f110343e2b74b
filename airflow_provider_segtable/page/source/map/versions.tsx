// The versions of the map: a slider over all that are kept, and a replay of those that changed the
// range in sight.

import { useEffect, useMemo, useState } from "preact/hooks";
import { ActionButton } from "../actions.tsx";
import { address, useAnswer } from "../answers.ts";
import type { ChunkChanges, SegmentMap } from "../api.ts";
import { integer, readable } from "../format.ts";
import { Icon } from "../parts/icons.tsx";
import { Time } from "../parts/marks.tsx";
import type { Range } from "./layout.ts";

const REPLAY_MS = 420;

export function Versions(props: {
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
    address("api/map/changes", {
      table,
      start: new Date(props.range.start).toISOString(),
      end: new Date(props.range.end).toISOString(),
      limit: 500,
    }),
    { keepLast: true },
  );
  const steps = useMemo(
    () =>
      [...new Set((changes.data?.changes ?? []).map((change) => change.n))].sort((a, b) => a - b),
    [changes.data],
  );
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
        <button
          type="button"
          aria-label="The change before"
          disabled={before === undefined}
          onClick={() => before !== undefined && set(before)}
        >
          <Icon name="left" />
        </button>
        <button
          type="button"
          data-shortcut="replay"
          aria-label={playing ? "Pause" : "Replay"}
          disabled={steps.length === 0}
          onClick={play}
        >
          <Icon name={playing ? "pause" : "play"} />
        </button>
        <button
          type="button"
          aria-label="The change after"
          disabled={after === undefined && shown >= last}
          onClick={() => set(after ?? last)}
        >
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
          <b>{shown === last && dragged === null ? "Now" : "Version"}</b>{" "}
          {integer(dragged ?? shown)}
        </span>
        <span class="muted">
          {change
            ? readable(change.sentence)
            : shown === last
              ? ""
              : "this event changed no segment in sight"}
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
