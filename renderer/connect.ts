/**
 * The page's one connection to the engine: the token, the socket, reconnecting with back-off. Knows nothing of what
 * is asked over it; whoever listens reads everything anew each time it opens.
 */
import { createClient, type Client } from '../electron/engine/rpc.ts';

/**
 * refused: the engine answers but does not take this page's token. gone: it was there, or may come.
 */
export type Link = 'connecting' | 'open' | 'gone' | 'refused';

const tokenKey = 'vllm-scope-token';

/** Takes the token out of the address at once, so that it is neither copied, bookmarked nor seen. */
export function takeToken(): string | null {
  const hash = new URLSearchParams(location.hash.slice(1));
  const given = hash.get('token');
  if (given === null) return sessionStorage.getItem(tokenKey);
  hash.delete('token');
  const rest = hash.toString();
  history.replaceState(null, '', location.pathname + location.search + (rest === '' ? '' : `#${rest}`));
  sessionStorage.setItem(tokenKey, given);
  return given;
}

export function connect(token: string | null, changed: (link: Link) => void): Client {
  let socket: WebSocket | null = null;
  let wait = 250;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const client = createClient((frame) => {
    if (socket?.readyState !== WebSocket.OPEN) throw new Error('not connected');
    socket.send(frame as string | Uint8Array<ArrayBuffer>);
  });

  const open = () => {
    clearTimeout(timer);
    if (token === null) {
      changed('refused');
      return;
    }
    const scheme = location.protocol === 'https:' ? 'wss' : 'ws';
    const next = new WebSocket(`${scheme}://${location.host}/ws`, ['vllm-scope', token]);
    socket = next;
    next.binaryType = 'arraybuffer';
    let opened = false;
    next.onopen = () => {
      opened = true;
      wait = 250;
      changed('open');
    };
    next.onmessage = (message: MessageEvent<string | ArrayBuffer>) => client.receive(message.data);
    next.onclose = () => {
      if (socket !== next) return;
      socket = null;
      client.gone();
      if (opened) changed('gone');
      else void askWhy();
      timer = setTimeout(open, wait * (0.8 + 0.4 * Math.random()));
      wait = Math.min(wait * 1.7, 5000);
    };
  };

  // A browser does not tell why a socket did not open: if the page's own address answers, the token is wrong.
  const askWhy = async () => {
    try {
      await fetch(location.pathname, { method: 'HEAD', cache: 'no-store' });
      if (socket?.readyState !== WebSocket.OPEN) changed('refused');
    } catch {
      changed('gone');
    }
  };

  /** Now, instead of waiting for the back-off. */
  const hurry = () => {
    if (socket === null && token !== null) open();
  };
  addEventListener('online', hurry);
  document.addEventListener('visibilitychange', () => {
    if (document.visibilityState === 'visible') hurry();
  });
  // after the caller has the connection in hand
  queueMicrotask(open);
  return client;
}
