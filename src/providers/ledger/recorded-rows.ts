/** Compares the rows of the ledger with the state that its receipts give, so that an edited row is detected. */
import { isDeepStrictEqual } from 'node:util'
import type { BudgetRow, HoldRow } from '../../store/ledger-tables.ts'
import type { Tables } from '../../store/store.ts'
import { limitsOfRow } from './budgets-and-quotas.ts'
import type { BalanceFacts } from './evaluate-reservation.ts'
import { balanceFactsOf, type Hold, parseHold } from './hold.ts'
import { keyOf, type RebuiltBook, type RebuiltHold } from './rebuild-ledger.ts'

interface RowDifference {
  /** The budget or the hold of the row. */
  readonly id: string
  readonly detail: string
}

export interface RowCheck {
  /** The number of compared budgets, balances and holds from either side. */
  readonly compared: number
  readonly differ: readonly RowDifference[]
}

/** More differences are not listed, because a hundred already prove that rows were edited. */
const MAX_LISTED = 100

/** `tables` must be the snapshot that the book was rebuilt from, because a row and its receipt are written together. */
export async function compareRows(tables: Tables, book: RebuiltBook): Promise<RowCheck> {
  const differ: RowDifference[] = []
  let compared = 0
  for (const compare of [compareBudgets, compareBalances, compareHolds]) {
    try {
      for (const [id, detail] of await compare(tables, book)) {
        compared++
        if (detail !== undefined && differ.length < MAX_LISTED) differ.push({ id, detail })
      }
    } catch (error) {
      // Node refuses to read an integer that is too large. Craik never writes one.
      if ((error as NodeJS.ErrnoException).code !== 'ERR_OUT_OF_RANGE') throw error
      differ.push({
        id: 'budgets',
        detail: 'the database contains a number that the ledger cannot have written',
      })
    }
  }
  return { compared, differ }
}

type Compared = readonly [id: string, detail: string | undefined]

async function compareBudgets(tables: Tables, { budgets }: RebuiltBook): Promise<Compared[]> {
  const rows = new Map<string, BudgetRow>((await tables.budgets.list()).map((row) => [row.id, row]))
  return unionOfKeys(rows, budgets).map((id) => {
    const [row, known] = [rows.get(id), budgets.get(id)]
    if (known === undefined) return [id, 'the database has this budget, the log does not']
    if (row === undefined) return [id, 'the log has this budget, the database does not']
    const inLog = { id, ...known.limits, removed: known.removed }
    return [id, describeDifference({ ...limitsOfRow(row), removed: row.removedAtMs !== null }, inLog)]
  })
}

/** A window without a row, or without receipts, counts as nothing spent and nothing held. */
async function compareBalances(tables: Tables, { balances }: RebuiltBook): Promise<Compared[]> {
  const stored = (await tables.budgets.balances()).map((row) => balanceFactsOf(row, row))
  const rows = new Map<string, BalanceFacts>(stored.map((row) => [keyOf(row), row]))
  return unionOfKeys(rows, balances).map((key) => {
    const [row, known] = [rows.get(key), balances.get(key)]
    const { budget_id, period, window_start_ms } = (row ?? known)!
    const where = period === 'life' ? '' : ` in the ${period} from ${dateOf(window_start_ms)}`
    const found = describeDifference(amountsOf(row), amountsOf(known))
    return [budget_id, found && `${found}${where}`]
  })
}

function amountsOf(balance: BalanceFacts | undefined) {
  const { spent_nano_usd = 0, held_nano_usd = 0, spent_tokens = 0, held_tokens = 0 } = balance ?? {}
  return { spent_nano_usd, held_nano_usd, spent_tokens, held_tokens }
}

function dateOf(ms: number): string {
  const date = new Date(ms)
  return Number.isNaN(date.getTime()) ? `${ms} ms` : date.toISOString().slice(0, 10)
}

async function compareHolds(tables: Tables, { holds }: RebuiltBook): Promise<Compared[]> {
  const stored = await tables.holds.listCreatedUntil(Number.MAX_SAFE_INTEGER)
  const rows = new Map<string, HoldRow>(stored.map((row) => [row.id, row]))
  return unionOfKeys(rows, holds).map((id) => {
    const [row, known] = [rows.get(id), holds.get(id)]
    const hold = row && readHold(row)
    if (known === undefined)
      return [
        id,
        `the database has this hold${describeBudgetsOf(hold)}; in the log it was never created, or is settled`,
      ]
    if (row === undefined) return [id, 'the log has this open hold, the database does not']
    if (hold === undefined) return [id, 'cannot parse the hold in the database']
    const found = describeDifference(termsOfHold(hold, known), known as unknown as Record<string, unknown>)
    return [id, found && `${found}${describeBudgetsOf(hold)}`]
  })
}

function readHold(row: HoldRow): Hold | undefined {
  try {
    return parseHold(row)
  } catch {
    return undefined
  }
}

/** Returns the fields of a hold that the log contains. After redaction, the log does not contain its terms. */
function termsOfHold(hold: Hold, { terms }: RebuiltHold): Record<string, unknown> {
  const { nanoUsd, tokens, capped, parts, price, billing } = hold
  return {
    nanoUsd,
    tokens,
    capped,
    keys: parts.map(({ budgetId, period, windowStartMs }) =>
      keyOf({ budget_id: budgetId, period, window_start_ms: windowStartMs }),
    ),
    terms: terms && { price, billing },
  }
}

function describeBudgetsOf(hold: Hold | undefined): string {
  return hold && hold.parts.length > 0
    ? ` of ${hold.parts.map(({ budgetId }) => budgetId).join(', ')}`.slice(0, 500)
    : ''
}

function describeDifference(
  row: Record<string, unknown>,
  known: Record<string, unknown>,
): string | undefined {
  const fields = Object.keys(row).filter((field) => !isDeepStrictEqual(row[field], known[field]))
  if (fields.length === 0) return undefined
  const describeFields = (from: Record<string, unknown>) =>
    fields.map((field) => `${toSnakeCase(field)} ${JSON.stringify(from[field] ?? null)}`).join(', ')
  return `the database has ${describeFields(row)}; the log has ${describeFields(known)}`.slice(0, 1000)
}

const toSnakeCase = (field: string) => field.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

function unionOfKeys(rows: ReadonlyMap<string, unknown>, known: ReadonlyMap<string, unknown>): string[] {
  return [...new Set([...rows.keys(), ...known.keys()])].sort()
}
