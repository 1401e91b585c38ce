/**
 * The loop of the writer thread. All waiting calls share one `BEGIN IMMEDIATE … COMMIT`, so that many callers pay for
 * one disk flush. If one call fails, the others run again without it.
 */
import type { DatabaseSync, StatementSync } from 'node:sqlite'
import { setImmediate } from 'node:timers/promises'
import { type MessagePort, receiveMessageOnPort } from 'node:worker_threads'
import { CraikError } from '../../errors.ts'
import type { Procedures } from '../store.ts'
import { cacheRows } from './cached-rows.ts'
import { translateError } from './database.ts'
import { createTables } from './tables.ts'
import type { FromWriter, ToWriter, WriterAnswer, WriterCall } from './writer-messages.ts'

/** The procedures that the thread runs by itself. */
export interface Maintenance {
  readonly atStart: string
  readonly atClose: string
  /** Runs this long after a write. Further writes during the delay share this run. */
  readonly afterWrite: { readonly procedure: string; readonly delayMs: number }
}

/** The number of a call whose result is not awaited. */
const HOUSEKEEPING = -1
/** With more calls in one transaction, the first caller would wait too long for the last. */
const MAX_BATCH = 512
/** How long a batch waits for another process's transaction. */
const LOCK_TIMEOUT_MS = 30_000

export async function serveWriter(
  port: MessagePort,
  database: DatabaseSync,
  folder: string,
  procedures: Procedures,
  housekeeping: Maintenance,
): Promise<void> {
  database.exec('PRAGMA busy_timeout = 0')
  const rows = cacheRows(database, createTables(database))
  let { tables } = rows
  const begin = database.prepare('BEGIN IMMEDIATE')
  const end = database.prepare('COMMIT')
  const undo = database.prepare('ROLLBACK')
  const queue: WriterCall[] = []
  let timer: NodeJS.Timeout | undefined
  let closing = false
  let pumping = false

  const take = (message: ToWriter): void => {
    if (message.close) closing = true
    // One by one, because a very large message would overflow the stack if passed as arguments.
    else for (const call of message.calls) queue.push(call)
  }
  const pump = async (): Promise<void> => {
    for (;;) {
      for (let more = receiveMessageOnPort(port); more !== undefined; more = receiveMessageOnPort(port))
        take(more.message)
      if (queue.length === 0) return
      const calls = queue.splice(0, MAX_BATCH)
      const answers = await commit(calls)
      port.postMessage({ answers } satisfies FromWriter)
      if (calls.some((call) => call.n !== HOUSEKEEPING))
        timer ??= setTimeout(later, housekeeping.afterWrite.delayMs)
      // This lets the timer run even when there are always waiting calls.
      await setImmediate()
    }
  }
  const later = (): void => {
    timer = undefined
    queue.push({ n: HOUSEKEEPING, name: housekeeping.afterWrite.procedure, input: undefined })
    start()
  }
  const start = (): void => {
    if (pumping) return
    pumping = true
    void pump().finally(() => {
      pumping = false
      if (queue.length > 0) start()
      else if (closing) void close()
    })
  }
  const close = async (): Promise<void> => {
    clearTimeout(timer)
    const [answer] = await commit([{ n: HOUSEKEEPING, name: housekeeping.atClose, input: undefined }])
    database.close()
    port.postMessage({ closed: true, ...(answer?.error && { error: answer.error }) } satisfies FromWriter)
    port.close()
  }

  const run = (call: WriterCall): Promise<unknown> => {
    const body = procedures[call.name]
    if (body === undefined) throw new CraikError('internal', `unknown procedure: ${call.name}`)
    return body(tables, call.input as never)
  }

  /**
   * Runs all calls in one transaction. If one fails, each runs again in its own transaction, so that only that one
   * fails.
   */
  const commit = async (calls: readonly WriterCall[]): Promise<WriterAnswer[]> => {
    try {
      return await runBatch(calls)
    } catch (error) {
      if (calls.length === 1)
        return [{ n: calls[0]!.n, error: serializeError(translateError(error, folder)) }]
      const answers: WriterAnswer[] = []
      for (const call of calls) answers.push(...(await commit([call])))
      return answers
    }
  }
  const runBatch = async (calls: readonly WriterCall[]): Promise<WriterAnswer[]> => {
    const answers: WriterAnswer[] = []
    beginImmediate(begin)
    try {
      rows.onBegin()
      for (const call of calls) answers.push({ n: call.n, value: await run(call) })
      end.run()
      return answers
    } catch (error) {
      // A full disk rolls back the transaction by itself.
      if (database.isTransaction) undo.run()
      rows.onRollback()
      tables = { ...tables }
      throw error
    }
  }

  port.on('message', (message: ToWriter) => {
    take(message)
    start()
  })
  queue.unshift({ n: HOUSEKEEPING, name: housekeeping.atStart, input: undefined })
  start()
}

/** SQLite's own busy handler sleeps up to 100 ms at a time. Short random waits are fairer between processes. */
function beginImmediate(begin: StatementSync): void {
  const deadline = performance.now() + LOCK_TIMEOUT_MS
  let nap: Int32Array | undefined
  for (;;) {
    try {
      begin.run()
      return
    } catch (error) {
      const busy = ((error as { errcode?: number }).errcode ?? 0) & 0xff
      if (busy !== 5 || performance.now() > deadline) throw error
      nap ??= new Int32Array(new SharedArrayBuffer(4))
      Atomics.wait(nap, 0, 0, 0.2 + Math.random() * 2)
    }
  }
}

/** Converts an error to plain data, because errors cannot cross threads as objects. */
export function serializeError(error: CraikError): NonNullable<WriterAnswer['error']> {
  return {
    code: error.code,
    message: error.message,
    hint: error.hint,
    ...(error.details && { details: error.details }),
    ...(error.cause instanceof Error && { cause: error.cause.message }),
  }
}
