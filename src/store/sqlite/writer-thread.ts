/**
 * The writer thread's loop. All that is waiting shares one `BEGIN IMMEDIATE … COMMIT`, so that many callers pay
 * for one disk flush. If one fails, the others are done again without it.
 */
import type { DatabaseSync, StatementSync } from 'node:sqlite'
import { setImmediate } from 'node:timers/promises'
import { type MessagePort, receiveMessageOnPort } from 'node:worker_threads'
import { CraikError } from '../../errors.ts'
import type { Procedures } from '../store.ts'
import { cacheRows } from './cached-rows.ts'
import { translateError } from './database.ts'
import { tablesOver } from './tables.ts'
import type { FromWriter, ToWriter, WriterAnswer, WriterCall } from './writer-messages.ts'

/** Procedures that the thread runs by itself. */
export interface Maintenance {
  readonly atStart: string
  readonly atClose: string
  /** Runs once, this long after a write, unless it ran meanwhile. */
  readonly afterWrite: { readonly procedure: string; readonly delayMs: number }
}

/** The number of calls that nobody waits for. */
const HOUSEKEEPING = -1
/** More than this in one transaction would make the first caller wait for the last. */
const MAX_BATCH = 512
/** How long a batch waits for another process's transaction. */
const LOCK_PATIENCE_MS = 30_000

export async function serveWriter(
  port: MessagePort,
  database: DatabaseSync,
  folder: string,
  procedures: Procedures,
  housekeeping: Maintenance,
): Promise<void> {
  database.exec('PRAGMA busy_timeout = 0')
  const rows = cacheRows(database, tablesOver(database))
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
    // One by one: as arguments, a very large message would overflow the stack.
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
      // The timer gets its turn also when something is always waiting.
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

  /** All in one transaction; when one fails, each again in its own, so that it fails alone. */
  const commit = async (calls: readonly WriterCall[]): Promise<WriterAnswer[]> => {
    try {
      return await together(calls)
    } catch (error) {
      if (calls.length === 1) return [{ n: calls[0]!.n, error: plainError(translateError(error, folder)) }]
      const answers: WriterAnswer[] = []
      for (const call of calls) answers.push(...(await commit([call])))
      return answers
    }
  }
  const together = async (calls: readonly WriterCall[]): Promise<WriterAnswer[]> => {
    const answers: WriterAnswer[] = []
    beginImmediate(begin)
    try {
      rows.onBegin()
      for (const call of calls) answers.push({ n: call.n, value: await run(call) })
      end.run()
      return answers
    } catch (error) {
      // A full disk ends the transaction by itself.
      if (database.isTransaction) undo.run()
      rows.undone()
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

/** SQLite's own waiting sleeps up to 100 ms at a time; short random naps are fairer between processes. */
function beginImmediate(begin: StatementSync): void {
  const deadline = performance.now() + LOCK_PATIENCE_MS
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

/** Errors cross the thread as data. */
export function plainError(error: CraikError): NonNullable<WriterAnswer['error']> {
  return {
    code: error.code,
    message: error.message,
    hint: error.hint,
    ...(error.details && { details: error.details }),
    ...(error.cause instanceof Error && { cause: error.cause.message }),
  }
}
