/**
 * What the page gets of the machine beside its WebSocket: hardly anything. Sandboxed, therefore built as one CJS
 * file that imports nothing at run time. The native acts (choose a folder, keep a secret) come here when they come.
 */
import { contextBridge } from 'electron';

contextBridge.exposeInMainWorld('vllmScope', { platform: process.platform });
