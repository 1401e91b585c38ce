/** `craik policy`: shows what a profile allows, tests decisions and checks policy files. */
import { Command, Option } from 'commander'
import { CraikError, ERRORS } from '../errors.ts'
import type { Json } from '../lib/canonical-json.ts'
import { CAPABILITIES, isCapability } from '../policy/capabilities.ts'
import { checkPolicyText, loadPolicy, type PolicyFinding } from '../policy/cedar.ts'
import { describeDenial } from '../policy/decide.ts'
import { parseRequest } from '../policy/decision-request.ts'
import { buildEnvelope, createEnvelope, type Envelope } from '../policy/envelope.ts'
import { evaluate, factsOfEnvelope } from '../policy/evaluate.ts'
import { findGrant, gatherCandidates } from '../policy/find-grant.ts'
import { type PolicyProfile, PROFILES, profileText, readPolicyFile } from '../policy/profiles.ts'
import { runSelfChecks } from '../policy/self-checks.ts'
import { summarise } from '../policy/try-policy.ts'
import type { Receipt } from '../receipts/schema.ts'
import type { CliContext, NounBuilder } from './context.ts'
import { wrapWords } from './fit-lines.ts'
import { formatOption, printable, printRecord, resolveFormat, table } from './output.ts'

export const policyCommand: NounBuilder = (context) =>
  new Command('policy')
    .description('show, test and check policies')
    .addCommand(showCommand(context))
    .addCommand(testCommand(context))
    .addCommand(checkCommand(context))

interface ShowOptions {
  readonly profile: PolicyProfile
  readonly trustedLocalFailOpen?: boolean
  readonly taskId: string
  readonly actor?: string
  readonly includeReceipt?: boolean
  readonly format?: string
}

function profileOption(): Option {
  return new Option('--profile <name>', 'policy profile').choices(PROFILES).default('strict')
}

const SHOW_HELP = `
A policy envelope is the policy of one session, sandbox or task: a profile, and
the user that it is for. This command creates one and shows it.

Profiles: strict (the default) allows little without a grant, and automation
lets agents use more with a grant. trusted-local allows requests that no rule
decides. custom has the rules of config/policies/custom.cedar in the Craik home.

Examples:
  craik policy show --profile automation
  craik policy show --task-id fix-parser --include-receipt
`

function showCommand(context: CliContext): Command {
  return new Command('show')
    .description('show what a policy profile allows')
    .addOption(profileOption())
    .option('--trusted-local-fail-open', 'required for trusted-local: allow requests that no rule decides')
    .option('--task-id <id>', 'task that the envelope is for', 'local')
    .option('--actor <subject>', 'user that the envelope is for, such as operator:ada (default: you)')
    .option('--include-receipt', 'store the envelope, so that runs can use it; show its receipt')
    .addOption(formatOption())
    .addHelpText('after', SHOW_HELP)
    .action(async (options: ShowOptions) => {
      const text = await profileText(options.profile, context.home)
      const built = await envelopeOf(context, options, text)
      const { envelope, receipt } = options.includeReceipt
        ? await storeEnvelope(context, built, text)
        : { envelope: built, receipt: undefined }
      const { rules } = await loadPolicy(text)
      const capabilities = await summarise(envelope, text, context.clock.nowMs())
      const record = {
        policy_envelope: envelope,
        capabilities,
        rules: rules.map(({ id, effect }) => ({ id, effect })),
        ...(receipt && { receipt }),
      }
      printRecord(context, options, record as unknown as Json, (columns) => {
        const { id, profile, actor, task_id, policy_digest, fail_open } = envelope
        return [
          `  ${id} · ${profile}${fail_open ? ' · fails open' : ''} · ${actor} · task ${task_id ?? 'any'}\n`,
          `  ${policy_digest}\n\n`,
          describeNames('allowed', capabilities.allowed, columns),
          describeNames('with a grant', capabilities.with_grant, columns),
          describeNames('never', capabilities.denied, columns),
          '\n',
          table(
            [
              { title: 'rule', value: (rule) => rule.id },
              { title: 'effect', value: (rule) => rule.effect },
            ],
            rules,
          ),
          receipt === undefined ? '' : `\n  receipt ${receipt.body.id}\n`,
        ].join('')
      })
    })
}

async function envelopeOf(context: CliContext, options: ShowOptions, policyText: string): Promise<Envelope> {
  return buildEnvelope({
    taskId: options.taskId,
    actor: options.actor ?? (await context.operator()),
    profile: options.profile,
    failOpen: options.trustedLocalFailOpen ?? false,
    policyText,
    nowMs: context.clock.nowMs(),
  })
}

async function storeEnvelope(
  context: CliContext,
  built: Envelope,
  policyText: string,
): Promise<{ envelope: Envelope; receipt: Receipt | undefined }> {
  const store = await context.store()
  const { envelope, receipt } = await createEnvelope(store, built, policyText, {
    operator: await context.operator(),
    receipt: true,
  })
  const row = receipt && (await store.read((tables) => tables.receipts.get(receipt.id)))
  return { envelope, receipt: row && (JSON.parse(row.line) as Receipt) }
}

interface TestOptions {
  readonly profile: PolicyProfile
  readonly capability?: string
  readonly operation?: string
  readonly target?: string
  readonly path?: string
  readonly repo?: string
  readonly subject?: string
  readonly taskId?: string
  readonly sessionId?: string
  readonly runId?: string
  readonly sandboxId?: string
  readonly grant?: string
  readonly format?: string
}

function testCommand(context: CliContext): Command {
  return new Command('test')
    .description('run the self-checks of a policy profile, or try one decision')
    .addOption(profileOption())
    .option(
      '--capability <name>',
      'capability to try instead of the self-checks; uses up no grant, writes no receipt',
    )
    .option('--operation <name>', 'operation to try')
    .option('--target <ref>', 'target of the operation')
    .option('--repo <ref>', 'repository of the target')
    .option('--path <path>', 'path of the target')
    .option('--subject <subject>', 'user that would act, such as operator:ada (default: you)')
    .option('--task-id <id>', 'in this task')
    .option('--session-id <id>', 'in this session')
    .option('--run-id <id>', 'in this run')
    .option('--sandbox-id <id>', 'in this sandbox')
    .option('--grant <id>', 'with this grant')
    .addOption(formatOption())
    .addHelpText(
      'after',
      `
Exit code: 0 passed or allowed, 1 a check failed, ${ERRORS.denied.exit} denied.

Examples:
  craik policy test --profile automation
  craik policy test --capability shell.test --operation run --target unit-tests
`,
    )
    .action(async (options: TestOptions) => {
      const text = await profileText(options.profile, context.home)
      const envelope = buildEnvelope({
        taskId: options.taskId ?? null,
        id: 'policy_test',
        actor: options.subject ?? (await context.operator()),
        profile: options.profile,
        // This test stores and runs nothing, so trusted-local needs no explicit flag here.
        failOpen: options.profile === 'trusted-local',
        policyText: text,
        nowMs: context.clock.nowMs(),
      })
      if (options.capability === undefined) await selfCheck(context, options, envelope, text)
      else await dryRun(context, options, envelope, text, options.capability)
    })
}

async function selfCheck(
  context: CliContext,
  options: TestOptions,
  envelope: Envelope,
  text: string,
): Promise<void> {
  const checks = await runSelfChecks(envelope, text, context.clock.nowMs())
  const failed = checks.filter(({ passed }) => !passed).length
  const record = { profile: envelope.profile, passed: failed === 0, checks }
  printRecord(context, options, record as unknown as Json, () => {
    const rows = checks.map(({ name, passed, outcome }) => `  ${passed ? '✓' : '✗'} ${name}  (${outcome})\n`)
    const sum = failed === 0 ? `all ${checks.length} passed` : `${failed} of ${checks.length} failed`
    return `${rows.join('')}  ${envelope.profile}: ${sum}\n`
  })
  if (failed > 0) context.setExitCode(1)
}

async function dryRun(
  context: CliContext,
  options: TestOptions,
  envelope: Envelope,
  text: string,
  capability: string,
): Promise<void> {
  const { operation, target, path, repo, grant } = options
  if (operation === undefined || target === undefined) {
    throw new CraikError('usage', '--capability also needs --operation and --target', {
      hint: 'add both, such as  --capability shell.test --operation run --target unit-tests',
    })
  }
  if (!isCapability(capability)) {
    throw new CraikError('usage', `unknown capability ${JSON.stringify(capability.slice(0, 60))}`, {
      hint: `use one of: ${Object.keys(CAPABILITIES).join(', ')}`,
    })
  }
  const request = parseRequest({
    operator: envelope.actor,
    capability,
    operation,
    target,
    path,
    repo,
    scope: {
      task_id: options.taskId,
      session_id: options.sessionId,
      run_id: options.runId,
      sandbox_id: options.sandboxId,
    },
    policy_envelope_id: envelope.id,
    grant_id: grant,
  })
  const found =
    grant === undefined ? null : await (await context.store()).read((tables) => findGrant(tables, grant))
  const input = gatherCandidates(request, factsOfEnvelope(envelope), found, context.clock.nowMs())
  const { effect, rule, missing, grantOutcome, grantWouldHelp } = await evaluate(input, text)
  const record = { effect, rule, missing, grant_outcome: grantOutcome, grant_would_help: grantWouldHelp }
  printRecord(context, options, record, () => {
    const what = `${capability} on ${target}`
    if (effect === 'allow') return `  ✓ ${what} would be allowed by rule ${rule}\n`
    return `  ✗ ${what} would be denied by rule ${rule}${describeDenial({ missing, grantOutcome, grantWouldHelp }, request)}\n`
  })
  if (effect === 'deny') context.setExitCode(ERRORS.denied.exit)
}

function checkCommand(context: CliContext): Command {
  return new Command('check')
    .description('check a Cedar policy file: syntax, rule names and schema')
    .argument('<file>', 'policy file, at most 1 MiB')
    .addOption(formatOption())
    .addHelpText('after', '\nExample:\n  craik policy check ~/.craik/config/policies/custom.cedar\n')
    .action(async (file: string, options: { readonly format?: string }) => {
      const text = await readPolicyFile(file)
      const findings = await checkPolicyText(text)
      const errors = findings.filter(({ severity }) => severity === 'error').length
      printFindings(context, options, file, findings, errors)
      if (errors > 0) context.setExitCode(ERRORS.invalid_config.exit)
    })
}

function printFindings(
  context: CliContext,
  options: { readonly format?: string },
  file: string,
  findings: readonly PolicyFinding[],
  errors: number,
): void {
  const record = { file, valid: errors === 0, findings }
  if (resolveFormat(context, options) !== 'table' && options.format !== undefined) {
    printRecord(context, options, record as unknown as Json, () => '')
    return
  }
  for (const { line, column, message, severity } of findings) {
    const label = severity === 'warning' ? 'warning: ' : ''
    context.stdout.write(
      `${printable(`${file}:${line}:${column}: ${label}${message.replaceAll('\n', ' ')}`)}\n`,
    )
  }
  if (errors === 0) context.stdout.write(`  ${printable(file)} is a valid policy\n`)
}

const MAX_NAMES_WIDTH = 78

/** Formats a label and then the names, in lines of readable length. */
function describeNames(label: string, names: readonly string[], columns: number): string {
  const text = names.length === 0 ? '–' : names.join(', ')
  return wrapWords(text, Math.min(columns, MAX_NAMES_WIDTH) - 16)
    .map((line, i) => `  ${(i === 0 ? label : '').padEnd(13)} ${line}\n`)
    .join('')
}
