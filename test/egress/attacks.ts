/**
 * Attacks on an egress proxy, as a program in a sandbox would try them, using only the proxy's address. The file
 * imports nothing of Craik, so that it can be copied into a sandbox: `node attacks.ts PORT` prints the responses.
 *
 * The proxy allows `allowed.example` on 443 and 80, `store.example:80/bucket` with GET, `rebind.example`,
 * `mixed.example`, `metadata.example`, `mapped.example` on 443 and 80, `*.wild.example` on 443, and nothing else.
 */
import { connect } from 'node:net'

export interface Attack {
  readonly name: string
  /** The parts to send, each after the response to the previous one began. */
  readonly send: readonly string[]
  /** Matches the first lines of a harmless response. With any other response, the attack succeeded. */
  readonly refused: RegExp
}

const REFUSED = /^HTTP\/1\.1 (?:400|403|501) /
/** Matches the requests that a web server may receive. Any other request is a successful attack. */
export const FINE = /^GET (?:allowed|rebind)\.example \/(?:ok|redirect)$/
const EITHER = /^(?:$|HTTP\/1\.1 (?:400|403|501|502) )/
const get = (url: string, host: string, more = '') => `GET ${url} HTTP/1.1\r\nHost: ${host}\r\n${more}\r\n`
const tunnelTo = (authority: string, more = '') =>
  `CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n${more}\r\n`

const names: readonly (readonly [string, string])[] = [
  ['a host that nobody allowed', 'forbidden.example:443'],
  ['an allowed host on another port', 'allowed.example:22'],
  ['a name that only ends like an allowed one', 'evilallowed.example:443'],
  ['a name that only begins like an allowed one', 'allowed.example.forbidden.example:443'],
  ['the name under a wildcard itself', 'wild.example:443'],
  ['a NUL byte before an allowed suffix', 'forbidden.example\u0000.wild.example:443'],
  ['a NUL byte after an allowed name', 'allowed.example\u0000.forbidden.example:443'],
  ['an encoded NUL byte', 'forbidden.example%00.wild.example:443'],
  ['a line break in a name', 'allowed.example\r\nX: forbidden.example:443'],
  ['a user before an allowed name', 'forbidden.example:443@allowed.example:443'],
  ['an allowed name as a user', 'allowed.example@forbidden.example:443'],
  ['an address of this machine', '127.0.0.1:443'],
  ['an address of this machine in hexadecimal', '0x7f.1:443'],
  ['an address of this machine in octal', '017700000001:443'],
  ['an address of this machine as one number', '2130706433:443'],
  ['a mapped address of this machine', '[::ffff:127.0.0.1]:443'],
  ['an address of this machine in IPv6', '[::1]:443'],
  ['an address through NAT64', '[64:ff9b::7f00:1]:443'],
  ['a link-local address with a zone', '[fe80::1%25lo]:443'],
  ['the metadata address', '169.254.169.254:80'],
  ['the metadata address as one number', '2852039166:80'],
  ['the metadata address in IPv6', '[fd00:ec2::254]:80'],
  ['this machine by name', 'localhost:443'],
  ['an allowed name that leads to the metadata address', 'metadata.example:443'],
  ['an allowed name that leads to a mapped private address', 'mapped.example:443'],
  ['an allowed name with a private address among public ones', 'mixed.example:443'],
  ['a letter that only looks like one', '\u0430llowed.example:443'],
  ['a backslash in a name', 'allowed.example\\@forbidden.example:443'],
  ['a port that is none', 'allowed.example:99999'],
  ['no port', 'allowed.example'],
  ['nothing', ''],
]

export const ATTACKS: readonly Attack[] = [
  ...names.map(([name, authority]) => ({
    name: `CONNECT: ${name}`,
    send: [tunnelTo(authority)],
    refused: REFUSED,
  })),
  ...names
    .filter(([, authority]) => /^[!-~]+:\d+$/.test(authority))
    .map(([name, authority]) => ({
      name: `plain: ${name}`,
      send: [get(`http://${authority}/`, authority)],
      refused: REFUSED,
    })),
  {
    name: 'a Host header for another host than the URL',
    send: [get('http://allowed.example/', 'forbidden.example')],
    refused: REFUSED,
  },
  {
    name: 'two Host headers',
    send: [get('http://allowed.example/', 'allowed.example', 'Host: forbidden.example\r\n')],
    refused: REFUSED,
  },
  {
    name: 'CONNECT to a forbidden host with the Host header of an allowed one',
    send: ['CONNECT forbidden.example:443 HTTP/1.1\r\nHost: allowed.example:443\r\n\r\n'],
    refused: REFUSED,
  },
  {
    name: 'a forbidden host after an allowed one on the same connection',
    send: [
      get('http://allowed.example/ok', 'allowed.example'),
      get('http://forbidden.example/', 'forbidden.example'),
    ],
    refused: /^HTTP\/1\.1 200 [\s\S]*HTTP\/1\.1 403 /,
  },
  {
    name: 'a redirect from an allowed host to a forbidden one',
    send: [
      get('http://allowed.example/redirect', 'allowed.example'),
      get('http://forbidden.example/', 'forbidden.example'),
    ],
    refused: /^HTTP\/1\.1 302 [\s\S]*HTTP\/1\.1 403 /,
  },
  {
    name: 'a name that leads outside when it is judged first, and inside then',
    send: [
      get('http://rebind.example/ok', 'rebind.example'),
      get('http://rebind.example/', 'rebind.example'),
    ],
    refused: /^HTTP\/1\.1 200 [\s\S]*HTTP\/1\.1 403 /,
  },
  {
    name: 'a tunnel that asks the allowed host to CONNECT onward',
    send: [tunnelTo('allowed.example:443'), tunnelTo('forbidden.example:443')],
    refused: /^HTTP\/1\.1 200 Connection Established\r\n\r\n$/,
  },
  {
    name: 'a tunnel whose TLS is for another host',
    send: [tunnelTo('allowed.example:443'), clientHello('forbidden.example')],
    refused: /^HTTP\/1\.1 200 Connection Established\r\n\r\n$/,
  },
  {
    name: 'a CONNECT in absolute form',
    send: ['CONNECT http://allowed.example:80/ HTTP/1.1\r\nHost: allowed.example\r\n\r\n'],
    refused: REFUSED,
  },
  {
    name: 'a second request hidden behind two lengths',
    send: [
      'POST http://allowed.example/ok HTTP/1.1\r\nHost: allowed.example\r\nContent-Length: 4\r\n' +
        'Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET http://forbidden.example/ HTTP/1.1\r\nHost: forbidden.example\r\n\r\n',
    ],
    refused: EITHER,
  },
  {
    name: 'a second request hidden behind two different lengths',
    send: [
      'POST http://allowed.example/ok HTTP/1.1\r\nHost: allowed.example\r\nContent-Length: 0\r\nContent-Length: 40\r\n\r\n' +
        'GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n',
    ],
    refused: EITHER,
  },
  {
    name: 'an unknown transfer encoding',
    send: [
      'POST http://allowed.example/ok HTTP/1.1\r\nHost: allowed.example\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n',
    ],
    refused: EITHER,
  },
  {
    name: 'lines that end without a carriage return',
    send: ['GET http://allowed.example/ HTTP/1.1\nHost: allowed.example\nX: \n\n'],
    refused: EITHER,
  },
  {
    name: 'another path of an object store',
    send: [get('http://store.example/other/secrets', 'store.example')],
    refused: REFUSED,
  },
  {
    name: 'a path of an object store that climbs out',
    send: [get('http://store.example/bucket/../other/secrets', 'store.example')],
    refused: REFUSED,
  },
  {
    name: 'a path of an object store that climbs out encoded',
    send: [get('http://store.example/bucket/%2e%2e/other/secrets', 'store.example')],
    refused: REFUSED,
  },
  {
    name: 'a path of an object store with an encoded slash',
    send: [get('http://store.example/bucket%2f..%2fother', 'store.example')],
    refused: REFUSED,
  },
  {
    name: 'a name that begins like the bucket',
    send: [get('http://store.example/bucket-of-others/x', 'store.example')],
    refused: REFUSED,
  },
  {
    name: 'writing to an object store that may be read',
    send: [
      'PUT http://store.example/bucket/x HTTP/1.1\r\nHost: store.example\r\nContent-Length: 6\r\n\r\nsecret',
    ],
    refused: REFUSED,
  },
  {
    name: 'a tunnel around the path of an object store',
    send: [tunnelTo('store.example:80')],
    refused: REFUSED,
  },
  {
    name: 'https in a plain request',
    send: [get('https://allowed.example/', 'allowed.example')],
    refused: REFUSED,
  },
  {
    name: 'another protocol in a plain request',
    send: [get('ftp://allowed.example/', 'allowed.example')],
    refused: REFUSED,
  },
  {
    name: 'a plain request that becomes something else',
    send: [
      get('http://allowed.example/', 'allowed.example', 'Connection: Upgrade\r\nUpgrade: websocket\r\n'),
    ],
    refused: REFUSED,
  },
  {
    name: 'a head that never ends',
    send: [
      `GET http://allowed.example/ HTTP/1.1\r\nHost: allowed.example\r\nX: ${'x'.repeat(200_000)}\r\n\r\n`,
    ],
    refused: /^(?:$|HTTP\/1\.1 (?:400|431) )/,
  },
  {
    name: 'something that is not HTTP',
    send: ['\u0005\u0001\u0000'],
    refused: /^(?:$|HTTP\/1\.1 400 )/,
  },
]

const PATIENCE_MS = 1_500

/** Returns the response as text. The attack failed when the text matches `refused`. */
export function attack(port: number, { send }: Pick<Attack, 'send'>, host = '127.0.0.1'): Promise<string> {
  return new Promise((resolve) => {
    const pieces = [...send]
    let answer = ''
    const socket = connect({ host, port })
    let timer = setTimeout(() => socket.destroy(), PATIENCE_MS)
    const next = () => {
      const piece = pieces.shift()
      if (piece !== undefined)
        socket.write(Buffer.from(piece, /[^\u0000-\u00ff]/.test(piece) ? 'utf8' : 'latin1'))
      else if (/HTTP\/1\.1 4\d\d /.test(answer)) socket.end()
    }
    socket.on('connect', next)
    socket.on('data', (chunk) => {
      answer += chunk.toString('latin1')
      clearTimeout(timer)
      timer = setTimeout(() => socket.destroy(), PATIENCE_MS)
      next()
    })
    socket.on('error', () => {})
    socket.on('close', () => {
      clearTimeout(timer)
      resolve(answer)
    })
  })
}

/** Returns a TLS ClientHello for a name, with one cipher suite. */
function clientHello(name: string): string {
  const bytes = Buffer.from(name)
  const serverName = Buffer.concat([
    u16(0),
    u16(bytes.length + 5),
    u16(bytes.length + 3),
    Buffer.from([0]),
    u16(bytes.length),
    bytes,
  ])
  const body = Buffer.concat([
    Buffer.from([3, 3]),
    Buffer.alloc(32, 7),
    Buffer.from([0]),
    u16(2),
    u16(0x1301),
    Buffer.from([1, 0]),
    u16(serverName.length),
    serverName,
  ])
  const message = Buffer.concat([Buffer.from([1, 0]), u16(body.length), body])
  return Buffer.concat([Buffer.from([0x16, 3, 1]), u16(message.length), message]).toString('latin1')
}

function u16(value: number): Buffer {
  return Buffer.from([value >> 8, value & 0xff])
}

/** Runs all attacks, four at a time, and returns which of them failed. */
export async function attackAll(port: number) {
  const results: { name: string; isFoughtOff: boolean; answer: string }[] = []
  const left = [...ATTACKS]
  const some = async () => {
    for (let one = left.shift(); one !== undefined; one = left.shift()) {
      const answer = await attack(port, one)
      results.push({ name: one.name, isFoughtOff: one.refused.test(answer), answer: answer.slice(0, 300) })
    }
  }
  await Promise.all([some(), some(), some(), some()])
  return results
}

const [, , provided] = process.argv
if (import.meta.main && provided !== undefined)
  process.stdout.write(`${JSON.stringify(await attackAll(Number(provided)), null, 2)}\n`)
