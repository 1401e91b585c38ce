/** Reads the records of sandboxes outside a transaction. A record whose seal is not valid is refused. */
import { CraikError } from '../../errors.ts'
import type { SandboxId } from '../../lib/ids.ts'
import { checkRecord } from '../../receipts/record-seal.ts'
import type { SealedRow } from '../../store/agent-tables.ts'
import type { Home } from '../../store/home.ts'
import type { Store } from '../../store/store.ts'
import {
  damagedSandboxError,
  MAX_SANDBOXES,
  parseSandbox,
  type SandboxRecord,
  unknownSandbox,
} from './sandbox-record.ts'

/** The longest name that a sandbox can have. */
const MAX_NAME = 64

export interface ReadDeps {
  readonly store: Store
  readonly home: Home
}

/** A row of a list. A record that was changed or cannot be read does not hide the others. */
export type ListedSandbox =
  | { readonly id: string; readonly record: SandboxRecord }
  | {
      readonly id: SandboxId
      readonly record: undefined
      /** The name in the record. Another program may have written it. */
      readonly name: string
      readonly problem: string
    }

/** Returns the newest sandbox first. */
export async function listSandboxes({ store, home }: ReadDeps): Promise<readonly ListedSandbox[]> {
  const rows = await store.read((tables) => tables.sandboxes.list({}, 2 * MAX_SANDBOXES))
  return rows.map((row) => {
    try {
      return { id: row.id, record: readVerified(home, row) }
    } catch (error) {
      if (!(error instanceof CraikError)) throw error
      return {
        id: row.id as SandboxId,
        record: undefined,
        name: nameIn(row.document) ?? row.id,
        problem: error.message,
      }
    }
  })
}

export async function getSandbox({ store, home }: ReadDeps, idOrName: string): Promise<SandboxRecord> {
  const row = await store.read(
    async ({ sandboxes }) =>
      (await sandboxes.get(idOrName)) ?? (await sandboxes.list({ name: idOrName }, 1)).at(0),
  )
  if (row === undefined) throw unknownSandbox(idOrName)
  return readVerified(home, row)
}

function readVerified(home: Home, { id, document, seal }: SealedRow): SandboxRecord {
  const status = checkRecord(home, `sandbox:${id}`, document, seal)
  if (status === 'verified') return parseSandbox(document)
  const why =
    status === 'tampered'
      ? 'was changed outside Craik'
      : 'cannot be verified: the key that sealed it is missing'
  throw damagedSandboxError(id, why)
}

function nameIn(document: string): string | undefined {
  try {
    const { name } = JSON.parse(document) as { readonly name?: unknown }
    return typeof name === 'string' ? name.slice(0, MAX_NAME) : undefined
  } catch {
    return undefined
  }
}
