/** The table of egress rules for sandboxes. */
import type { SealedTable } from './agent-tables.ts'

/** The scope is a sandbox's id, or `any` for all sandboxes of an operator. */
export type EgressRuleTable = SealedTable<'operator' | 'scope'>
