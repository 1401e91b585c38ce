/** A name server for a few names. It can answer each query differently, and it records all queries. */
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { isIPv6 } from 'node:net'

export interface NameServer {
  readonly asked: readonly string[]
  close(): void
}

/** `names` maps each name to lists of addresses. Each lookup gets the next list, and the last list repeats. */
export async function startNameServer(
  names: Readonly<Record<string, readonly (readonly string[])[]>>,
): Promise<NameServer> {
  const requests: string[] = []
  const turns = new Map<string, number>()
  const socket = createSocket('udp4', (message, from) => {
    const { name, type, end } = questionIn(message)
    const answers = names[name]
    const turn = turns.get(name) ?? 0
    const addresses = answers?.[Math.min(turn, answers.length - 1)] ?? []
    // One lookup queries both record types, AAAA last.
    if (type === AAAA) turns.set(name, turn + 1)
    requests.push(name)
    const records = addresses
      .filter((each) => isIPv6(each) === (type === AAAA))
      .map((each) => record(each, type))
    const head = Buffer.alloc(12)
    message.copy(head, 0, 0, 2)
    head.writeUInt16BE(answers === undefined ? 0x8183 : 0x8180, 2)
    head.writeUInt16BE(1, 4)
    head.writeUInt16BE(records.length, 6)
    socket.send(Buffer.concat([head, message.subarray(12, end), ...records]), from.port, from.address)
  })
  socket.bind(53, '127.0.0.1')
  await once(socket, 'listening')
  return { asked: requests, close: () => socket.close() }
}

const AAAA = 28

function questionIn(message: Buffer) {
  const labels: string[] = []
  let at = 12
  for (let length = message[at]!; length > 0; length = message[at]!) {
    labels.push(message.toString('latin1', at + 1, at + 1 + length))
    at += 1 + length
  }
  return { name: labels.join('.').toLowerCase(), type: message.readUInt16BE(at + 1), end: at + 5 }
}

/** Returns a record for the queried name, with a time to live of zero. */
function record(address: string, type: number): Buffer {
  const bytes = type === AAAA ? ipv6(address) : Buffer.from(address.split('.').map(Number))
  const head = Buffer.alloc(12)
  head.writeUInt16BE(0xc00c, 0)
  head.writeUInt16BE(type, 2)
  head.writeUInt16BE(1, 4)
  head.writeUInt16BE(bytes.length, 10)
  return Buffer.concat([head, bytes])
}

/** Supports only addresses that end with an IPv4 address. */
function ipv6(address: string): Buffer {
  const [, before = '', v4] = /^(.*:)(\d+\.\d+\.\d+\.\d+)$/.exec(address) ?? []
  if (v4 === undefined) throw new Error('no such address is needed here')
  const bytes = Buffer.alloc(16)
  if (before === '::ffff:') bytes.fill(0xff, 10, 12)
  Buffer.from(v4.split('.').map(Number)).copy(bytes, 12)
  return bytes
}
