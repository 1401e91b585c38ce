/** `craik grant`: creates, lists, shows and revokes grants. */
import { Command, InvalidArgumentError, Option } from 'commander'
import { CraikError } from '../errors.ts'
import type { Json } from '../lib/canonical-json.ts'
import { formatDuration, parseDuration } from '../lib/duration.ts'
import { parseReference } from '../lib/ids.ts'
import { CAPABILITIES, isCapability } from '../policy/capabilities.ts'
import type { Grant } from '../policy/grant.ts'
import { createGrant, type GrantStatus, getGrant, listGrants, revokeGrant } from '../policy/grants.ts'
import type { CliContext, NounBuilder } from './context.ts'
import { formatOption, printable, printRecord, printRows } from './output.ts'

export const grantCommand: NounBuilder = (context) =>
  new Command('grant')
    .description('grant a capability that policy does not allow by default')
    .addCommand(createCommand(context))
    .addCommand(listCommand(context))
    .addCommand(showCommand(context))
    .addCommand(revokeCommand(context))

interface CreateOptions {
  readonly capability: string
  readonly subject?: string
  readonly operation: string[]
  readonly target?: string
  readonly repo?: string
  readonly path?: string[]
  readonly exclude?: string[]
  readonly taskId?: string
  readonly sessionId?: string
  readonly runId?: string
  readonly sandboxId?: string
  readonly anyScope?: boolean
  readonly uses: number
  readonly unlimitedUses?: boolean
  readonly expires: string
  readonly reason?: string
  readonly format?: string
}

const CREATE_HELP = `
A grant allows requests that the policy denies without one. craik policy show
lists the capabilities that need a grant. Name where the grant applies:
--task-id, --session-id, --run-id, --sandbox-id or --any-scope.

Example:
  craik grant create --capability shell.test --operation run \\
    --target unit-tests --task-id fix-parser
`

function createCommand(context: CliContext): Command {
  return new Command('create')
    .description('create a grant')
    .requiredOption('--capability <name>', 'capability to grant, such as shell.test')
    .option('--subject <subject>', 'user who may use the grant, such as operator:ada (default: you)')
    .requiredOption('--operation <name...>', 'operations to allow, such as run')
    .option('--target <ref>', 'only on this target')
    .option(
      '--repo <ref>',
      'only in this repository; without it, the grant does not cover requests that name a repository',
    )
    .option(
      '--path <pattern...>',
      'only for these paths, with * and **; without it, the grant does not cover requests that name a path',
    )
    .option('--exclude <pattern...>', 'paths that --path matches, but that are not allowed')
    .option('--task-id <id>', 'only in this task')
    .option('--session-id <id>', 'only in this session')
    .option('--run-id <id>', 'only in this run')
    .option('--sandbox-id <id>', 'only in this sandbox')
    .addOption(
      new Option('--any-scope', 'in any task, session, run or sandbox').conflicts([
        'taskId',
        'sessionId',
        'runId',
        'sandboxId',
      ]),
    )
    .addOption(new Option('--uses <n>', 'number of uses').argParser(parseCount).default(1))
    .option('--unlimited-uses', 'any number of uses until it expires')
    .option('--expires <duration>', 'lifetime of the grant', '8h')
    .option('--reason <text>', 'reason, which Craik records with secrets masked; at most 500 characters')
    .addOption(formatOption())
    .addHelpText('after', CREATE_HELP)
    .action(async (options: CreateOptions, command: Command) => {
      if (options.unlimitedUses && command.getOptionValueSource('uses') === 'cli') {
        throw new CraikError('usage', '--uses cannot be combined with --unlimited-uses', {
          hint: 'omit one of the two options',
        })
      }
      const nowMs = context.clock.nowMs()
      const store = await context.store()
      const { grant, receipt } = await createGrant(store, termsOf(await context.operator(), options), {
        expiresAtMs: nowMs + parseDuration(options.expires, '--expires'),
      })
      const status: GrantStatus = { grant, usesLeft: grant.max_uses, state: 'usable' }
      printRecord(context, options, { ...toJson(status), receipt_id: receipt.id }, () =>
        describe(status, nowMs, receipt.id),
      )
    })
}

function termsOf(operator: string, options: CreateOptions): Parameters<typeof createGrant>[1] {
  const { capability, target: ref, repo, path: paths, exclude, reason } = options
  if (!isCapability(capability)) {
    throw new CraikError('usage', `unknown capability ${JSON.stringify(capability.slice(0, 60))}`, {
      hint: `use one of: ${Object.keys(CAPABILITIES).join(', ')}`,
    })
  }
  const scope = {
    task_id: options.taskId,
    session_id: options.sessionId,
    run_id: options.runId,
    sandbox_id: options.sandboxId,
  }
  if (!options.anyScope && Object.values(scope).every((id) => id === undefined)) {
    throw new CraikError(
      'usage',
      'a grant needs a scope: --task-id, --session-id, --run-id or --sandbox-id',
      {
        hint: 'use --any-scope to grant the capability in any task, session, run or sandbox',
      },
    )
  }
  return {
    capability,
    subject: options.subject ?? operator,
    scope: options.anyScope ? 'any' : scope,
    target: { ref, repo, paths, exclude },
    operations: options.operation,
    max_uses: options.unlimitedUses ? null : options.uses,
    reason,
    approved_by: operator,
  }
}

function listCommand(context: CliContext): Command {
  return new Command('list')
    .description('list grants, newest first')
    .addOption(formatOption())
    .addHelpText('after', '\nExample:\n  craik grant list --format json\n')
    .action(async (options: { readonly format?: string }) => {
      const nowMs = context.clock.nowMs()
      const columns = [
        { title: 'id', value: ({ grant }: GrantStatus) => grant.id },
        { title: 'capability', value: ({ grant }: GrantStatus) => grant.capability },
        { title: 'subject', value: ({ grant }: GrantStatus) => grant.subject, dropOrder: 1 },
        {
          title: 'uses left',
          value: ({ usesLeft }: GrantStatus) => (usesLeft === null ? 'unlimited' : String(usesLeft)),
          dropOrder: 2,
        },
        { title: 'expires', value: ({ grant }: GrantStatus) => expiry(grant, nowMs), dropOrder: 3 },
        { title: 'state', value: ({ state }: GrantStatus) => state.replace('_', ' ') },
      ]
      printRows(context, options, await listGrants(await context.store(), nowMs), columns, toJson)
    })
}

function showCommand(context: CliContext): Command {
  return new Command('show')
    .description('show a grant: what it allows, and how many uses are left')
    .argument('<id>', 'id of the grant')
    .addOption(formatOption())
    .addHelpText('after', '\nExample:\n  craik grant show grant_01JCQ3V8Z0W4N5T6R7Y8K9M2PD\n')
    .action(async (id: string, options: { readonly format?: string }) => {
      const nowMs = context.clock.nowMs()
      const status = await getGrant(await context.store(), parseReference(id, 'grant'), nowMs)
      printRecord(context, options, toJson(status), () => describe(status, nowMs))
    })
}

function revokeCommand(context: CliContext): Command {
  return new Command('revoke')
    .description('revoke a grant; its earlier uses stay in the receipts')
    .argument('<id>', 'id of the grant')
    .addOption(formatOption())
    .addHelpText('after', '\nExample:\n  craik grant revoke grant_01JCQ3V8Z0W4N5T6R7Y8K9M2PD\n')
    .action(async (id: string, options: { readonly format?: string }) => {
      const store = await context.store()
      const { receipt } = await revokeGrant(store, parseReference(id, 'grant'), await context.operator())
      const status = await getGrant(store, id, context.clock.nowMs())
      printRecord(
        context,
        options,
        { ...toJson(status), receipt_id: receipt.id },
        () => `  revoked  ${id}\n  receipt  ${receipt.id}\n`,
      )
    })
}

function toJson({ grant, usesLeft, state }: GrantStatus): { readonly [key: string]: Json | undefined } {
  return { ...(JSON.parse(JSON.stringify(grant)) as Record<string, Json>), uses_left: usesLeft, state }
}

function describe({ grant, usesLeft, state }: GrantStatus, nowMs: number, receiptId?: string): string {
  const { target, scope } = grant
  const lines: [string, string | undefined][] = [
    ['capability', `${grant.capability} (${grant.operations.join(', ')})`],
    ['subject', grant.subject],
    ['scope', scope === 'any' ? 'any' : Object.values(scope).filter(Boolean).join(', ')],
    ['target', target.ref ?? 'any'],
    ['repository', target.repo ?? 'none'],
    ['paths', target.paths?.join(', ') ?? 'none'],
    ['except', target.exclude?.join(', ')],
    ['uses left', usesLeft === null ? 'unlimited' : String(usesLeft)],
    ['expires', `${expiry(grant, nowMs)} (${grant.expires_at})`],
    ['approved by', grant.approved_by],
    ['reason', grant.reason],
    ['receipt', receiptId],
  ]
  const shown = lines.map(([label, value]) =>
    value === undefined ? '' : `  ${label.padEnd(11)} ${printable(value)}\n`,
  )
  return `  ${grant.id} · ${state.replace('_', ' ')}\n${shown.join('')}`
}

function expiry(grant: Grant, nowMs: number): string {
  const leftMs = Date.parse(grant.expires_at) - nowMs
  return leftMs > 0 ? `in ${formatDuration(leftMs)}` : `${formatDuration(-leftMs)} ago`
}

function parseCount(text: string): number {
  if (/^[1-9]\d{0,6}$/.test(text)) return Number(text)
  throw new InvalidArgumentError('expected a whole number of 1 or more')
}
