/**
 * What people paste as addresses, and the URLs that are scraped for it. The right column was written by hand from the
 * forms that vLLM's own documentation, NeMo RL's logs and shell histories have.
 */
import { describe, expect, it } from 'vitest';
import { endpointName, endpointUrl, endpointUrls } from '../electron/engine/addresses.ts';
import { EngineError } from '../electron/engine/errors.ts';

/** The error that `act` throws; fails where it throws none. */
function thrown(act: () => unknown): EngineError {
  try {
    act();
  } catch (error) {
    if (error instanceof EngineError) return error;
    throw error;
  }
  throw new Error('nothing was thrown');
}

describe('one address', () => {
  it.each([
    ['gpu-01:8000', 'http://gpu-01:8000/metrics'],
    ['10.0.0.7:8000', 'http://10.0.0.7:8000/metrics'],
    ['gpu-01', 'http://gpu-01:8000/metrics'], // vLLM's own port
    ['gpu-01/', 'http://gpu-01:8000/metrics'],
    ['gpu-01:80', 'http://gpu-01/metrics'], // 80 was said, so it is meant
    ['gpu-01:80/', 'http://gpu-01/metrics'],
    ['gpu-01:8080', 'http://gpu-01:8080/metrics'],
    ['http://gpu-01:8000', 'http://gpu-01:8000/metrics'],
    ['http://gpu-01', 'http://gpu-01/metrics'], // with a scheme its own port is meant
    ['HTTP://GPU-01:8000', 'http://gpu-01:8000/metrics'],
    ['https://models.example.com', 'https://models.example.com/metrics'],
    ['https://models.example.com:8443/v1', 'https://models.example.com:8443/metrics'],
    // as the OpenAI client's base_url has it
    ['http://h:8000/v1', 'http://h:8000/metrics'],
    ['http://h:8000/v1/', 'http://h:8000/metrics'],
    ['h:8000/v1', 'http://h:8000/metrics'],
    ['http://h:8000///', 'http://h:8000/metrics'],
    ['http://h:8000/metrics', 'http://h:8000/metrics'],
    ['http://h:8000/metrics/', 'http://h:8000/metrics'],
    // behind a proxy, under a path (--root-path)
    ['http://h:8000/vllm/a', 'http://h:8000/vllm/a/metrics'],
    ['http://h:8000/vllm/a/v1', 'http://h:8000/vllm/a/metrics'],
    ['https://h/vllm/metrics', 'https://h/vllm/metrics'],
    ['http://h:8000/v1/metrics', 'http://h:8000/v1/metrics'],
    // a path that only ends in those letters
    ['http://h:8000/dev1', 'http://h:8000/dev1/metrics'],
    ['http://h:8000/metrics?pool=a', 'http://h:8000/metrics?pool=a'],
    ['http://h:8000/#dashboard', 'http://h:8000/metrics'],
    ['[::1]:8000', 'http://[::1]:8000/metrics'],
    ['[::1]', 'http://[::1]:8000/metrics'],
    ['http://[2001:db8::7]:9000/v1', 'http://[2001:db8::7]:9000/metrics'],
    // the :80 in it is a part of the address and no port
    ['[2001:db8::80]', 'http://[2001:db8::80]:8000/metrics'],
    ['[2001:db8::8000]', 'http://[2001:db8::8000]:8000/metrics'],
    ['[2001:db8::80]:80', 'http://[2001:db8::80]/metrics'],
  ])('%s', (address, url) => {
    expect(endpointUrl(address)).toBe(url);
  });

  it.each([
    ['http://me:hunter2@gpu-01:8000', 'gpu-01:8000'],
    ['me:hunter2@gpu-01:8000', 'gpu-01:8000'],
    ['https://me@gpu-01', 'gpu-01'],
  ])('refuses the user or password in %s and does not repeat it', (address, host) => {
    const { kind, message } = thrown(() => endpointUrl(address));
    expect(kind).toBe('bad-input');
    expect(message).toContain(`The address of ${host} holds a user or password`);
    expect(message).toContain('Give the address without it.');
    expect(message).not.toContain('hunter2');
  });

  it.each(['http://me:hunter2@gpu-01:port', 'me:hunter2@gpu-01:99999', 'ftp://me:hunter2@gpu-01'])(
    'does not repeat the password of %s, which is wrong in another way too',
    (address) => {
      const { kind, message } = thrown(() => endpointUrl(address));
      expect(kind).toBe('bad-input');
      expect(message).toContain('@gpu-01');
      expect(message).not.toContain('hunter2');
    },
  );

  it.each([
    ['ftp://gpu-01/metrics', 'ftp://'],
    ['unix:///run/vllm.sock', 'unix://'],
    ['file:///etc/passwd', 'file://'],
    ['ws://gpu-01:8000', 'ws://'],
  ])('refuses the scheme of %s by name', (address, scheme) => {
    const { kind, message } = thrown(() => endpointUrl(address));
    expect(kind).toBe('bad-input');
    expect(message).toContain(`begins with ${scheme};`);
    expect(message).toContain('http:// or https://');
  });

  it.each([
    'http://',
    'gpu-01:port',
    'gpu-01:99999',
    '::1:8000', // IPv6 needs its brackets
    'http://[::1:8000',
    'javascript:alert(1)',
    '<script>',
    'a^b',
    '',
  ])('refuses the rubbish "%s" with what to write instead', (address) => {
    const { kind, message } = thrown(() => endpointUrl(address));
    expect(kind).toBe('bad-input');
    expect(message).toBe(`"${address}" is no address. Write host:port or http://host:port.`);
  });
});

describe('a pasted list', () => {
  it('takes lines, commas, semicolons, spaces and tabs in any mixture, in their order', () => {
    expect(endpointUrls('b:8000, a:8000;c:8000\r\n\td:8000   e:8000,\n\n,f:8000\n')).toEqual(
      ['b', 'a', 'c', 'd', 'e', 'f'].map((h) => `http://${h}:8000/metrics`),
    );
  });

  it('leaves comments out, whole lines and tails of lines', () => {
    expect(endpointUrls("# the trainer's own, a:1\na:8000 # first, b:8000\n  # none\nc:8000#frag")).toEqual([
      'http://a:8000/metrics',
      'http://c:8000/metrics',
    ]);
  });

  it('merges what is the same server under several spellings, at the place of the first', () => {
    expect(
      endpointUrls('h:8000 other:8000 http://h:8000/v1 http://H:8000/metrics/ h:8000/ https://h:8000 h'),
    ).toEqual(['http://h:8000/metrics', 'http://other:8000/metrics', 'https://h:8000/metrics']);
  });

  it.each(['', '   \n\t', ',;,', '# only a comment'])('refuses "%s": no address in it', (pasted) => {
    const { kind, message } = thrown(() => endpointUrls(pasted));
    expect(kind).toBe('bad-input');
    expect(message).toContain('No address given');
  });

  it('names the one that is wrong among many', () => {
    const { kind, message } = thrown(() => endpointUrls('a:8000 b:port c:8000'));
    expect(kind).toBe('bad-input');
    expect(message).toContain('"b:port"');
  });
});

it.each([
  ['http://gpu-01:8000/metrics', 'gpu-01:8000'],
  ['http://[::1]:8000/metrics', '[::1]:8000'],
  ['https://h/vllm/a/metrics', 'h/vllm/a'],
])('%s is called %s', (url, name) => {
  expect(endpointName(url)).toBe(name);
});
