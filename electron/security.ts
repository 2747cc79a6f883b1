/**
 * Denies by default: a window shows the engine's page and nothing else, opens no other window, embeds and downloads
 * nothing and gets no permission but writing to the clipboard. Only a parsed https: link leaves, to the user's browser.
 * Electron comes in as an argument, so that the predicates are tested without one.
 */
import type { App, Session, Shell, WebContents } from 'electron';

/** What a page may ask for; each with its reason. */
const permitted: ReadonlySet<string> = new Set([
  'clipboard-sanitized-write', // "Copy" in the page: text it was given, after a click
]);

const parse = (url: string): URL | null => (URL.canParse(url) ? new URL(url) : null);

/** Whether a navigation stays on our own page. Origins are compared, never the beginnings of addresses. */
export function isOwnPage(url: string, origin: string | null): boolean {
  const parsed = parse(url);
  // blob: and data: documents carry or claim an origin without being the engine's page
  if (parsed === null || origin === null || !['http:', 'https:'].includes(parsed.protocol)) return false;
  return parsed.username === '' && parsed.password === '' && parsed.origin === origin;
}

/** Whether a link may be handed to the user's browser: https:, without a name and password to mislead by. */
export function mayGoOutside(url: string): boolean {
  const parsed = parse(url);
  if (parsed?.protocol !== 'https:') return false;
  return parsed.username === '' && parsed.password === '';
}

/**
 * Where the page comes from in development; undefined: from the engine. It gets the token, so what is packaged does not
 * let a variable choose it.
 */
export const devPageOf = ({ isPackaged }: Pick<App, 'isPackaged'>, env: NodeJS.ProcessEnv) =>
  isPackaged ? undefined : env.ELECTRON_RENDERER_URL;

/** `origin` gives the page's origin, null as long as the engine has not announced it. */
export function denyByDefault(app: App, shell: Shell, origin: () => string | null): void {
  app.on('web-contents-created', (_event, contents: WebContents) => {
    const stay = (event: { preventDefault(): void; url: string }) => {
      if (!isOwnPage(event.url, origin())) event.preventDefault();
    };
    contents.on('will-frame-navigate', stay);
    contents.on('will-redirect', stay);
    contents.on('will-attach-webview', (event) => event.preventDefault());
    contents.setWindowOpenHandler(({ url }) => {
      if (mayGoOutside(url)) void shell.openExternal(url);
      return { action: 'deny' };
    });
  });
  app.on('session-created', (session: Session) => {
    session.setPermissionRequestHandler((_contents, permission, answer, details) =>
      answer(permitted.has(permission) && isOwnPage(details.requestingUrl, origin())),
    );
    session.setPermissionCheckHandler(
      (_contents, permission, requestingOrigin) =>
        permitted.has(permission) && isOwnPage(requestingOrigin, origin()),
    );
    session.setDevicePermissionHandler(() => false);
    // the page has none, and a link that downloads is no navigation
    session.on('will-download', (event) => event.preventDefault());
  });
}
