/** The embedded store. Reads use their own snapshot, and writes run in the writer thread. */
import { existsSync } from 'node:fs'
import { getCompileCacheDir } from 'node:module'
import { dirname } from 'node:path'
import { Worker } from 'node:worker_threads'
import { CraikError } from '../../errors.ts'
import type { Home } from '../home.ts'
import type { Procedure, Store, Tables } from '../store.ts'
import { openDatabase, translateError } from './database.ts'
import { lazyStatement } from './statement.ts'
import { createTables } from './tables.ts'
import type { FromWriter, ToWriter, WriterAnswer, WriterCall } from './writer-messages.ts'

/** `writer` is the module that the writer thread runs. The composition root chooses it, and with it the procedures. */
export async function openSqliteStore(home: Home, writer: URL): Promise<Store> {
  const database = await openDatabase(home)
  const tables = createTables(database)
  const begin = lazyStatement(database, 'BEGIN')
  const end = lazyStatement(database, 'ROLLBACK')
  const thread = new WriterClient(home, writer)
  let reading: Promise<unknown> = Promise.resolve()
  let closed: Promise<void> | undefined

  const read = async <T>(work: (tables: Tables) => Promise<T>): Promise<T> => {
    try {
      begin().run()
      return await work(tables)
    } catch (error) {
      // An error of `work` itself passes unchanged. Only errors of the database are translated.
      throw (error as { errcode?: number }).errcode === undefined ? error : translateError(error, home.state)
    } finally {
      // A rollback, because there is nothing to commit, and a commit would fail again on a damaged database.
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
      if (closed)
        return Promise.reject(new CraikError('internal', 'the database was closed before this read'))
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

/** After this many calls in one turn, the client sends what it has, so that both threads work at the same time. */
const FLUSH_AT = 32

/** The main thread's side of the writer. Calls in one turn of the event loop share one message. */
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
    if (this.#closed) throw new CraikError('internal', 'the database was closed before this write')
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

  /** The thread has ended, so every waiting call fails. */
  #fail(error: CraikError): void {
    this.#failure ??= error
    for (const waiting of this.#waiting.values()) waiting.reject(this.#failure)
    this.#waiting.clear()
    this.#closed?.resolve()
  }
}

/** A thread has a compile cache only when its environment names one. It gets the cache of its process. */
function threadEnvironment(): NodeJS.ProcessEnv {
  const cache = getCompileCacheDir()
  // Node appends the folder of its own version.
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
