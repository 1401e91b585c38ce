/** What the store keeps about ways out of sandboxes. */
import type { SealedTable } from './agent-tables.ts'

/** The scope is a sandbox's id, or `any` for all of an operator's. */
export type EgressRuleTable = SealedTable<'operator' | 'scope'>
