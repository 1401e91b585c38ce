/** The one command that the fixture path runs: harmless, and there on every machine with a C library. */
import { parseReference } from '../lib/ids.ts'
import type { Store } from '../store/store.ts'
import { ensureFixtureActionProcedure } from './tokens.ts'

export const FIXTURE_ACTION = { ref: 'fixture-action', argv: ['uname', '-s'] } as const

/** Registers it, with a receipt, unless it is there. Another command of that name is a conflict, never replaced. */
export async function ensureFixtureAction(store: Store, operator: string): Promise<void> {
  await store.write(ensureFixtureActionProcedure, { operator: parseReference<string>(operator, 'operator') })
}
