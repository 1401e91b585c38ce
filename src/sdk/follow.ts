/** Streams of lines that continue after the supervisor disconnected, without a line lost or repeated. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { SandboxEventBody, WatchBody } from '../operator/api/bodies.ts'
import type { ApiConnection } from './api-connection.ts'
import { type CallOptions, common } from './api-paths.ts'
import { jsonLines } from './json-lines.ts'
import { LostConnection } from './transport.ts'

/** Prevents a tight loop of requests when the supervisor dies again and again. */
const PAUSE_MS = 100

/**
 * Follows events, which have a time and no number. Of the events at the last time, it skips as many as were reported.
 */
export async function* followEvents(
  connection: ApiConnection,
  path: string,
  options: CallOptions,
): AsyncGenerator<SandboxEventBody> {
  let lastMs = -1
  let reportedAtLast = 0
  for (;;) {
    let toSkip = reportedAtLast
    try {
      const response = await connection.send({ method: 'GET', path, ...common(options) })
      for await (const event of jsonLines<SandboxEventBody>(response)) {
        if (event.at_ms < lastMs) continue
        if (event.at_ms === lastMs && toSkip-- > 0) continue
        reportedAtLast = event.at_ms === lastMs ? reportedAtLast + 1 : 1
        lastMs = event.at_ms
        yield event
      }
      return
    } catch (error) {
      await afterLoss(error, options.signal)
    }
  }
}

export async function* followChanges(
  connection: ApiConnection,
  pathAfter: (seq: number) => string,
  after: number,
  options: CallOptions,
): AsyncGenerator<WatchBody> {
  let last = after
  for (;;) {
    try {
      const response = await connection.send({ method: 'GET', path: pathAfter(last), ...common(options) })
      for await (const change of jsonLines<WatchBody>(response)) {
        last = change.seq
        yield change
      }
      return
    } catch (error) {
      await afterLoss(error, options.signal)
    }
  }
}

async function afterLoss(error: unknown, signal: AbortSignal | undefined): Promise<void> {
  signal?.throwIfAborted()
  if (!(error instanceof LostConnection)) throw error
  await sleep(PAUSE_MS, undefined, signal && { signal })
}
