/** Budgets, their balances, holds and quotas. */
export const ledger = `
`
