/**
 * Joins two streams: counts the bytes of both directions, with back-pressure, until both end or the connection is idle.
 */
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { EgressLimits } from './egress-limits.ts'

type SpliceOutcome = 'closed' | 'client_gone' | 'upstream_broke' | 'idle' | 'too_long' | 'ended'

export interface Spliced {
  readonly outcome: SpliceOutcome
  /** Bytes from the client, and to it. */
  readonly upBytes: number
  readonly downBytes: number
}

/** `first` was already read from the client. Both streams are destroyed when it resolves. */
export function splice(
  client: Duplex,
  upstream: Socket,
  first: Buffer,
  limits: Pick<EgressLimits, 'idleMs' | 'halfOpenMs' | 'totalMs'>,
  until: AbortSignal,
): Promise<Spliced> {
  return new Promise((resolve) => {
    let upBytes = first.length
    let downBytes = 0
    let isSettled = false
    const settle = (outcome: SpliceOutcome) => {
      if (isSettled) return
      isSettled = true
      clearTimeout(idle)
      clearTimeout(total)
      until.removeEventListener('abort', end)
      client.destroy()
      upstream.destroy()
      resolve({ outcome, upBytes, downBytes })
    }
    const end = () => settle('ended')
    let idle = setTimeout(() => settle('idle'), limits.idleMs).unref()
    const total = setTimeout(() => settle('too_long'), limits.totalMs).unref()
    const halfOpen = () => {
      clearTimeout(idle)
      if (!isSettled) idle = setTimeout(() => settle('idle'), limits.halfOpenMs).unref()
    }

    client.on('data', (chunk: Buffer) => {
      upBytes += chunk.length
      idle.refresh()
    })
    upstream.on('data', (chunk: Buffer) => {
      downBytes += chunk.length
      idle.refresh()
    })
    client.once('error', () => settle('client_gone'))
    upstream.once('error', () => settle('upstream_broke'))
    client.once('end', halfOpen)
    upstream.once('end', halfOpen)
    client.once('close', () =>
      settle(client.readableEnded && client.writableFinished ? 'closed' : 'client_gone'),
    )
    upstream.once('close', () => {
      if (!upstream.readableEnded) settle('upstream_broke')
      else if (client.writableFinished) settle('closed')
      else client.once('finish', () => settle('closed'))
    })
    if (until.aborted) return end()
    if (client.destroyed) return settle('client_gone')
    if (upstream.destroyed) return settle('upstream_broke')
    until.addEventListener('abort', end, { once: true })
    if (first.length > 0) upstream.write(first)
    client.pipe(upstream)
    upstream.pipe(client)
  })
}
