/**
 * Holds the database's write lock: `node lock-holder.ts <database> <milliseconds>` prints `held`, then releases the
 * lock.
 */
import { writeSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'

const [path, milliseconds] = process.argv.slice(2) as [string, string]
using database = new DatabaseSync(path, { timeout: 10_000 })
database.exec('BEGIN IMMEDIATE')
writeSync(1, 'held\n')
await sleep(Number(milliseconds))
database.exec('COMMIT')
