// Draws the segment map on a canvas.
//
// 1. Visible segments are filled with the colour of the chosen measure.
// 2. Hidden ones are pale and hatched; standby ones are dashed outlines; tombstones are crossed bars.
// 3. Segments that the shown version brought have a strong outline: so a replay shows its steps.
// 4. A segment that is wide enough shows its row groups, once they are known.

import type { SegmentInFull } from "../api.ts";
import { timeTicks } from "../parts/scales.ts";
import type { Range, Rect } from "./layout.ts";

export const AXIS = 22;
const ROOM_FOR_GROUPS = 90;

export interface Inks {
  ground: string;
  line: string;
  text: string;
  muted: string;
  accent: string;
  strong: string;
}

export interface Scene {
  rects: Rect[];
  range: Range;
  width: number;
  height: number; // of the plot, without the axis
  fill: (rect: Rect) => string;
  inks: Inks;
  selected: string | null;
  hovered: string | null;
  fresh: ReadonlySet<string>;
  inFull: ReadonlyMap<string, SegmentInFull>;
}

export function inksOf(element: Element): Inks {
  const style = getComputedStyle(element);
  const ink = (name: string) => style.getPropertyValue(name).trim();
  return {
    ground: ink("--ground"),
    line: ink("--line"),
    text: ink("--text"),
    muted: ink("--muted"),
    accent: ink("--accent"),
    strong: ink("--line-strong"),
  };
}

export function draw(context: CanvasRenderingContext2D, scene: Scene): void {
  const { width, height, inks } = scene;
  context.clearRect(0, 0, width, height + AXIS);
  axis(context, scene);
  context.save();
  context.beginPath();
  context.rect(0, 0, width, height);
  context.clip();
  const hatch = hatching(context, inks);
  for (const rect of scene.rects) segment(context, rect, scene, hatch);
  for (const rect of scene.rects)
    if (scene.fresh.has(rect.cell.id)) outline(context, rect, inks.text, 1.5);
  marked(context, scene);
  context.restore();
  context.fillStyle = inks.strong;
  context.fillRect(0, height, width, 1);
}

function axis(context: CanvasRenderingContext2D, scene: Scene): void {
  const { range, width, height, inks } = scene;
  context.font = '11px system-ui, "Segoe UI", Roboto, "Liberation Sans", sans-serif';
  context.textBaseline = "alphabetic";
  for (const tick of timeTicks(range.start, range.end, width / 100)) {
    const x = Math.round(((tick.at - range.start) / (range.end - range.start)) * width) + 0.5;
    context.fillStyle = inks.line;
    context.fillRect(x, 0, 1, height);
    context.fillStyle = inks.muted;
    const half = context.measureText(tick.text).width / 2;
    if (x - half > 0 && x + half < width) context.fillText(tick.text, x - half, height + 15);
  }
}

function segment(
  context: CanvasRenderingContext2D,
  rect: Rect,
  scene: Scene,
  hatch: CanvasPattern | null,
): void {
  const { cell, x, y, width, height } = rect;
  const { inks } = scene;
  if (cell.tombstone) {
    tombstone(context, rect, inks);
    return;
  }
  const fill = scene.fill(rect);
  if (cell.state === "standby") {
    context.globalAlpha = 0.18;
    context.fillStyle = fill;
    context.fillRect(x, y, width, height);
    context.globalAlpha = 1;
    context.setLineDash([4, 3]);
    outline(context, rect, inks.text, 1);
    context.setLineDash([]);
    return;
  }
  const isHidden = cell.state === "hidden";
  context.globalAlpha = isHidden ? 0.22 : 1;
  context.fillStyle = fill;
  context.fillRect(x, y, width, height);
  context.globalAlpha = 1;
  if (isHidden && hatch) {
    context.fillStyle = hatch;
    context.fillRect(x, y, width, height);
  }
  const full = scene.inFull.get(cell.id);
  if (full && width >= ROOM_FOR_GROUPS && height >= 12) rowGroups(context, rect, full, inks);
}

function hatching(context: CanvasRenderingContext2D, inks: Inks): CanvasPattern | null {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const pen = tile.getContext("2d");
  if (!pen) return null;
  pen.strokeStyle = inks.muted;
  pen.globalAlpha = 0.5;
  pen.lineWidth = 1;
  pen.beginPath();
  for (const at of [-3, 3, 9]) {
    pen.moveTo(at - 4, 7);
    pen.lineTo(at + 4, -1);
  }
  pen.stroke();
  return context.createPattern(tile, "repeat");
}

function tombstone(context: CanvasRenderingContext2D, rect: Rect, inks: Inks): void {
  context.fillStyle = inks.text;
  const tall = Math.max(3, Math.min(6, rect.height));
  context.fillRect(rect.x, rect.y + rect.height - tall, rect.width, tall);
  context.strokeStyle = inks.ground;
  context.lineWidth = 1;
  context.beginPath();
  for (let x = rect.x + 4; x < rect.x + rect.width - 2; x += 8) {
    context.moveTo(x, rect.y + rect.height - tall + 1);
    context.lineTo(x + tall - 2, rect.y + rect.height - 1);
  }
  context.stroke();
}

function rowGroups(
  context: CanvasRenderingContext2D,
  rect: Rect,
  full: SegmentInFull,
  inks: Inks,
): void {
  const all = full.row_groups.reduce((sum, group) => sum + group.rows, 0);
  let before = 0;
  context.fillStyle = inks.ground;
  for (const group of full.row_groups) {
    const x = rect.x + (before / all) * rect.width;
    const width = (group.rows / all) * rect.width;
    if (before) context.fillRect(Math.round(x), rect.y + 2, 1, rect.height - 4);
    before += group.rows;
    if (width > 74 && rect.height > 18)
      label(context, `row group ${group.number}`, x + width / 2, rect.y + rect.height / 2, inks);
  }
}

function label(
  context: CanvasRenderingContext2D,
  text: string,
  x: number,
  y: number,
  inks: Inks,
): void {
  const half = context.measureText(text).width / 2;
  context.globalAlpha = 0.85;
  context.fillStyle = inks.ground;
  context.fillRect(x - half - 4, y - 8, half * 2 + 8, 16);
  context.globalAlpha = 1;
  context.fillStyle = inks.text;
  context.fillText(text, x - half, y + 4);
  context.fillStyle = inks.ground;
}

function outline(context: CanvasRenderingContext2D, rect: Rect, ink: string, width: number): void {
  const inset = width / 2;
  context.strokeStyle = ink;
  context.lineWidth = width;
  context.strokeRect(
    rect.x + inset,
    rect.y + inset,
    Math.max(1, rect.width - width),
    Math.max(1, rect.height - width),
  );
}

// On a small cell the mark goes around, so that it is seen.
function marked(context: CanvasRenderingContext2D, scene: Scene): void {
  for (const rect of scene.rects) {
    const isSelected = rect.cell.id === scene.selected;
    if (!isSelected && rect.cell.id !== scene.hovered) continue;
    const room = Math.min(rect.width, rect.height) > 8 ? 0 : 2;
    const around = {
      ...rect,
      x: rect.x - room,
      y: rect.y - room,
      width: rect.width + 2 * room,
      height: rect.height + 2 * room,
    };
    outline(context, around, scene.inks.ground, 4);
    outline(
      context,
      around,
      isSelected ? scene.inks.accent : scene.inks.text,
      isSelected ? 2.5 : 1.5,
    );
  }
}
