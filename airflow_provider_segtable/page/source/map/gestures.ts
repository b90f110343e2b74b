// Zoom and move by wheel, drag and pinch. Keys are the view's own.
//
// 1. A wheel zooms with Ctrl (so does a trackpad's pinch) or moves sideways; without Ctrl, up and
//    down zoom only while the picture has the focus, so a page can be scrolled past it.
// 2. One pointer drags; two pinch. Up and down on a touch screen still scroll the page.
// 3. A drag of a few pixels is a click.

import type { RefObject } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { moved, type Range, zoomed } from "./layout.ts";

const CLICK_PX = 4;

interface View {
  range: Range;
  whole: Range;
  width: number;
  change: (range: Range) => void;
}

export function useGestures(canvas: RefObject<HTMLCanvasElement | null>, view: View): void {
  const now = useRef(view);
  now.current = view;
  useEffect(() => {
    const element = canvas.current;
    if (!element) return undefined;
    const gestures = new Gestures(element, now);
    return () => gestures.end();
  }, []);
}

class Gestures {
  private readonly pointers = new Map<number, number>();
  private readonly control = new AbortController();
  private far = 0;

  constructor(
    private readonly element: HTMLCanvasElement,
    private readonly view: { current: View },
  ) {
    const options = { signal: this.control.signal };
    element.addEventListener("wheel", (event) => this.wheel(event), { ...options, passive: false });
    element.addEventListener("pointerdown", (event) => this.down(event), options);
    element.addEventListener("pointermove", (event) => this.move(event), options);
    element.addEventListener("pointerup", (event) => this.up(event), options);
    element.addEventListener("pointercancel", (event) => this.up(event), options);
    element.addEventListener("click", (event) => this.click(event), { ...options, capture: true });
  }

  end(): void {
    this.control.abort();
  }

  private timeAt(x: number): number {
    const { range, width } = this.view.current;
    const left = this.element.getBoundingClientRect().left;
    return range.start + ((x - left) / Math.max(1, width)) * (range.end - range.start);
  }

  private wheel(event: WheelEvent): void {
    const { range, whole, width, change } = this.view.current;
    const isFocused = document.activeElement === this.element;
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey) {
      const by = event.deltaX || event.deltaY;
      change(moved(range, whole, (by / Math.max(1, width)) * (range.end - range.start)));
    } else if (event.ctrlKey || isFocused) {
      const step = event.deltaMode === 1 ? event.deltaY * 20 : event.deltaY;
      change(
        zoomed(
          range,
          whole,
          Math.exp(step * (event.ctrlKey ? 0.01 : 0.002)),
          this.timeAt(event.clientX),
        ),
      );
    } else return;
    event.preventDefault();
  }

  private down(event: PointerEvent): void {
    if (event.button) return;
    this.pointers.set(event.pointerId, event.clientX);
    if (this.pointers.size === 1) this.far = 0;
  }

  private move(event: PointerEvent): void {
    const before = this.pointers.get(event.pointerId);
    if (before === undefined) return;
    const { range, whole, width, change } = this.view.current;
    const length = range.end - range.start;
    const [other] = [...this.pointers].filter(([id]) => id !== event.pointerId);
    this.far += Math.abs(event.clientX - before);
    if (this.far <= CLICK_PX) return;
    if (!this.element.hasPointerCapture(event.pointerId))
      this.element.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, event.clientX);
    if (other) {
      const [was, is] = [Math.abs(before - other[1]), Math.abs(event.clientX - other[1])];
      if (was > 8 && is > 8)
        change(zoomed(range, whole, was / is, this.timeAt((event.clientX + other[1]) / 2)));
    } else change(moved(range, whole, ((before - event.clientX) / Math.max(1, width)) * length));
  }

  private up(event: PointerEvent): void {
    this.pointers.delete(event.pointerId);
  }

  private click(event: MouseEvent): void {
    if (this.far > CLICK_PX) event.stopImmediatePropagation();
    this.far = 0;
  }
}
