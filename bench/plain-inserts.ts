/** The reference for the receipts bench: the same rows in plain SQLite, directly or through a thread. */
import { DatabaseSync } from 'node:sqlite'
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'
import { newId } from '../src/lib/ids.ts'

/** About as long as the line of the sample receipt. */
const LINE = JSON.stringify({ line: 'x'.repeat(1_200) })

/**
 * Returns a function that inserts a row of the same size with the same unique index, but without redaction, schema,
 * hash, HMAC and tree.
 */
export function plainInserts(path: string): () => void {
  const database = new DatabaseSync(path)
  database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL')
  database.exec(
    'CREATE TABLE receipts (seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, line TEXT NOT NULL) STRICT',
  )
  const insert = database.prepare('INSERT INTO receipts (id, line) VALUES (?, ?)')
  return () => void insert.run(newId('rcpt', Date.now()), LINE)
}

/** The same insert through a thread, with a message for the request and one for the answer, as in the receipt log. */
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
