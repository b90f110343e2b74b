// What lies below the pointer. It follows the pointer, and stays inside of the picture.

import { useLayoutEffect, useRef } from "preact/hooks";
import { bytes, integer, interval, moment, percent, short } from "../format.ts";
import type { Rect } from "./layout.ts";
import { AXIS } from "./picture.ts";
import { generation, STATE_WORDS } from "./words.ts";

export function Tip({
  at,
  width,
  height,
}: {
  at: { rect: Rect; x: number; y: number };
  width: number;
  height: number;
}) {
  const { cell } = at.rect;
  const tip = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const element = tip.current;
    if (!element) return;
    const { offsetWidth, offsetHeight } = element;
    const left = at.x + 16 + offsetWidth > width ? at.x - 16 - offsetWidth : at.x + 16;
    const top = at.y + 12 + offsetHeight > height + AXIS ? at.y - 12 - offsetHeight : at.y + 12;
    element.style.transform = `translate(${Math.max(0, left)}px, ${Math.max(0, top)}px)`;
  });
  return (
    <div class="tip" ref={tip} aria-hidden="true">
      <b>{interval(cell.start, cell.end)}</b>
      <dl>
        <Row name="State" value={cell.tombstone ? "tombstone" : STATE_WORDS[cell.state]} />
        {cell.segments > 1 && <Row name="Segments" value={integer(cell.segments)} />}
        {cell.hidden > 0 && <Row name="Hidden behind" value={integer(cell.hidden)} />}
        <Row name="Size" value={bytes(cell.bytes)} />
        <Row name="Rows" value={short(cell.rows)} />
        <Row
          name="Sorted"
          value={cell.clustering ? `by ${cell.clustering}` : percent(cell.sorted_share)}
        />
        {cell.deleted_share > 0 && <Row name="Deleted" value={percent(cell.deleted_share)} />}
        <Row name="Generation" value={generation(cell)} />
        {cell.roots && <Row name="Roots" value={`[${cell.roots[0]}, ${cell.roots[1]})`} />}
        {cell.bucket !== null && (
          <Row name="Bucket" value={`${cell.bucket}${cell.base ? `, ${cell.base} file` : ""}`} />
        )}
        {cell.created && <Row name="Written" value={moment(cell.created)} />}
      </dl>
    </div>
  );
}

function Row({ name, value }: { name: string; value: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  );
}
