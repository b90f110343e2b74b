// The colours of the segment map: one scale of lightness and hue for all measures, readable by the
// colour blind (after cividis), and one towards orange for deleted rows, where more is worse.

import type { Cell } from "../api.ts";

export type Measure = "sorted" | "age" | "deleted" | "generation";

export const MEASURES: Record<Measure, { title: string; low: string; high: string }> = {
  sorted: { title: "Sorted", low: "not sorted", high: "sorted" },
  age: { title: "Age", low: "newest", high: "oldest" },
  deleted: { title: "Deleted", low: "no row deleted", high: "half or more" },
  generation: { title: "Generation", low: "as appended", high: "most compacted" },
};

type Colour = [number, number, number];

const SCALES: Record<"light" | "dark", Record<"plain" | "worse", Colour[]>> = {
  light: {
    plain: [
      [225, 190, 84],
      [171, 160, 116],
      [118, 131, 128],
      [69, 102, 135],
      [24, 68, 122],
    ],
    worse: [
      [196, 205, 216],
      [222, 178, 140],
      [221, 138, 78],
      [201, 92, 32],
      [150, 52, 10],
    ],
  },
  dark: {
    plain: [
      [232, 202, 96],
      [181, 172, 121],
      [129, 147, 146],
      [82, 122, 164],
      [52, 96, 168],
    ],
    worse: [
      [84, 96, 110],
      [140, 106, 80],
      [193, 118, 62],
      [232, 138, 66],
      [255, 172, 104],
    ],
  },
};

export function share(
  cell: Cell,
  measure: Measure,
  bounds: { oldest: number; newest: number; generations: number },
): number {
  switch (measure) {
    case "sorted":
      return cell.sorted_share;
    case "deleted":
      return Math.min(1, cell.deleted_share * 2);
    case "generation":
      return bounds.generations ? cell.generation / bounds.generations : 0;
    case "age": {
      const created = cell.created ? Date.parse(cell.created) : bounds.oldest;
      const span = bounds.newest - bounds.oldest || 1;
      return (bounds.newest - created) / span;
    }
  }
}

export function colour(measure: Measure, value: number, theme: "light" | "dark"): string {
  const scale = SCALES[theme][measure === "deleted" ? "worse" : "plain"];
  const at = Math.min(1, Math.max(0, value)) * (scale.length - 1);
  const low = scale[Math.floor(at)] ?? [0, 0, 0];
  const high = scale[Math.ceil(at)] ?? low;
  const part = at - Math.floor(at);
  const mixed = low.map((channel, n) =>
    Math.round(channel + ((high[n] ?? channel) - channel) * part),
  );
  return `rgb(${mixed.join(" ")})`;
}
