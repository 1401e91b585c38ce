/** The embedded store: reads on a snapshot of its own, writes in the writer thread. */
import { existsSync } from 'node:fs'
import { getCompileCacheDir } from 'node:module'
import { dirname } from 'node:path'
import { Worker } from 'node:worker_threads'
import { CraikError } from '../../errors.ts'
import type { Home } from '../home.ts'
import type { Procedure, Store, Tables } from '../store.ts'
import { openDatabase, translateError } from './database.ts'
import { lazily } from './statement.ts'
import { tablesOver } from './tables.ts'
import type { FromWriter, ToWriter, WriterAnswer, WriterCall } from './writer-messages.ts'

/** `writer` is the module that the writer thread runs: the composition root decides what it knows. */
export async function openSqliteStore(home: Home, writer: URL): Promise<Store> {
  const database = await openDatabase(home)
  const tables = tablesOver(database)
  const begin = lazily(database, 'BEGIN')
  const end = lazily(database, 'ROLLBACK')
  const thread = new WriterClient(home, writer)
  let reading: Promise<unknown> = Promise.resolve()
  let closed: Promise<void> | undefined

  const read = async <T>(work: (tables: Tables) => Promise<T>): Promise<T> => {
    try {
      begin().run()
      return await work(tables)
    } catch (error) {
      // What the work itself throws is its own; only the database's errors are ours to translate.
      throw (error as { errcode?: number }).errcode === undefined ? error : translateError(error, home.state)
    } finally {
      // There is nothing to commit, and on a damaged database committing fails once more.
      if (database.isTransaction) end().run()
    }
  }
  const close = (): Promise<void> => {
    closed ??= (async () => {
      await reading.catch(() => {})
      try {
        await thread.close()
      } finally {
        database.close()
      }
    })()
    return closed
  }
  return {
    write: <Input, Output>(procedure: Procedure<Input, Output>, input: Input) =>
      thread.call(procedure.name, input) as Promise<Output>,
    read(work) {
      if (closed) return Promise.reject(new CraikError('internal', 'the store was closed before this read'))
      const turn = reading.then(
        () => read(work),
        () => read(work),
      )
      reading = turn.catch(() => {})
      return turn
    },
    close,
    [Symbol.asyncDispose]: close,
  }
}

interface Waiting {
  readonly resolve: (value: unknown) => void
  readonly reject: (error: Error) => void
}

/** A long turn hands over what it has so far, so that both threads work at the same time. */
const FLUSH_AT = 32

/** The main thread's end: calls made in one turn of the event loop travel in one message. */
class WriterClient {
  readonly #home: Home
  readonly #module: URL
  readonly #waiting = new Map<number, Waiting>()
  #worker: Worker | undefined
  #outbox: WriterCall[] = []
  #next = 0
  #failure: CraikError | undefined
  #closed:
    | { readonly promise: Promise<void>; readonly resolve: () => void; readonly reject: (e: Error) => void }
    | undefined

  constructor(home: Home, module: URL) {
    this.#home = home
    this.#module = module
  }

  async call(name: string, input: unknown): Promise<unknown> {
    if (this.#closed) throw new CraikError('internal', 'the store was closed before this write')
    if (this.#failure) throw this.#failure
    this.#worker ??= this.#start()
    return new Promise((resolve, reject) => {
      const n = this.#next++
      this.#waiting.set(n, { resolve, reject })
      const waiting = this.#outbox.push({ n, name, input })
      if (waiting === 1) queueMicrotask(() => this.#flush())
      if (waiting === FLUSH_AT) this.#flush()
    })
  }

  async close(): Promise<void> {
    if (this.#closed) return this.#closed.promise
    this.#closed = Promise.withResolvers<void>()
    if (this.#worker === undefined || this.#failure) this.#closed.resolve()
    else {
      this.#flush()
      this.#worker.postMessage({ close: true } satisfies ToWriter)
    }
    return this.#closed.promise
  }

  #flush(): void {
    if (this.#outbox.length === 0) return
    const calls = this.#outbox
    this.#outbox = []
    try {
      this.#worker?.postMessage({ calls } satisfies ToWriter)
    } catch (error) {
      const failure = new CraikError('internal', 'cannot send a write to the writer thread', {
        cause: error,
      })
      for (const call of calls) this.#settle({ n: call.n }, failure)
    }
  }

  #start(): Worker {
    if (!existsSync(this.#module)) throw new CraikError('internal', 'the writer module is missing')
    const worker = new Worker(this.#module, { env: threadEnvironment(), workerData: { home: this.#home } })
    worker.on('message', (message: FromWriter) => {
      if ('failed' in message) this.#fail(revive(message.failed))
      else if (!message.closed) for (const answer of message.answers) this.#settle(answer)
      else if (message.error) this.#closed?.reject(revive(message.error))
      else this.#closed?.resolve()
    })
    worker.on('error', (error) => this.#fail(translateError(error, this.#home.state)))
    worker.on('exit', () => this.#fail(new CraikError('internal', 'the writer thread ended')))
    return worker
  }

  #settle(answer: WriterAnswer, error = answer.error && revive(answer.error)): void {
    const waiting = this.#waiting.get(answer.n)
    this.#waiting.delete(answer.n)
    if (error) waiting?.reject(error)
    else waiting?.resolve(answer.value)
  }

  /** The thread is gone: everything that waits on it is told. */
  #fail(error: CraikError): void {
    this.#failure ??= error
    for (const waiting of this.#waiting.values()) waiting.reject(this.#failure)
    this.#waiting.clear()
    this.#closed?.resolve()
  }
}

/** A thread has a compile cache only when its environment names one; it uses that of its process. */
function threadEnvironment(): NodeJS.ProcessEnv {
  const cache = getCompileCacheDir()
  // Node adds the folder of its own version by itself.
  return cache === undefined ? process.env : { ...process.env, NODE_COMPILE_CACHE: dirname(cache) }
}

function revive(error: NonNullable<WriterAnswer['error']>): CraikError {
  const { code, message, hint, details, cause } = error
  return new CraikError(code, message, {
    hint,
    ...(details && { details }),
    ...(cause && { cause: new Error(cause) }),
  })
}
