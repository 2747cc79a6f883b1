/** Servers of a few lines for tests: any HTTP answer, or none at all. They end with the test. */
import http from 'node:http';
import net, { type AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';

/** The shortest body that is vLLM's. */
export const METRICS =
  '# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{engine="0",model_name="m"} 3.0\n';

/** A server of the test's own; counts what comes in. */
/** `version` answers /version, which is asked beside and not counted; usually it is not there. */
export async function httpServer(
  handler: http.RequestListener,
  version: http.RequestListener = (_request, response) => response.writeHead(404).end(),
) {
  const seen = { requests: 0, connections: 0 };
  const server = http.createServer((request, response) => {
    if (request.url === '/version') {
      version(request, response);
      return;
    }
    seen.requests++;
    handler(request, response);
  });
  server.on('connection', () => seen.connections++);
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  onTestFinished(async () => {
    server.closeAllConnections();
    await new Promise((done) => server.close(done));
  });
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}/metrics`, name: `127.0.0.1:${port}`, port, seen };
}
export const serving = (body: string | Buffer, headers: http.OutgoingHttpHeaders = {}, status = 200) =>
  httpServer((_request, response) =>
    response.writeHead(status, { 'content-type': 'text/plain; version=0.0.4', ...headers }).end(body),
  );

/** Something that listens and speaks no HTTP: `answer` does what it wants with each connection. */
export async function rawServer(answer: (socket: net.Socket) => void) {
  const sockets = new Set<net.Socket>();
  const server = net.createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    answer(socket);
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  onTestFinished(async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((done) => server.close(done));
  });
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}/metrics`, name: `127.0.0.1:${port}` };
}
