/** Tells pages how far long work is, at most a few times a second; its end is always told. */
import type { Events } from './api.ts';

const EVERY_MS = 250;

export type Tell = (done: number, total: number) => void;

export const progressOf =
  (emit: (event: 'progress', data: Events['progress']) => void) =>
  (task: string): Tell => {
    let last = 0;
    return (done, total) => {
      if (done < total && performance.now() - last < EVERY_MS) return;
      last = performance.now();
      emit('progress', { task, done, total });
    };
  };
