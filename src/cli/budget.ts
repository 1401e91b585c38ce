/**
 * `craik budget`: limits the spending of a provider, session, sandbox or operator, or of all calls, in a period, and
 * shows what was spent.
 */
import { Command, InvalidArgumentError, Option } from 'commander'
import { CraikError } from '../errors.ts'
import type { Json } from '../lib/canonical-json.ts'
import { parseReference } from '../lib/ids.ts'
import type { BudgetFacts } from '../providers/ledger/evaluate-reservation.ts'
import { formatTokens, formatUsd, parseUsd } from '../providers/ledger/money.ts'
import { ledgerCommand } from './budget/ledger.ts'
import type { CliContext, NounBuilder } from './context.ts'
import { type Column, formatOption, printNote, printRecord, printRows, resolveFormat } from './output.ts'

export const budgetCommand: NounBuilder = (context) =>
  new Command('budget')
    .addCommand(setCommand(context))
    .addCommand(showCommand(context))
    .addCommand(ledgerCommand(context))
    .addCommand(removeCommand(context))

interface SetOptions {
  readonly provider?: string
  readonly session?: string
  readonly sandbox?: string
  readonly operator?: string
  readonly total?: boolean
  readonly limit?: string
  readonly tokens?: number
  readonly per: string
  readonly allowUnpriced?: boolean
  readonly id?: string
  readonly format?: string
}

function setCommand(context: CliContext): Command {
  return new Command('set')
    .description('set a budget; setting it again replaces its limits and keeps the spending')
    .option('--provider <id>', 'for calls to this provider')
    .option('--session <id>', 'for calls of this session')
    .option('--sandbox <id>', 'for calls from this sandbox, by id or name')
    .option('--operator <subject>', 'for calls in the name of this user, as craik whoami shows it')
    .option('--total', 'for all calls')
    .option('--limit <amount>', 'limit in dollars, such as 2usd or 0.50usd')
    .addOption(
      new Option('--tokens <n>', 'limit in tokens, input and output together').argParser(wholeNumber),
    )
    .addOption(
      new Option(
        '--per <period>',
        'when spending starts again at 0, in UTC; weeks start on Monday; life: never',
      )
        .choices(['day', 'week', 'month', 'life'])
        .default('life'),
    )
    .option('--allow-unpriced', 'with --limit, allow calls to models whose price is unknown')
    .option('--id <id>', 'id of the budget; only for a second budget with the same scope')
    .addOption(formatOption())
    .addHelpText('after', SET_EXAMPLES)
    .action(async (options: SetOptions) => {
      const { setBudget } = await import('../providers/ledger/budgets-and-quotas.ts')
      const terms = await termsOf(context, options)
      const { row, replaced, receipt } = await setBudget(
        await context.store(),
        terms,
        await context.operator(),
      )
      const record = { id: row.id, ...terms, replaced, receipt_id: receipt.id }
      printRecord(
        context,
        options,
        record,
        () =>
          `  ${replaced ? 'replaced' : 'set     '} ${row.id}\n  limit    ${limitsOf(terms)}${per(terms.period)} for ${scopeOf(terms, options.sandbox)}\n  receipt  ${receipt.id}\n`,
      )
      await warnOfSession(context, terms)
    })
}

const SET_EXAMPLES = `
Name one scope (--provider, --session, --sandbox, --operator or --total) and a
limit (--limit, --tokens or both).

Before a call, Craik reserves its highest possible cost in every budget that
applies. If that does not fit, Craik lowers the call's output limit. If even the
input with a short answer does not fit, Craik refuses the call.

Calls of a subscription (Claude Code, Codex, Kimi Code) have no price: --limit
neither counts nor blocks them. Limit them with --tokens. That blocks all calls
with a ChatGPT login, which cannot have an output limit: limit their number with
craik quota set.

Examples:
  craik budget set --provider provider_openai --limit 2usd --per day
  craik budget set --total --limit 50usd --tokens 20000000 --per month
`

async function termsOf(context: CliContext, options: SetOptions) {
  const scope = await resolveSandboxScope(context, selectScope(options))
  if (options.limit === undefined && options.tokens === undefined) {
    throw new CraikError('usage', 'a budget needs a limit in dollars, tokens or both', {
      hint: 'add --limit 2usd, --tokens 500000, or both',
    })
  }
  const id = options.id ?? (await providerRef(context, scope, 'budget_ref'))
  return {
    ...scope,
    ...(id !== undefined && { id }),
    period: options.per,
    limit_nano_usd: options.limit === undefined ? null : parseUsd(options.limit, '--limit'),
    limit_tokens: options.tokens ?? null,
    allow_unpriced: options.allowUnpriced === true,
  }
}

interface Scope {
  readonly scope_kind: string
  readonly scope_ref: string | null
}

function selectScope(options: SetOptions): Scope {
  const kinds = ['provider', 'session', 'sandbox', 'operator', 'total'] as const
  const [kind, ...more] = kinds.filter((each) => options[each] !== undefined)
  if (kind === undefined || more.length > 0) {
    throw new CraikError('usage', 'a budget needs exactly one scope', {
      hint: 'use --provider ID, --session ID, --sandbox ID, --operator SUBJECT or --total',
    })
  }
  return {
    scope_kind: kind,
    scope_ref: kind === 'total' ? null : parseReference(options[kind]!, `--${kind}`),
  }
}

/**
 * Replaces the name of a sandbox with its id. Fails if the sandbox does not exist, because the budget would limit
 * nothing.
 */
async function resolveSandboxScope(context: CliContext, scope: Scope): Promise<Scope> {
  if (scope.scope_kind !== 'sandbox') return scope
  const { getSandbox } = await import('../sandboxes/lifecycle/read-records.ts')
  const { id } = await getSandbox({ store: await context.store(), home: context.home }, scope.scope_ref!)
  return { ...scope, scope_ref: id }
}

/**
 * Warns if the session does not exist yet. The creator of a session chooses its id, unlike that of a sandbox, so a
 * budget can exist before its session.
 */
export async function warnOfSession(context: CliContext, { scope_kind, scope_ref }: Scope): Promise<void> {
  if (scope_kind !== 'session') return
  const store = await context.store()
  if ((await store.read((tables) => tables.sessions.get(scope_ref!))) !== undefined) return
  printNote(
    context,
    `craik: session ${scope_ref} does not exist yet; the limit applies once it does:  craik session list\n`,
  )
}

/**
 * Returns the limit that the provider's record names. Fails if the provider does not exist, because the limit would
 * apply to nothing.
 */
export async function providerRef(
  context: CliContext,
  { scope_kind, scope_ref }: Scope,
  field: 'budget_ref' | 'quota_ref',
): Promise<string | undefined> {
  if (scope_kind !== 'provider') return undefined
  const { findProvider, loadProviders } = await import('../providers/load-providers.ts')
  return findProvider(await loadProviders(context.home), scope_ref!)[field]
}

function showCommand(context: CliContext): Command {
  return new Command('show')
    .description('show each budget in its current period: limit, spent, held (reserved) and left')
    .argument('[id]', 'only this budget')
    .addOption(formatOption())
    .addHelpText('after', '\nExample:\n  craik budget show\n')
    .action(async (id: string | undefined, options: { readonly format?: string }) => {
      const { listBudgets, missingBudget } = await import('../providers/ledger/budgets-and-quotas.ts')
      const store = await context.store()
      const all = await listBudgets(store, context.clock.nowMs())
      const rows = all.filter(({ budget_id }) => id === undefined || budget_id === id)
      const wanted = id === undefined ? undefined : parseReference<string>(id, 'budget')
      if (wanted !== undefined && rows.length === 0)
        throw await store.read((tables) => missingBudget(tables, wanted))
      if (resolveFormat(context, options) === 'table')
        printRows(context, options, rows.flatMap(linesOf), COLUMNS, () => null)
      else printRows(context, options, rows, [], toJson)
    })
}

/** One line of the table: a budget in one of its units. */
interface Line {
  readonly id: string
  readonly scope: string
  readonly period: string
  readonly limit: string
  readonly spent: string
  readonly held: string
  readonly left: string
}

const COLUMNS: readonly Column<Line>[] = [
  { title: 'budget', value: ({ id }) => id },
  { title: 'for', value: ({ scope }) => scope, canShorten: true, dropOrder: 1 },
  { title: 'per', value: ({ period }) => period, dropOrder: 3 },
  { title: 'limit', value: ({ limit }) => limit },
  { title: 'spent', value: ({ spent }) => spent, dropOrder: 4 },
  { title: 'held', value: ({ held }) => held, dropOrder: 2 },
  { title: 'left', value: ({ left }) => left },
]

/** Returns one line for dollars and one for tokens, so that the amounts of a budget are below each other. */
function linesOf(row: BudgetFacts): Line[] {
  const facts = { id: row.budget_id, scope: scopeOf(row), period: row.period }
  const dollars = row.limit_nano_usd !== null && {
    limit: formatUsd(row.limit_nano_usd),
    spent: formatUsd(row.spent_nano_usd),
    held: formatUsd(row.held_nano_usd),
    left: formatUsd(remainingNanoUsd(row)!),
  }
  const tokens = row.limit_tokens !== null && {
    limit: formatTokens(row.limit_tokens),
    spent: formatCount(row.spent_tokens),
    held: formatCount(row.held_tokens),
    left: formatCount(remainingTokens(row)!),
  }
  const amounts = [dollars, tokens].filter((each) => each !== false)
  return amounts.map((each, at) =>
    at === 0 ? { ...facts, ...each } : { id: '', scope: '', period: '', ...each },
  )
}

const formatCount = (tokens: number) => tokens.toLocaleString('en')

function toJson(row: BudgetFacts): Json {
  const { budget_id: id, ...facts } = row
  return { id, ...facts, left_nano_usd: remainingNanoUsd(row), left_tokens: remainingTokens(row) }
}

/** The result is negative after an overrun, or if the limit was lowered. */
function remainingNanoUsd({ limit_nano_usd, spent_nano_usd, held_nano_usd }: BudgetFacts): number | null {
  return limit_nano_usd === null ? null : limit_nano_usd - spent_nano_usd - held_nano_usd
}

function remainingTokens({ limit_tokens, spent_tokens, held_tokens }: BudgetFacts): number | null {
  return limit_tokens === null ? null : limit_tokens - spent_tokens - held_tokens
}

type Limits = Pick<BudgetFacts, 'limit_nano_usd' | 'limit_tokens'>

function limitsOf({ limit_nano_usd, limit_tokens }: Limits): string {
  const dollars = limit_nano_usd === null ? [] : [formatUsd(limit_nano_usd)]
  const counted = limit_tokens === null ? [] : [formatTokens(limit_tokens)]
  return [...dollars, ...counted].join(', ')
}

/** `name` is the sandbox's name or id as the user typed it. */
function scopeOf({ scope_kind, scope_ref }: Scope, name?: string): string {
  return scope_ref === null
    ? 'everything'
    : scope_kind === 'provider'
      ? scope_ref
      : `${scope_kind} ${name ?? scope_ref}`
}

function per(period: string): string {
  return period === 'life' ? '' : ` per ${period}`
}

function removeCommand(context: CliContext): Command {
  return new Command('remove')
    .description('remove a budget; past spending stays recorded and counts again if you recreate it')
    .argument('<id>', 'id of the budget, as in craik budget show')
    .addOption(formatOption())
    .addHelpText('after', '\nExample:\n  craik budget remove budget_provider_openai\n')
    .action(async (id: string, options: { readonly format?: string }) => {
      const { removeBudgetProcedure } = await import('../providers/ledger/budgets-and-quotas.ts')
      const input = { id: parseReference(id, 'budget'), operator: await context.operator() }
      const { id: receipt } = await (await context.store()).write(removeBudgetProcedure, input)
      printRecord(
        context,
        options,
        { id, removed: true, receipt_id: receipt },
        () => `  removed  ${id}\n  receipt  ${receipt}\n`,
      )
    })
}

export function wholeNumber(text: string): number {
  const value = Number(text.replaceAll('_', ''))
  if (/^\d[\d_]{0,15}$/.test(text) && Number.isSafeInteger(value)) return value
  throw new InvalidArgumentError('expected a whole number.')
}
