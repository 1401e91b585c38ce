/** `budget ledger`: lists what was held, booked and denied. The receipts are the only ledger, so it reads them. */
import { Command, InvalidArgumentError } from 'commander'
import type { Json } from '../../lib/canonical-json.ts'
import { parseReference } from '../../lib/ids.ts'
import { formatTokens, formatUsd } from '../../providers/ledger/money.ts'
import type { Receipt } from '../../receipts/schema.ts'
import type { ReceiptRow, Tables } from '../../store/store.ts'
import type { CliContext } from '../context.ts'
import { type Column, formatOption, printRows } from '../output.ts'

const DEFAULT_LIMIT = 50
const PAGE = 500

interface LedgerOptions {
  readonly budget?: string
  readonly limit: number
  readonly format?: string
}

export function ledgerCommand(context: CliContext): Command {
  return new Command('ledger')
    .description('list what calls reserved and cost, newest first, from the receipts')
    .option('--budget <id>', 'only entries of this budget')
    .option('--limit <n>', 'print at most this many entries', positive, DEFAULT_LIMIT)
    .addOption(formatOption())
    .addHelpText('after', '\nExample:\n  craik budget ledger --budget budget_provider_openai --limit 20\n')
    .action(async (options: LedgerOptions) => {
      const id = options.budget === undefined ? undefined : parseReference<string>(options.budget, '--budget')
      const store = await context.store()
      const rows = await store.read((tables) => entries(tables, id, options.limit))
      if (id !== undefined && rows.length === 0) {
        const { unknownLimit } = await import('../../providers/ledger/budgets-and-quotas.ts')
        throw unknownLimit('budget', id)
      }
      printRows(context, options, rows, COLUMNS, toJson)
    })
}

interface Line {
  readonly seq: number
  readonly at: string
  readonly receiptId: string
  /** The operation, such as `set`, `reserve`, `settle`, `release` or `indeterminate`, or `denied`. */
  readonly entry: string
  readonly provider: string | null
  readonly session: string | null
  readonly nanoUsd: number | null
  readonly tokens: number | null
  /** Facts such as the rule that denied, the source of the counts, or that the usage exceeded the hold. */
  readonly note: string
  readonly body: Receipt['body']
}

async function entries(tables: Tables, budget: string | undefined, limit: number): Promise<Line[]> {
  const found: Line[] = []
  let before: number | undefined
  for (;;) {
    const rows = await tables.receipts.find({ kind: 'budget' }, PAGE, before)
    for (const row of rows) {
      const line = lineOf(row)
      if (budget === undefined || touches(line.body, budget)) found.push(line)
      if (found.length === limit) return found
    }
    if (rows.length < PAGE) return found
    before = rows.at(-1)!.seq
  }
}

function touches({ target, metadata = {}, decision }: Receipt['body'], budget: string): boolean {
  const input = decision?.input as
    | { readonly budgets?: readonly { readonly budget_id: string }[] }
    | undefined
  const parts = [...listOf(metadata.balances), ...(input?.budgets ?? [])]
  return target === budget || metadata.subject === budget || parts.some((part) => part.budget_id === budget)
}

function listOf(value: unknown): readonly { readonly budget_id: string }[] {
  return Array.isArray(value) ? value : []
}

function lineOf(row: ReceiptRow): Line {
  const { body } = JSON.parse(row.line) as Receipt
  const { operation = '', status, metadata = {}, links, decision } = body
  const denied = status === 'denied'
  const notes = [
    denied && decision?.rule,
    metadata.usage_source,
    metadata.overrun === true && 'overrun',
    metadata.lowered === true && `cap ${metadata.max_output_tokens}`,
    body.capability === 'budget.write' && body.target,
  ]
  return {
    seq: row.seq,
    at: new Date(row.atMs).toISOString(),
    receiptId: row.id,
    entry: denied ? 'denied' : operation,
    provider: links.provider_id ?? null,
    session: links.session_id ?? null,
    nanoUsd: numberOf(metadata.nano_usd),
    tokens: numberOf(metadata.tokens),
    note: notes.filter((note) => typeof note === 'string').join(', '),
    body,
  }
}

function numberOf(value: unknown): number | null {
  return typeof value === 'number' ? value : null
}

const COLUMNS: readonly Column<Line>[] = [
  { title: '#', value: ({ seq }) => String(seq) },
  { title: 'time (UTC)', value: ({ at }) => at.slice(0, 19).replace('T', ' '), dropOrder: 5 },
  { title: 'entry', value: ({ entry }) => entry },
  { title: 'provider', value: ({ provider }) => provider ?? '–', dropOrder: 4 },
  { title: 'session', value: ({ session }) => session ?? '–', dropOrder: 2 },
  { title: 'amount', value: ({ nanoUsd }) => (nanoUsd === null ? '–' : formatUsd(nanoUsd)) },
  { title: 'tokens', value: ({ tokens }) => (tokens === null ? '–' : formatTokens(tokens)), dropOrder: 3 },
  { title: 'note', value: ({ note }) => note, canShorten: true },
  // The number identifies a receipt too.
  { title: 'receipt', value: ({ receiptId }) => receiptId, dropOrder: 1 },
]

function toJson({ seq, at, receiptId, entry, provider, session, nanoUsd, tokens, note, body }: Line): Json {
  return {
    seq,
    at,
    receipt_id: receiptId,
    entry,
    provider_id: provider,
    session_id: session,
    nano_usd: nanoUsd,
    tokens,
    note,
    status: body.status,
    metadata: body.metadata as Json,
  }
}

function positive(text: string): number {
  if (/^[1-9]\d{0,5}$/.test(text)) return Number(text)
  throw new InvalidArgumentError('expected a whole number of at least 1.')
}
