/** When canvases have to read colours and lengths anew: the theme, forced colours or the text size changed. */
import { rereadInk } from './ink.ts';

/** Calls `act` after each such change, until what it gives is called. */
export function whenRestyled(act: () => void): () => void {
  const restyle = () => {
    rereadInk();
    act();
  };
  const theme = new MutationObserver(restyle);
  theme.observe(document.documentElement, { attributeFilter: ['data-theme'] });
  const systems = ['(prefers-color-scheme: dark)', '(forced-colors: active)'].map((q) => matchMedia(q));
  for (const system of systems) system.addEventListener('change', restyle);
  // text size and the width of the window come with it
  addEventListener('resize', restyle);
  // what was read before somebody listened may be of another theme
  rereadInk();
  return () => {
    removeEventListener('resize', restyle);
    theme.disconnect();
    for (const system of systems) system.removeEventListener('change', restyle);
  };
}
