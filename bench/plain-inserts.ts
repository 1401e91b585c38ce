/** The other side of the receipts bench: the same rows in plain SQLite, directly or behind a thread of their own. */
import { DatabaseSync } from 'node:sqlite'
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'
import { newId } from '../src/lib/ids.ts'

/** About as long as the line of the sampled receipt. */
const LINE = JSON.stringify({ line: 'x'.repeat(1_200) })

/** A row of the same size and the same unique index: no redaction, schema, hash, HMAC or tree. */
export function plainInserts(path: string): () => void {
  const database = new DatabaseSync(path)
  database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL')
  database.exec(
    'CREATE TABLE receipts (seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, line TEXT NOT NULL) STRICT',
  )
  const insert = database.prepare('INSERT INTO receipts (id, line) VALUES (?, ?)')
  return () => void insert.run(newId('rcpt', Date.now()), LINE)
}

/** The same, asked for by message and answered by message, as the log does it. */
export class PlainThread implements AsyncDisposable {
  readonly #worker: Worker
  #answered = () => {}

  constructor(path: string) {
    this.#worker = new Worker(new URL(import.meta.url), { workerData: { path } })
    this.#worker.on('message', () => this.#answered())
  }

  insert(): Promise<void> {
    return new Promise((done) => {
      this.#answered = done
      this.#worker.postMessage(LINE)
    })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#worker.terminate()
  }
}

if (!isMainThread) {
  const insert = plainInserts((workerData as { path: string }).path)
  parentPort!.on('message', () => {
    insert()
    parentPort!.postMessage('done')
  })
}
