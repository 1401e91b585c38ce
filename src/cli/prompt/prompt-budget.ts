/** Limits what models may cost in a sandbox. The budget has no period, so later spending of the sandbox counts too. */
import { setBudget } from '../../providers/ledger/budgets-and-quotas.ts'
import { parseUsd } from '../../providers/ledger/money.ts'
import type { CliContext } from '../context.ts'

export function parseBudget(amount: string | undefined): number | undefined {
  return amount === undefined ? undefined : parseUsd(amount, '--budget')
}

export async function limitSandbox(context: CliContext, sandboxId: string, nanoUsd: number): Promise<void> {
  const terms = {
    scope_kind: 'sandbox',
    scope_ref: sandboxId,
    period: 'life',
    limit_tokens: null,
    limit_nano_usd: nanoUsd,
    allow_unpriced: false,
  }
  await setBudget(await context.store(), terms, await context.operator())
}
