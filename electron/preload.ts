/**
 * What the page gets of the machine beside its WebSocket: hardly anything. Sandboxed, therefore built as one CJS
 * file that imports nothing at run time. Native acts of the page come here when they come; secrets do not, since they
 * are the engine's.
 */
import { contextBridge } from 'electron';

contextBridge.exposeInMainWorld('vllmScope', { platform: process.platform });
