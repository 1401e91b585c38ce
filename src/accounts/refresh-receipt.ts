/** The receipt of a refresh: the login and the outcome. */
import type { ReceiptLog } from '../receipts/receipt-log.ts'
import type { ReceiptStatus } from '../receipts/schema.ts'
import type { RefreshOutcome } from './refresh/transaction.ts'

const STATUS: Record<RefreshOutcome['outcome'], ReceiptStatus> = {
  refreshed: 'passed',
  adopted: 'passed',
  ended: 'failed',
  absent: 'skipped',
  failed: 'failed',
}

/** The refresh is recorded before the issuer is called. If recording fails, the issuer is not called. */
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

/** Receipts store no free text, so a reason becomes a word with underscores. */
function wordOf(reason: string): string {
  return reason
    .replace(/[^A-Za-z0-9]+/g, '_')
    .replace(/^_|_$/g, '')
    .slice(0, 200)
}
