/** Connections from inside while nothing stands behind the gateway's port: each is refused, and told why. */
import type { Duplex } from 'node:stream'
import type { InboundHandler } from '../boundary/boundary.ts'
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
  /** Writes down what is not yet, and refuses no more. */
  close(): Promise<void>
}

export interface Refused {
  readonly count: number
  /** As the inside spelled them, when it was a host and port: the first few, each with how many asked for it. */
  readonly targets: ReadonlyMap<string, number>
  /** Of which no host and port could be read. */
  readonly unparsable: number
}

/** What `writeDown` fails to write down is told again, with what comes after. */
export function refuseAll(writeDown: (refused: Refused) => Promise<void>): Refusals {
  const open = new Set<Duplex>()
  const reading = new Set<Promise<void>>()
  let waiting: Refused = NOTHING
  let timer: NodeJS.Timeout | undefined
  let everyMs = RECEIPT_EVERY_MS
  let lastMs = Number.NEGATIVE_INFINITY
  let writing: Promise<void> = Promise.resolve()
  let closed = false

  const flush = () => {
    clearTimeout(timer)
    timer = undefined
    if (waiting.count === 0) return
    const told = waiting
    waiting = NOTHING
    timer = closed ? undefined : setTimeout(flush, everyMs).unref()
    everyMs = Math.min(2 * everyMs, RECEIPT_MAX_MS)
    // A refusal needs no receipt to hold.
    writing = writing
      .then(() => writeDown(told))
      .catch(() => {
        waiting = both(told, waiting)
      })
  }
  const count = (what: Pick<Refused, 'targets' | 'unparsable'>) => {
    const nowMs = performance.now()
    if (nowMs - lastMs >= RECEIPT_MAX_MS) everyMs = RECEIPT_EVERY_MS
    lastMs = nowMs
    waiting = both(waiting, { ...what, count: 1 })
    if (timer === undefined) flush()
  }

  return {
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
        answer(stream, what)
      })
      reading.add(read)
    },
    async close() {
      closed = true
      for (const stream of open) stream.destroy()
      await Promise.all(reading)
      flush()
      await writing
    },
  }
}

/** `3 connections from inside refused: 2 to a.example:443, and 1 more`; the numbers add up. */
export function describeRefused({ count, targets }: Refused): string {
  const message = `${count} connection${count === 1 ? '' : 's'} from inside refused`
  if (targets.size === 0) return message
  if (count === 1) return `${message}, to ${[...targets.keys()][0]}`
  const named = [...targets].map(([target, times]) => `${times} to ${short(target)}`)
  const rest = count - [...targets.values()].reduce((sum, times) => sum + times, 0)
  return `${message}: ${named.join(', ')}${rest === 0 ? '' : `, and ${rest} more`}`
}

/** For the receipt: what is named by host and port, and what could not be. The rest of the count is in neither. */
export function destinationsOf({ targets, unparsable }: Refused): Destination[] {
  const named = [...targets].map(([destination, count]) => ({ destination, count }))
  return unparsable === 0 ? named : [...named, { destination: 'unparsable', count: unparsable }]
}

/** Five of them fit into an event. */
function short(target: string): string {
  return target.length <= 70 ? target : `${target.slice(0, 34)}…${target.slice(-35)}`
}

const NOTHING: Refused = { count: 0, targets: new Map(), unparsable: 0 }
const UNPARSABLE: Pick<Refused, 'targets' | 'unparsable'> = { targets: new Map(), unparsable: 1 }

function both(one: Refused, other: Refused): Refused {
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

function answer(stream: Duplex, target: string | undefined): void {
  const text = `blocked by craik: egress${target === undefined ? '' : ` to ${target}`} is not granted\n`
  stream.end(
    `HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain; charset=utf-8\r\n` +
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
