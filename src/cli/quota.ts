/** `craik quota`: limits requests and tokens per minute, and calls at the same time. */
import { Command, Option } from 'commander'
import { CraikError } from '../errors.ts'
import type { Json } from '../lib/canonical-json.ts'
import { parseReference } from '../lib/ids.ts'
import type { QuotaFacts } from '../providers/ledger/evaluate-reservation.ts'
import { providerRef, warnOfSession, wholeNumber } from './budget.ts'
import type { CliContext, NounBuilder } from './context.ts'
import { type Column, formatOption, printRecord, printRows } from './output.ts'

export const quotaCommand: NounBuilder = (context) =>
  new Command('quota')
    .addCommand(setCommand(context))
    .addCommand(showCommand(context))
    .addCommand(removeCommand(context))

interface SetOptions {
  readonly provider?: string
  readonly session?: string
  readonly requestsPerMinute?: number
  readonly tokensPerMinute?: number
  readonly concurrent?: number
  readonly id?: string
  readonly format?: string
}

function setCommand(context: CliContext): Command {
  const count = (flags: string, description: string) => new Option(flags, description).argParser(wholeNumber)
  return new Command('set')
    .description('set a quota; all processes that use this Craik home share it')
    .option('--provider <id>', 'for calls to this provider')
    .option('--session <id>', 'for calls of this session')
    .addOption(count('--requests-per-minute <n>', 'maximum requests in 60 seconds'))
    .addOption(
      count(
        '--tokens-per-minute <n>',
        'maximum tokens in 60 seconds; a running call counts as its input plus the most that it may output',
      ),
    )
    .addOption(count('--concurrent <n>', 'maximum calls at the same time'))
    .option('--id <id>', 'id of the quota; only for a second quota with the same scope')
    .addOption(formatOption())
    .addHelpText(
      'after',
      '\nA call that does not fit is refused, and can be tried again later.\n\nExample:\n  craik quota set --provider provider_openai --requests-per-minute 60\n',
    )
    .action(async (options: SetOptions) => {
      const { setQuota } = await import('../providers/ledger/budgets-and-quotas.ts')
      const terms = await termsOf(context, options)
      const { row, replaced, receipt } = await setQuota(
        await context.store(),
        terms,
        await context.operator(),
      )
      printRecord(
        context,
        options,
        { id: row.id, ...terms, replaced, receipt_id: receipt.id },
        () => `  ${replaced ? 'replaced' : 'set     '} ${row.id}\n  receipt  ${receipt.id}\n`,
      )
      await warnOfSession(context, terms)
    })
}

async function termsOf(context: CliContext, options: SetOptions) {
  const { provider, session, requestsPerMinute, tokensPerMinute, concurrent } = options
  if ((provider === undefined) === (session === undefined)) {
    throw new CraikError('usage', 'a quota needs exactly one scope', {
      hint: 'use --provider ID or --session ID',
    })
  }
  if ([requestsPerMinute, tokensPerMinute, concurrent].every((limit) => limit === undefined)) {
    throw new CraikError('usage', 'a quota needs at least one limit', {
      hint: 'add --requests-per-minute N, --tokens-per-minute N, --concurrent N, or several',
    })
  }
  const scope = {
    scope_kind: provider === undefined ? 'session' : 'provider',
    scope_ref: parseReference<string>(
      (provider ?? session)!,
      provider === undefined ? '--session' : '--provider',
    ),
  }
  const id = options.id ?? (await providerRef(context, scope, 'quota_ref'))
  return {
    ...scope,
    ...(id !== undefined && { id }),
    requests_per_minute: requestsPerMinute ?? null,
    tokens_per_minute: tokensPerMinute ?? null,
    concurrent: concurrent ?? null,
  }
}

function showCommand(context: CliContext): Command {
  return new Command('show')
    .description('show each quota and its use in the last minute')
    .argument('[id]', 'only this quota')
    .addOption(formatOption())
    .addHelpText('after', '\nExample:\n  craik quota show\n')
    .action(async (id: string | undefined, options: { readonly format?: string }) => {
      const { listQuotas, unknownLimit } = await import('../providers/ledger/budgets-and-quotas.ts')
      const all = await listQuotas(await context.store(), context.clock.nowMs())
      const rows = all.filter((quota) => id === undefined || quota.id === id)
      if (id !== undefined && rows.length === 0) throw unknownLimit('quota', parseReference(id, 'quota'))
      printRows(context, options, rows, COLUMNS, (row) => ({ ...row }) as Json)
    })
}

const COLUMNS: readonly Column<QuotaFacts>[] = [
  { title: 'quota', value: (row) => row.id },
  {
    title: 'for',
    value: (row) => (row.scope_kind === 'provider' ? '' : 'session ') + row.scope_ref,
    canShorten: true,
    dropOrder: 1,
  },
  { title: 'requests/min', value: (row) => used(row.requests, row.requests_per_minute) },
  { title: 'tokens/min', value: (row) => used(row.tokens, row.tokens_per_minute) },
  { title: 'at once', value: (row) => used(row.running, row.concurrent), dropOrder: 2 },
]

function used(count: number, limit: number | null): string {
  return limit === null ? '–' : `${count.toLocaleString('en')} of ${limit.toLocaleString('en')}`
}

function removeCommand(context: CliContext): Command {
  return new Command('remove')
    .description('remove a quota')
    .argument('<id>', 'id of the quota, as in craik quota show')
    .addOption(formatOption())
    .addHelpText('after', '\nExample:\n  craik quota remove quota_provider_openai\n')
    .action(async (id: string, options: { readonly format?: string }) => {
      const { removeQuotaProcedure } = await import('../providers/ledger/budgets-and-quotas.ts')
      const input = { id: parseReference<string>(id, 'quota'), operator: await context.operator() }
      const { id: receipt } = await (await context.store()).write(removeQuotaProcedure, input)
      printRecord(
        context,
        options,
        { id, removed: true, receipt_id: receipt },
        () => `  removed  ${id}\n  receipt  ${receipt}\n`,
      )
    })
}
