/**
 * Direct access to the log of a home: appends to it as a caller of the library does, and edits it as an intruder does.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { systemClock } from '../../src/lib/clock.ts'
import { type Begin, createReceiptLog, type ReceiptLog } from '../../src/receipts/receipt-log.ts'
import type { Receipt, ReceiptDraft } from '../../src/receipts/schema.ts'
import { homeAt } from '../../src/store/home.ts'
import { openSqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import type { Store } from '../../src/store/store.ts'
import { builtMain, type CommandResult, environmentOf, NODE, type TestHome } from '../craik.ts'

/** Has the format of a real token, but is useless. */
export const TOKEN = `ghp_${'a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8'}`

export interface LiveLog extends AsyncDisposable {
  readonly store: Store
  readonly log: ReceiptLog
  /** Returns the sealed receipt, as it is stored. */
  receipt(id: string): Promise<Receipt>
}

export async function openLog(root: string): Promise<LiveLog> {
  const store = await openSqliteStore(homeAt(root), new URL('../../src/writer.ts', import.meta.url))
  return {
    store,
    log: createReceiptLog(store, systemClock),
    async receipt(id) {
      const row = await store.read((tables) => tables.receipts.get(id))
      return JSON.parse(row!.line) as Receipt
    },
    [Symbol.asyncDispose]: () => store.close(),
  }
}

/** Creates the draft of a valid receipt. A test provides the fields that matter to it. */
export function draft(provided: Partial<Omit<ReceiptDraft, 'phase'>> = {}): Omit<ReceiptDraft, 'phase'> {
  return {
    kind: 'sandbox_action',
    status: 'passed',
    operator: 'agent:octo',
    capability: 'shell.execute',
    target: 'fixture-action',
    links: {},
    ...provided,
  }
}

/** Creates the draft of a begin receipt, whose result is not known yet. */
export function beginDraft(provided: Partial<Begin> = {}): Begin {
  const { status: _, ...begin } = draft(provided)
  return begin
}

/** Drops the triggers first, as an intruder can who is able to write to the file. */
export function editDatabase(root: string, sql: string): void {
  using database = new DatabaseSync(homeAt(root).database, { timeout: 10_000 })
  database.exec(
    `DROP TRIGGER IF EXISTS receipts_never_change; DROP TRIGGER IF EXISTS receipts_never_leave; ${sql}`,
  )
}

export interface Started {
  readonly child: ChildProcess
  readonly ended: Promise<CommandResult>
  /** Resolves when stdout contains the text. Rejects when the process ends without it. */
  waitForOutput(text: string): Promise<void>
}

/** Starts `craik …` and leaves it running, for tests that interrupt it. */
export function startInBackground(home: TestHome, args: readonly string[]): Started {
  const child = spawn(NODE, [builtMain(), ...args], {
    cwd: home.folder,
    env: environmentOf(home),
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let [stdout, stderr] = ['', '']
  child.stdout.on('data', (chunk) => {
    stdout += chunk
  })
  child.stderr.on('data', (chunk) => {
    stderr += chunk
  })
  const ended = new Promise<CommandResult>((done, fail) => {
    child.on('error', fail)
    child.on('close', (code) => done({ code, stdout, stderr }))
  })
  const waitFor = async (text: string) => {
    while (!stdout.includes(text)) {
      if (child.exitCode !== null || child.signalCode !== null) throw new Error(`it ended first: ${stderr}`)
      await sleep(20)
    }
  }
  return { child, ended, waitForOutput: waitFor }
}

export async function waitForFile(path: string): Promise<void> {
  while (!existsSync(path)) await sleep(20)
}

/** Returns false if no process has this id, or only a zombie that its parent has not reaped yet. */
export function isAlive(pid: number): boolean {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))
  } catch {
    return false
  }
}
