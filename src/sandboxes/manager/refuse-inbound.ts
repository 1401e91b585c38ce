/**
 * Refuses connections from the sandbox that nothing else handles, and answers with the reason. It also counts the
 * handled ones.
 */
import type { Duplex } from 'node:stream'
import { createTally } from '../../lib/paced-tally.ts'
import type { InboundHandler } from '../boundary/boundary.ts'
import { MAX_INBOUND } from '../boundary/boundary-timeouts.ts'
import type { Destination } from '../lifecycle/tokens.ts'

/** The limit of open connections that get a response. A flood is recorded as one receipt with a count. */
const AT_ONCE = 64
const RECEIPT_EVERY_MS = 1_000
/**
 * During a flood, each pause between receipts is twice the one before, up to this. After this time without a
 * connection, the pauses start again.
 */
const RECEIPT_MAX_MS = 60_000
const HEAD_BYTES = 4 * 1024
const HEAD_DEADLINE_MS = 5_000
const ANSWER_DEADLINE_MS = 5_000
/** The number of destinations that are listed by name. All others are only counted. */
const NAMED_TARGETS = 5

export interface Refusals {
  readonly handle: InboundHandler
  /** Counts a connection that something else handles and records. */
  countTaken(): void
  /** Refuses and counts a connection beyond the limit, and answers with the reason. */
  surplus(stream: Duplex): void
  /** Records what is not recorded yet, and stops. */
  close(): Promise<void>
}

export interface InboundRefusal {
  readonly count: number
  /** The first few destinations as `host:port`, each with the number of connections to it. */
  readonly targets: ReadonlyMap<string, number>
  /** The number of connections without a readable host and port. */
  readonly unparsable: number
}

/** Creates the handlers. Refusals that `writeDown` fails to record are recorded with later ones. */
export function refuseAll(
  writeDown: (refused: InboundRefusal) => Promise<void>,
  writeTaken: (count: number) => Promise<void> = async () => {},
  writeSurplus: (count: number) => Promise<void> = async () => {},
): Refusals {
  const open = new Set<Duplex>()
  const reading = new Set<Promise<void>>()
  // A refusal does not depend on its receipt.
  const pace = { everyMs: RECEIPT_EVERY_MS, maxMs: RECEIPT_MAX_MS }
  const tally = createTally(mergeRefusals, writeDown, pace)
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

/** Returns for example `3 connections from the sandbox refused: 2 to a.example:443, and 1 more`. The numbers add up. */
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

/**
 * Returns the destinations for the receipt: those with a host and port, and the number of unparsable ones. The rest of
 * the count is in neither.
 */
export function destinationsOf({ targets, unparsable }: InboundRefusal): Destination[] {
  const named = [...targets].map(([destination, count]) => ({ destination, count }))
  return unparsable === 0 ? named : [...named, { destination: 'unparsable', count: unparsable }]
}

/** Shortens a destination so that five of them fit into an event. */
function short(target: string): string {
  return target.length <= 70 ? target : `${target.slice(0, 34)}…${target.slice(-35)}`
}

const NOTHING: InboundRefusal = { count: 0, targets: new Map(), unparsable: 0 }
const UNPARSABLE: Pick<InboundRefusal, 'targets' | 'unparsable'> = { targets: new Map(), unparsable: 1 }

function mergeRefusals(one: InboundRefusal, other: InboundRefusal): InboundRefusal {
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
  // Data that still arrives is discarded. A client that does not close the connection is disconnected.
  stream.resume()
  const timer = setTimeout(() => stream.destroy(), ANSWER_DEADLINE_MS).unref()
  stream.once('close', () => clearTimeout(timer))
  stream.once('finish', () => stream.readableEnded && stream.destroy())
}

/** Reads the destination from the head of an HTTP request, within limits. Returns `undefined` for anything else. */
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
  // If there are two Host headers, it is unknown which one counts.
  const [host, second] = head.matchAll(/^host:[ \t]*(\S{1,300})[ \t]*\r?$/gim)
  return host === undefined || second !== undefined ? undefined : hostAndPort(host[1]!, 80)
}

const LABEL = '[a-z0-9](?:[a-z0-9_-]{0,61}[a-z0-9])?'
const HOST_AND_PORT = new RegExp(`^(${LABEL}(?:\\.${LABEL})*)\\.?(?::([0-9]{1,5}))?$`)
/** A host of this length is a valid reference together with its port. */
const MAX_HOST_LENGTH = 190

/** Returns the destination in the only form that a reference can have, so that nothing else can be mistaken for it. */
function hostAndPort(text: string, port: number | undefined): string | undefined {
  const [, host, digits] = HOST_AND_PORT.exec(text.toLowerCase()) ?? []
  if (host === undefined || host.length > MAX_HOST_LENGTH) return undefined
  const number = digits === undefined ? port : Number(digits)
  return number === undefined || number < 1 || number > 65_535 ? undefined : `${host}:${number}`
}
