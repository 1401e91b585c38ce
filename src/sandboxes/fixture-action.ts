/** The one command that fixture runs execute. It is harmless and exists on every host with a C library. */
import { parseReference } from '../lib/ids.ts'
import type { Store } from '../store/store.ts'
import { ensureFixtureActionProcedure } from './tokens.ts'

export const FIXTURE_ACTION = { ref: 'fixture-action', argv: ['uname', '-s'] } as const

/**
 * Registers the command, with a receipt, unless it is registered already. Another command of this name is a conflict.
 * It is never replaced.
 */
export async function ensureFixtureAction(store: Store, operator: string): Promise<void> {
  await store.write(ensureFixtureActionProcedure, { operator: parseReference<string>(operator, 'operator') })
}
