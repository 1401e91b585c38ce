/**
 * The writer thread's loop. All that is waiting shares one `BEGIN IMMEDIATE … COMMIT`, so that many callers pay
 * for one disk flush; each procedure has a savepoint, so that one failure does not touch its neighbours.
 */
import type { DatabaseSync } from 'node:sqlite'
import { setImmediate } from 'node:timers/promises'
import { type MessagePort, receiveMessageOnPort } from 'node:worker_threads'
import { CraikError } from '../../errors.ts'
import type { Procedures } from '../store.ts'
import { translateError } from './database.ts'
import { tablesOver } from './tables.ts'
import type { Answer, Call, FromWriter, ToWriter } from './writer-messages.ts'

/** Procedures that the thread runs by itself. */
export interface Housekeeping {
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
  housekeeping: Housekeeping,
): Promise<void> {
  database.exec('PRAGMA busy_timeout = 0')
  const tables = tablesOver(database)
  const savepoint = database.prepare('SAVEPOINT call')
  const release = database.prepare('RELEASE call')
  const undo = database.prepare('ROLLBACK TO call')
  const queue: Call[] = []
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

  const run = async (call: Call): Promise<Answer> => {
    const body = procedures[call.name]
    if (body === undefined) throw new CraikError('internal', `no procedure ${call.name}`)
    return { n: call.n, value: await body(tables, call.input as never) }
  }

  const commit = async (calls: readonly Call[]): Promise<Answer[]> => {
    const answers: Answer[] = []
    const nested = calls.length > 1
    try {
      await beginImmediate(database)
      for (const call of calls) {
        if (nested) savepoint.run()
        try {
          answers.push(await run(call))
          if (nested) release.run()
        } catch (error) {
          // A full disk ends the whole transaction by itself; then no call of this batch has happened.
          if (!database.isTransaction || !nested) throw error
          undo.run()
          release.run()
          answers.push({ n: call.n, error: plain(translateError(error, folder)) })
        }
      }
      database.exec('COMMIT')
      return answers
    } catch (error) {
      if (database.isTransaction) database.exec('ROLLBACK')
      const failure = plain(translateError(error, folder))
      return calls.map(
        (call) =>
          answers.find((answer) => answer.n === call.n && answer.error) ?? { n: call.n, error: failure },
      )
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
async function beginImmediate(database: DatabaseSync): Promise<void> {
  const deadline = performance.now() + LOCK_PATIENCE_MS
  const nap = new Int32Array(new SharedArrayBuffer(4))
  for (;;) {
    try {
      database.exec('BEGIN IMMEDIATE')
      return
    } catch (error) {
      const busy = ((error as { errcode?: number }).errcode ?? 0) & 0xff
      if (busy !== 5 || performance.now() > deadline) throw error
      Atomics.wait(nap, 0, 0, 0.2 + Math.random() * 2)
    }
  }
}

/** Errors cross the thread as data. */
export function plain(error: CraikError): NonNullable<Answer['error']> {
  return {
    code: error.code,
    message: error.message,
    hint: error.hint,
    ...(error.details && { details: error.details }),
    ...(error.cause instanceof Error && { cause: error.cause.message }),
  }
}
