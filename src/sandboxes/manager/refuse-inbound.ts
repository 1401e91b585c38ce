/** Connections from inside that nothing answers: each is refused, and told why. Those that something does are counted. */
import type { Duplex } from 'node:stream'
import { createTally } from '../../lib/paced-tally.ts'
import type { InboundHandler } from '../boundary/boundary.ts'
import { MAX_INBOUND } from '../boundary/boundary-timeouts.ts'
import type { Destination } from '../lifecycle/tokens.ts'

/** A flood is answered only so far, and written down as one receipt with a count. */
const AT_ONCE = 64
const RECEIPT_EVERY_MS = 1_000
/** While they go on each receipt comes after twice the time of the one before, up to this; so long without one ends it. */
const RECEIPT_MAX_MS = 60_000
const HEAD_BYTES = 4 * 1024
const HEAD_DEADLINE_MS = 5_000
const ANSWER_DEADLINE_MS = 5_000
/** Told by name; all others are told by number. */
const NAMED_TARGETS = 5

export interface Refusals {
  readonly handle: InboundHandler
  /** One that somebody else answers, and writes down what becomes of it: here it is only counted. */
  countTaken(): void
  /** One for which there is no room: it is told so, and counted. */
  surplus(stream: Duplex): void
  /** Writes down what is not yet, and refuses no more. */
  close(): Promise<void>
}

export interface InboundRefusal {
  readonly count: number
  /** As the inside spelled them, when it was a host and port: the first few, each with how many asked for it. */
  readonly targets: ReadonlyMap<string, number>
  /** Of which no host and port could be read. */
  readonly unparsable: number
}

/** What `writeDown` fails to write down is told again, with what comes after. */
export function refuseAll(
  writeDown: (refused: InboundRefusal) => Promise<void>,
  writeTaken: (count: number) => Promise<void> = async () => {},
  writeSurplus: (count: number) => Promise<void> = async () => {},
): Refusals {
  const open = new Set<Duplex>()
  const reading = new Set<Promise<void>>()
  // A refusal needs no receipt to hold.
  const pace = { everyMs: RECEIPT_EVERY_MS, maxMs: RECEIPT_MAX_MS }
  const tally = createTally(both, writeDown, pace)
  const sum = (one: number, other: number) => one + other
  const others = createTally(sum, writeTaken, pace)
  const tooMany = createTally(sum, writeSurplus, pace)
  let closed = false
  const count = (what: Pick<InboundRefusal, 'targets' | 'unparsable'>) => tally.add({ ...what, count: 1 })

  return {
    countTaken: () => others.add(1),
    surplus(stream) {
      stream.on('error', () => {})
      tooMany.add(1)
      answer(stream, '503 Service Unavailable', SURPLUS)
    },
    handle(stream) {
      stream.on('error', () => {})
      if (closed || open.size >= AT_ONCE) {
        count(NOTHING)
        stream.destroy()
        return
      }
      open.add(stream)
      stream.once('close', () => open.delete(stream))
      const read = readTarget(stream).then((what) => {
        reading.delete(read)
        count(what === undefined ? UNPARSABLE : { targets: new Map([[what, 1]]), unparsable: 0 })
        answer(stream, '403 Forbidden', `egress${what === undefined ? '' : ` to ${what}`} is not allowed`)
      })
      reading.add(read)
    },
    async close() {
      closed = true
      for (const stream of open) stream.destroy()
      await Promise.all(reading)
      await Promise.all([tally.close(), others.close(), tooMany.close()])
    },
  }
}

/** `3 connections from the sandbox refused: 2 to a.example:443, and 1 more`; the numbers add up. */
export function describeRefused({ count, targets }: InboundRefusal): string {
  const message = `${count} connection${count === 1 ? '' : 's'} from the sandbox refused`
  if (targets.size === 0) return message
  if (count === 1) return `${message}, to ${[...targets.keys()][0]}`
  const named = [...targets].map(([target, times]) => `${times} to ${short(target)}`)
  const rest = count - [...targets.values()].reduce((sum, times) => sum + times, 0)
  return `${message}: ${named.join(', ')}${rest === 0 ? '' : `, and ${rest} more`}`
}

export function describeSurplus(count: number): string {
  return `${count} connection${count === 1 ? '' : 's'} from the sandbox refused: ${MAX_INBOUND} were open`
}

/** For the receipt: what is named by host and port, and what could not be. The rest of the count is in neither. */
export function destinationsOf({ targets, unparsable }: InboundRefusal): Destination[] {
  const named = [...targets].map(([destination, count]) => ({ destination, count }))
  return unparsable === 0 ? named : [...named, { destination: 'unparsable', count: unparsable }]
}

/** Five of them fit into an event. */
function short(target: string): string {
  return target.length <= 70 ? target : `${target.slice(0, 34)}…${target.slice(-35)}`
}

const NOTHING: InboundRefusal = { count: 0, targets: new Map(), unparsable: 0 }
const UNPARSABLE: Pick<InboundRefusal, 'targets' | 'unparsable'> = { targets: new Map(), unparsable: 1 }

function both(one: InboundRefusal, other: InboundRefusal): InboundRefusal {
  const targets = new Map(one.targets)
  for (const [target, times] of other.targets) {
    if (targets.has(target) || targets.size < NAMED_TARGETS)
      targets.set(target, (targets.get(target) ?? 0) + times)
  }
  return {
    count: one.count + other.count,
    targets,
    unparsable: one.unparsable + other.unparsable,
  }
}

const SURPLUS = `${MAX_INBOUND} connections of this sandbox are open; close some of them first`

function answer(stream: Duplex, status: string, why: string): void {
  const text = `blocked by craik: ${why}\n`
  stream.end(
    `HTTP/1.1 ${status}\r\nContent-Type: text/plain; charset=utf-8\r\n` +
      `Content-Length: ${Buffer.byteLength(text)}\r\nConnection: close\r\n\r\n${text}`,
  )
  // What is still sent is not kept; whoever does not leave is put out.
  stream.resume()
  const timer = setTimeout(() => stream.destroy(), ANSWER_DEADLINE_MS).unref()
  stream.once('close', () => clearTimeout(timer))
  stream.once('finish', () => stream.readableEnded && stream.destroy())
}

/** The host and port of the first line of an HTTP request, read within bounds; undefined for anything else. */
function readTarget(stream: Duplex): Promise<string | undefined> {
  return new Promise((resolve) => {
    let head = ''
    const finish = () => {
      clearTimeout(timer)
      stream.off('data', take)
      stream.off('end', finish)
      stream.off('close', finish)
      resolve(targetOf(head))
    }
    const take = (chunk: Buffer) => {
      head += chunk.toString('latin1', 0, HEAD_BYTES)
      if (head.includes('\r\n\r\n') || head.length >= HEAD_BYTES) finish()
    }
    const timer = setTimeout(finish, HEAD_DEADLINE_MS).unref()
    stream.on('data', take)
    stream.once('end', finish)
    stream.once('close', finish)
  })
}

export function targetOf(text: string): string | undefined {
  const [head = ''] = text.slice(0, HEAD_BYTES).split(/\r?\n\r?\n/, 1)
  const line = /^([A-Z]{1,20}) (\S{1,2048}) HTTP\/1\.[01]\r?(?:\n|$)/.exec(head)
  if (line === null) return undefined
  const [, method, target] = line as unknown as [string, string, string]
  if (method === 'CONNECT') return hostAndPort(target, undefined)
  const url = /^http(s?):\/\/([^/?#]{1,300})/i.exec(target)
  if (url !== null) return hostAndPort(url[2]!, url[1] === '' ? 80 : 443)
  // Of two it is not known which one counts.
  const [host, second] = head.matchAll(/^host:[ \t]*(\S{1,300})[ \t]*\r?$/gim)
  return host === undefined || second !== undefined ? undefined : hostAndPort(host[1]!, 80)
}

const LABEL = '[a-z0-9](?:[a-z0-9_-]{0,61}[a-z0-9])?'
const HOST_AND_PORT = new RegExp(`^(${LABEL}(?:\\.${LABEL})*)\\.?(?::([0-9]{1,5}))?$`)
/** Together with its port it is a reference. */
const MAX_HOST_LENGTH = 190

/** Spelled as a reference may be, one way for each: nothing that could be taken for anything else. */
function hostAndPort(text: string, port: number | undefined): string | undefined {
  const [, host, digits] = HOST_AND_PORT.exec(text.toLowerCase()) ?? []
  if (host === undefined || host.length > MAX_HOST_LENGTH) return undefined
  const number = digits === undefined ? port : Number(digits)
  return number === undefined || number < 1 || number > 65_535 ? undefined : `${host}:${number}`
}
