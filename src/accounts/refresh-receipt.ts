/** What a receipt says of a refresh: whose login, and how it came out. */
import type { ReceiptLog } from '../receipts/log.ts'
import type { ReceiptStatus } from '../receipts/schema.ts'
import type { RefreshOutcome } from './refresh/transaction.ts'

const STATUS: Record<RefreshOutcome['outcome'], ReceiptStatus> = {
  refreshed: 'passed',
  adopted: 'passed',
  ended: 'failed',
  absent: 'skipped',
  failed: 'failed',
}

/** On record before the issuer is asked; if that fails, it is not asked. */
export async function recordRefresh(
  log: ReceiptLog | undefined,
  operator: string,
  accountId: string,
  refresh: () => Promise<RefreshOutcome>,
): Promise<RefreshOutcome> {
  const receipt = await log?.begin({
    kind: 'login',
    operator,
    capability: 'login.use',
    operation: 'refresh',
    target: `account/${accountId}`,
    links: {},
  })
  try {
    const result = await refresh()
    await receipt?.end({
      status: STATUS[result.outcome],
      metadata: {
        outcome: result.outcome,
        ...(result.outcome === 'failed' && { reason: wordOf(result.reason) }),
      },
    })
    return result
  } catch (error) {
    await receipt?.end({ status: 'failed' })
    throw error
  }
}

/** Receipts keep no free text: our own words for it as one. */
function wordOf(reason: string): string {
  return reason
    .replace(/[^A-Za-z0-9]+/g, '_')
    .replace(/^_|_$/g, '')
    .slice(0, 200)
}
