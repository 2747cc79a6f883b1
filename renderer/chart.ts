/**
 * One chart: ECharts draws the lines of a panel and nothing else. Axes, grid, labels, bands and the crosshair are
 * our own canvases (stage.ts): connect() and tooltips cost 129 ms a move at 64 lines, ours 4.
 */
import * as echarts from 'echarts/core';
import { LineChart } from 'echarts/charts';
import { GridComponent } from 'echarts/components';
import { CanvasRenderer } from 'echarts/renderers';
import type { Scale } from './scale.ts';

echarts.use([LineChart, GridComponent, CanvasRenderer]);

export interface Line {
  /** `w0`, `average`: also the series' id, which keeps its identity from draw to draw. */
  name: string;
  /** x0, y0, x1, y1, ...; NaN breaks the line. */
  data: Float64Array;
  colour: string;
  width: number;
  dash: number[] | null;
  opacity: number;
  z: number;
}

export interface Plot {
  left: number;
  right: number;
  top: number;
  bottom: number;
}

/** What a panel shows now, read out of ECharts itself: for tests. */
export interface ChartReading {
  metric: string;
  series: { name: string; points: [at: number, value: number | null][] }[];
}

declare global {
  interface Window {
    /** Read-only hook for tests: what ECharts was given, one entry a panel that is on screen. */
    __charts?: () => ChartReading[];
  }
}

/**
 * Its canvas is not in the page: stage.ts puts it into the one canvas of all panels. Without a graphics processor the
 * browser copies every canvas that is in the page with every frame, also while only the crosshair moves.
 */
export class Chart {
  readonly metric: string;
  #root = document.createElement('div');
  #chart: echarts.ECharts | null = null;
  #ratio = 0;
  #lines: Line[] | null = null;

  constructor(metric: string) {
    this.metric = metric;
  }

  #begin(width: number, height: number): echarts.ECharts {
    this.#chart?.dispose();
    this.#lines = null;
    this.#ratio = devicePixelRatio;
    const chart = echarts.init(this.#root, null, { renderer: 'canvas', width, height });
    // outerBoundsMode: ECharts 6 would otherwise move the plot away from what is drawn under and over it
    chart.setOption({
      animation: false,
      grid: { left: 0, right: 0, top: 0, bottom: 0, outerBoundsMode: 'none' },
      xAxis: { type: 'value', show: false },
      yAxis: { type: 'value', show: false },
      series: [],
    });
    return chart;
  }

  /** In CSS pixels, of this screen. */
  resize(width: number, height: number) {
    if (!this.#chart || this.#ratio !== devicePixelRatio) this.#chart = this.#begin(width, height);
    else if (this.#chart.getWidth() !== width || this.#chart.getHeight() !== height)
      this.#chart.resize({ width, height, silent: true });
  }

  /** What was drawn last; null: nothing yet. */
  get canvas(): HTMLCanvasElement | null {
    return this.#root.querySelector('canvas');
  }

  /** The same array of lines as last time means: only the axes changed. */
  draw(window: { from: number; to: number }, scale: Scale, plot: Plot, lines: Line[]) {
    const axes = {
      grid: plot,
      xAxis: { type: 'value', show: false, min: window.from, max: window.to },
      // another type makes a new axis: it must be told again not to show itself
      yAxis: { type: scale.log ? 'log' : 'value', show: false, min: scale.low, max: scale.high },
    };
    if (lines === this.#lines) {
      this.#chart?.setOption(axes, { silent: true });
      return;
    }
    this.#lines = lines;
    this.#chart?.setOption(
      { ...axes, series: lines.map(series) },
      { silent: true, replaceMerge: ['series'] },
    );
  }

  read(): ChartReading {
    const option = (this.#chart?.getOption() ?? {}) as { series?: { name?: string; data?: unknown }[] };
    return {
      metric: this.metric,
      series: (option.series ?? []).map((s) => ({ name: s.name ?? '', points: pairs(s.data) })),
    };
  }

  dispose() {
    this.#chart?.dispose();
  }
}

const series = (line: Line) => ({
  id: line.name,
  name: line.name,
  type: 'line',
  data: line.data,
  dimensions: ['at', 'value'],
  symbol: 'none',
  showSymbol: false,
  silent: true,
  animation: false,
  connectNulls: false,
  emphasis: { disabled: true },
  z: line.z,
  lineStyle: {
    color: line.colour,
    width: line.width,
    type: line.dash ?? 'solid',
    opacity: line.opacity,
    join: 'bevel',
  },
  itemStyle: { color: line.colour },
});

function pairs(data: unknown): [number, number | null][] {
  if (!(data instanceof Float64Array)) return [];
  const points: [number, number | null][] = [];
  for (let i = 0; i + 1 < data.length; i += 2) {
    const v = data[i + 1] ?? NaN;
    points.push([data[i] ?? NaN, Number.isNaN(v) ? null : v]);
  }
  return points;
}
