/** Listening to everything that a pointer does on a chart, and to its wheel, which must not scroll the page. */

export interface PointerActs {
  move: (event: PointerEvent) => void;
  press: (event: PointerEvent) => void;
  release: (event: PointerEvent) => void;
  cancel: (event: PointerEvent) => void;
  leave: (event: PointerEvent) => void;
  twice: (event: MouseEvent) => void;
  wheel: (event: WheelEvent) => void;
}

/** Until what it gives is called. */
export function hearPointer(area: HTMLElement, acts: PointerActs): () => void {
  const control = new AbortController();
  const { signal } = control;
  area.addEventListener('pointermove', acts.move, { signal });
  area.addEventListener('pointerdown', acts.press, { signal });
  area.addEventListener('pointerup', acts.release, { signal });
  area.addEventListener('pointercancel', acts.cancel, { signal });
  area.addEventListener('pointerleave', acts.leave, { signal });
  area.addEventListener('dblclick', acts.twice, { signal });
  area.addEventListener('wheel', acts.wheel, { signal, passive: false });
  return () => control.abort();
}
