/**
 * What people paste as addresses, and the URLs that are scraped for it. The right column was written by hand from the
 * forms that vLLM's own documentation, NeMo RL's logs and shell histories have.
 */
import os from 'node:os';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import {
  endpointName,
  endpointUrl,
  endpointUrls,
  parseAddress,
  parseAddresses,
} from '../electron/engine/addresses.ts';
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
    ['http://me:hunter2@gpu-01:8000', 'http://gpu-01:8000/metrics', 'me', 'hunter2'],
    ['me:hunter2@gpu-01:8000/v1', 'http://gpu-01:8000/metrics', 'me', 'hunter2'],
    ['me:hunter2@gpu-01', 'http://gpu-01:8000/metrics', 'me', 'hunter2'],
    ['me:hunter2@gpu-01:80', 'http://gpu-01/metrics', 'me', 'hunter2'],
    ['https://me@gpu-01', 'https://gpu-01/metrics', 'me', ''],
    ['https://:token@gpu-01', 'https://gpu-01/metrics', '', 'token'],
    ['https://a%40b.org:p%2Fw%3A%23%25@gpu-01', 'https://gpu-01/metrics', 'a@b.org', 'p/w:#%'],
    ['https://me:hu@nter:2@gpu-01', 'https://gpu-01/metrics', 'me', 'hu@nter:2'],
    ['https://me:100%25@gpu-01', 'https://gpu-01/metrics', 'me', '100%'],
    ['https://me:100%@gpu-01', 'https://gpu-01/metrics', 'me', '100%'],
    ['https://jürgen:grün@gpu-01', 'https://gpu-01/metrics', 'jürgen', 'grün'],
  ])('takes the user and password out of %s', (address, url, user, password) => {
    expect(parseAddress(address)).toEqual({ url, login: { user, password } });
  });

  it('without any has no login', () => {
    expect(parseAddress('gpu-01')).toEqual({ url: 'http://gpu-01:8000/metrics', login: null });
  });

  // the URL would go on with a part of the password as its path, and be kept in the clear
  it.each(['http://me:80/hunter2@gpu-01', 'me:12#hunter2@gpu-01', 'http://me:80?hunter2@gpu-01'])(
    'refuses %s, which is not what it seems, and says how to write it',
    (address) => {
      const { kind, message } = thrown(() => parseAddress(address));
      expect(kind).toBe('bad-input');
      expect(message).toContain('…@gpu-01"');
      expect(message).toContain('/ as %2F, ? as %3F, # as %23');
      expect(message).not.toContain('hunter2');
    },
  );

  it.each([
    'http://me:hunter2@gpu-01:port',
    'me:hunter2@gpu-01:99999',
    'ftp://me:hunter2@gpu-01',
    'http://me:hunter2/more@gpu-01',
    'http://me:hunter2#more@gpu-01',
  ])('does not repeat the password of %s, which is wrong in another way too', (address) => {
    const { kind, message } = thrown(() => endpointUrl(address));
    expect(kind).toBe('bad-input');
    expect(message).toContain('@gpu-01');
    expect(message).not.toContain('hunter2');
  });

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
    '/gpu-01',
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

describe('logins of a pasted list', () => {
  it('are by URL; the first of several counts', () => {
    const { urls, logins } = parseAddresses('a me:one@b:8000 you:two@c, http://me:three@b:8000/v1');
    expect(urls).toEqual(['a', 'b', 'c'].map((host) => `http://${host}:8000/metrics`));
    expect([...logins]).toEqual([
      ['http://b:8000/metrics', { user: 'me', password: 'one' }],
      ['http://c:8000/metrics', { user: 'you', password: 'two' }],
    ]);
  });

  it('with a comma or semicolon in the password are torn apart: said without a part of it', () => {
    for (const pasted of ['http://me:hun,ter2@gpu-01', 'a:8000,http://me:hun;x,ter2@gpu-01']) {
      const { kind, message } = thrown(() => parseAddresses(pasted));
      expect(kind).toBe('bad-input');
      expect(message).toContain('…@gpu-01');
      expect(message).toContain('comma as %2C');
      expect(message).not.toMatch(/hun|ter2/);
    }
  });
});

describe('file_sd files among the addresses', () => {
  const posix = process.platform !== 'win32';
  const { files, urls } = parseAddresses(
    [
      '/shared/vllm/*.json, gpu-01:8000',
      '~/targets.yml ./a/b.yaml ../c.JSON x.yml',
      'file:///shared/with%20space/*.yaml /shared/vllm/*.json /shared//vllm/./*.json',
      'http://gpu-02:8000/targets.json',
    ].join('\n'),
  );

  it.runIf(posix)('are told by how they begin or end, as absolute paths, each once', () => {
    expect(files).toEqual([
      '/shared/vllm/*.json',
      path.join(os.homedir(), 'targets.yml'),
      path.join(process.cwd(), 'a/b.yaml'),
      path.join(path.dirname(process.cwd()), 'c.JSON'),
      path.join(process.cwd(), 'x.yml'),
      '/shared/with space/*.yaml',
    ]);
  });

  it('are none where a scheme says otherwise', () => {
    expect(urls).toEqual(['http://gpu-01:8000/metrics', 'http://gpu-02:8000/targets.json/metrics']);
  });

  it('are enough without any address', () => {
    expect(parseAddresses('/shared/*.json')).toMatchObject({
      urls: [],
      files: [path.resolve('/shared/*.json')],
    });
  });

  it('of Windows have a drive', () => {
    expect(parseAddresses('C:\\vllm\\*.json d:/vllm/x.yml').files).toEqual([
      'C:\\vllm\\*.json',
      'd:\\vllm\\x.yml',
    ]);
  });

  it.each([
    ['/shared/vllm', 'end in .json, .yml or .yaml'],
    ['/shared/vllm/', 'end in .json, .yml or .yaml'],
    ['~/targets.txt', 'end in .json, .yml or .yaml'],
    ['./x', 'end in .json, .yml or .yaml'],
    ['file:///etc/passwd', 'end in .json, .yml or .yaml'],
    ['/Users/me/Application Support/x.json', 'A space in a path is written %20'],
    ['/shared/*/x.json', 'wildcard in a folder'],
    ['/shared/*/*.json', 'wildcard in a folder'],
  ])('%s is refused by name', (word, because) => {
    const { kind, message } = thrown(() => parseAddresses(`gpu-01 ${word}`));
    expect(kind).toBe('bad-input');
    expect(message).toContain(`"${word.split(' ')[0]}"`);
    expect(message).toContain(because);
  });

  it.runIf(posix)('on another machine are refused', () => {
    const { kind, message } = thrown(() => parseAddresses('file://fileserver/vllm/x.json'));
    expect([kind, message]).toEqual([
      'bad-input',
      '"file://fileserver/vllm/x.json" is no path of this machine. Write it as /folder/*.json.',
    ]);
  });
});

it.each([
  ['http://gpu-01:8000/metrics', 'gpu-01:8000'],
  ['http://[::1]:8000/metrics', '[::1]:8000'],
  ['https://h/vllm/a/metrics', 'h/vllm/a'],
])('%s is called %s', (url, name) => {
  expect(endpointName(url)).toBe(name);
});
