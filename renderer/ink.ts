/**
 * What a canvas cannot read for itself: colours and lengths of the tokens, through a probe element, kept until the
 * theme or the text size changes. And the few strokes that carry a meaning (hatches, dotted rules).
 */

const colours = new Map<string, string>();
const lengths = new Map<string, number>();
let probe: HTMLElement | undefined;
let family = '';

function measure(): CSSStyleDeclaration {
  if (!probe) {
    probe = document.createElement('i');
    probe.style.position = 'absolute';
    probe.style.visibility = 'hidden';
    // forced colours would make every colour that of text; what they change stands in the tokens (style.css)
    probe.style.setProperty('forced-color-adjust', 'none');
    document.documentElement.append(probe);
  }
  return probe.style;
}

/** The colour a token has in the theme shown now. */
export function ink(token: string): string {
  let colour = colours.get(token);
  if (colour === undefined) {
    measure().color = `var(--${token})`;
    colour = probe ? getComputedStyle(probe).color : '';
    colours.set(token, colour);
  }
  return colour;
}

/** The pixels a length token has at the user's text size. */
export function px(token: string): number {
  let length = lengths.get(token);
  if (length === undefined) {
    measure().width = `var(--${token})`;
    length = probe ? parseFloat(getComputedStyle(probe).width) : 0;
    lengths.set(token, length);
  }
  return length;
}

/** Forget what was read: after a change of theme, text size or width of the window. */
export function rereadInk() {
  colours.clear();
  lengths.clear();
  family = '';
}

export function font(size: number, weight: 400 | 600 = 400): string {
  family ||= getComputedStyle(document.body).fontFamily;
  return `${weight} ${size}px ${family}`;
}

/** Sizes a canvas to its box and the screen's pixels, and clears it. Its units are then CSS pixels. */
export function blank(
  canvas: HTMLCanvasElement,
  width: number,
  height: number,
): CanvasRenderingContext2D | null {
  const k = devicePixelRatio;
  const w = Math.round(width * k);
  const h = Math.round(height * k);
  const context = canvas.getContext('2d');
  if (!context || w === 0 || h === 0) return null;
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
  }
  context.setTransform(k, 0, 0, k, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = font(px('t-11'));
  context.textBaseline = 'middle';
  context.textAlign = 'left';
  context.setLineDash([]);
  context.globalAlpha = 1;
  return context;
}

/** 45 degrees: no answer. Level lines: asleep. */
export function hatch(
  context: CanvasRenderingContext2D,
  x: number,
  y: number,
  width: number,
  height: number,
  kind: 'gap' | 'asleep',
  colour: string,
) {
  if (width <= 0 || height <= 0) return;
  context.save();
  context.beginPath();
  context.rect(x, y, width, height);
  context.clip();
  context.strokeStyle = colour;
  context.lineWidth = 1;
  context.beginPath();
  if (kind === 'asleep')
    for (let i = y + 1.5; i < y + height; i += 3) {
      context.moveTo(x, i);
      context.lineTo(x + width, i);
    }
  else {
    // strokes lie on a grid of the whole canvas, so that neighbouring hatches join
    const start = Math.floor((x - height) / 4) * 4;
    for (let i = start; i < x + width; i += 4) {
      context.moveTo(i, y + height);
      context.lineTo(i + height, y);
    }
  }
  context.stroke();
  context.restore();
}

export function dashed(
  context: CanvasRenderingContext2D,
  from: [number, number],
  to: [number, number],
  dash: number[],
  colour: string,
) {
  context.strokeStyle = colour;
  context.lineWidth = 1;
  context.setLineDash(dash);
  context.beginPath();
  context.moveTo(...from);
  context.lineTo(...to);
  context.stroke();
  context.setLineDash([]);
}
