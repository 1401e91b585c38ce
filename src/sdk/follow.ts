/** Streams of lines that continue after the supervisor disconnected, without a line lost or repeated. */
import { delay } from '../lib/delay.ts'
import type { SandboxEventBody, WatchBody } from '../operator/api/bodies.ts'
import type { ApiConnection } from './api-connection.ts'
import { type CallOptions, common } from './api-paths.ts'
import { jsonLines } from './json-lines.ts'
import { LostConnection } from './transport.ts'

/** Prevents a tight loop of requests when the supervisor dies again and again. */
const PAUSE_MS = 100

/** More events than a sandbox keeps, including events that it lost when its supervisor died. */
const MAX_REMEMBERED = 2000

/**
 * Follows events, which have no number. Each connection begins with the events that the sandbox keeps, so after a loss
 * those that were reported are skipped. The time alone does not identify them, because the clock can be set back.
 */
export async function* followEvents(
  connection: ApiConnection,
  path: string,
  options: CallOptions,
): AsyncGenerator<SandboxEventBody> {
  const reported: string[] = []
  for (;;) {
    const toSkip = new Map<string, number>()
    for (const key of reported) toSkip.set(key, (toSkip.get(key) ?? 0) + 1)
    try {
      const response = await connection.send({ method: 'GET', path, ...common(options) })
      for await (const event of jsonLines<SandboxEventBody>(response)) {
        const key = keyOf(event)
        const count = toSkip.get(key) ?? 0
        if (count > 0) {
          toSkip.set(key, count - 1)
          continue
        }
        reported.push(key)
        if (reported.length > MAX_REMEMBERED) reported.shift()
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

function keyOf({ at_ms, type, job, message }: SandboxEventBody): string {
  return JSON.stringify([at_ms, type, job, message])
}

async function afterLoss(error: unknown, signal: AbortSignal | undefined): Promise<void> {
  signal?.throwIfAborted()
  if (!(error instanceof LostConnection)) throw error
  await delay(PAUSE_MS, signal)
}
