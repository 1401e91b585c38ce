/** Reads rules and checks their seals. If one rule does not match its seal, none of the rules in its scope apply. */
import { CraikError } from '../../errors.ts'
import { checkRecord } from '../../receipts/record-seal.ts'
import type { SealedRow } from '../../store/agent-tables.ts'
import type { Home } from '../../store/home.ts'
import type { Store, Tables } from '../../store/store.ts'
import { type EgressRule, egressRule, MAX_RULES } from './rules.ts'

/** Returns whether a record matches the seal that Craik made. */
export type RuleSealCheck = (what: string, document: string, seal: string) => boolean

/** The scope of rules for all of an operator's sandboxes. */
export const ANY_SCOPE = 'any'
const MAX_KNOWN = 4 * MAX_RULES

export interface FoundRules {
  readonly rules: readonly EgressRule[]
  /** The ids of rules that were changed outside Craik, or cannot be read. */
  readonly damaged: readonly string[]
}

export class RuleReader {
  readonly #isSealed: RuleSealCheck
  /** Checked and parsed rules, valid while their rows are unchanged. */
  readonly #known = new Map<string, { readonly row: SealedRow; readonly rule: EgressRule }>()

  constructor(isSealed: RuleSealCheck) {
    this.#isSealed = isSealed
  }

  /** Returns the rules for a sandbox of an operator: its own, and those for all sandboxes. */
  async rulesFor(tables: Tables, operator: string, sandboxId: string | undefined): Promise<FoundRules> {
    const scopes = sandboxId === undefined ? [ANY_SCOPE] : [sandboxId, ANY_SCOPE]
    const rows: SealedRow[] = []
    for (const scope of scopes)
      rows.push(...(await tables.egressRules.list({ operator, scope }, 2 * MAX_RULES)))
    return this.read(rows)
  }

  read(rows: readonly SealedRow[]): FoundRules {
    const rules: EgressRule[] = []
    const damaged: string[] = []
    for (const row of rows) {
      const rule = this.rule(row)
      if (rule === undefined) damaged.push(row.id)
      else rules.push(rule)
    }
    return { rules, damaged }
  }

  rule(row: SealedRow): EgressRule | undefined {
    const known = this.#known.get(row.id)
    if (known !== undefined && known.row.document === row.document && known.row.seal === row.seal)
      return known.rule
    const rule = this.#parse(row)
    if (rule === undefined) return undefined
    if (this.#known.size >= MAX_KNOWN) this.#known.clear()
    this.#known.set(row.id, { row, rule })
    return rule
  }

  #parse({ id, document, seal }: SealedRow): EgressRule | undefined {
    try {
      if (!this.#isSealed(sealOfRule(id), document, seal)) return undefined
      const rule = egressRule.parse(JSON.parse(document))
      return rule.id === id ? rule : undefined
    } catch {
      return undefined
    }
  }
}

export function sealOfRule(id: string): string {
  return `egress_rule:${id}`
}

/** Creates a reader with the keys of a home, for use outside a transaction. */
export function homeReader(home: Home): RuleReader {
  return new RuleReader((what, document, seal) => checkRecord(home, what, document, seal) === 'verified')
}

/** Returns rules, newest first: those of one sandbox with those for all, or all rules. */
export async function listRules(
  store: Store,
  home: Home,
  filter: { readonly operator?: string; readonly sandboxId?: string } = {},
): Promise<FoundRules> {
  const reader = homeReader(home)
  const { operator, sandboxId } = filter
  return store.read(async (tables) =>
    operator === undefined
      ? reader.read(await tables.egressRules.list({}, 10 * MAX_RULES))
      : reader.rulesFor(tables, operator, sandboxId),
  )
}

export function unknownRule(id: string): CraikError {
  return new CraikError('not_found', `unknown egress rule: ${id}`, {
    hint: 'list egress rules:  craik egress list',
  })
}
