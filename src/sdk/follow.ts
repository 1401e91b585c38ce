/** Streams of lines that go on after the supervisor went away, without a line lost or told twice. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { SandboxEventBody, WatchBody } from '../operator/api/bodies.ts'
import type { ApiConnection } from './api-connection.ts'
import { type CallOptions, common } from './api-paths.ts'
import { jsonLines } from './json-lines.ts'
import { LostConnection } from './transport.ts'

/** So that a supervisor that dies again and again is not asked in a tight loop. */
const PAUSE_MS = 100

/** Events have a time and no number: of those at the last time, as many as were told are skipped. */
export async function* followEvents(
  connection: ApiConnection,
  path: string,
  options: CallOptions,
): AsyncGenerator<SandboxEventBody> {
  let lastMs = -1
  let reportedThen = 0
  for (;;) {
    let toSkip = reportedThen
    try {
      const response = await connection.send({ method: 'GET', path, ...common(options) })
      for await (const event of jsonLines<SandboxEventBody>(response)) {
        if (event.at_ms < lastMs) continue
        if (event.at_ms === lastMs && toSkip-- > 0) continue
        reportedThen = event.at_ms === lastMs ? reportedThen + 1 : 1
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
