/** `craik verify-llm-auth`: sends a test prompt to each agent that has a login, in the sandbox, through the gateway. */
import { Command } from 'commander'
import type { Account } from '../../accounts/account.ts'
import { selectPreferredAccounts } from '../../accounts/sentinel-files.ts'
import { CraikError } from '../../errors.ts'
import { HARNESSES } from '../../harnesses/all.ts'
import { type Harness, loginFor } from '../../harnesses/harness.ts'
import { formatDuration } from '../../lib/duration.ts'
import type { TypedOptions } from '../../login-sandbox/login-sandbox-settings.ts'
import type { SandboxBody } from '../../operator/api/bodies.ts'
import type { ApiClient } from '../../sdk/client.ts'
import { excludeSessions } from '../../transcripts/export/export-new.ts'
import type { CliContext, NounBuilder } from '../context.ts'
import { type Column, formatOption, printable, printRows, printText, resolveFormat } from '../output.ts'
import { countingSeconds, Progress } from '../progress.ts'
import { runPrompt } from '../prompt/run-prompt.ts'
import { connect } from '../sandbox/connect-supervisor.ts'
import { addLoginOptions, runningSandboxOf, selectSandbox } from './select-sandbox.ts'
import { transcriptDeps } from './transcript-deps.ts'

const QUESTION = 'Answer with the one word: ready'
const TIMEOUT_MS = 2 * 60_000
const SEE_RECEIPTS = 'check its requests:  craik receipts list'

interface Row {
  readonly harness: string
  readonly login: string | null
  readonly result: 'answers' | 'failed' | 'not logged in'
  readonly detail: string
  readonly took_ms: number | null
  /** The next step after a failure. */
  readonly next: string | null
}

const COLUMNS: readonly Column<Row>[] = [
  { title: 'agent', value: ({ harness }) => harness },
  { title: 'login', value: ({ login }) => login ?? '–', dropOrder: 2 },
  {
    title: 'result',
    value: ({ result }) => `${result === 'answers' ? '✓' : result === 'failed' ? '✗' : '–'} ${result}`,
  },
  { title: 'took', value: ({ took_ms }) => (took_ms === null ? '–' : formatDuration(took_ms)), dropOrder: 1 },
  { title: 'detail', value: ({ detail }) => detail, canShorten: true },
]

const HELP = `
Costs one short answer of each agent. Skips agents without a login.

Exit code: 77 if an agent with a login does not answer, or no agent has a login.
2 if the sandbox is not running, or after wrong usage.

Example:
  craik verify-llm-auth
`

export const verifyLoginsCommand: NounBuilder = (context) =>
  addLoginOptions(new Command('verify-llm-auth'))
    .addOption(formatOption())
    .addHelpText('after', HELP)
    .action(async (options: TypedOptions & { readonly format?: string }) => {
      const chosen = await selectSandbox(context, options)
      using client = await connect(context)
      const sandbox = await runningSandboxOf(context, client, chosen)
      const accounts = await chosen.logins.accounts(context.signal)
      const rows: Row[] = []
      for (const harness of Object.values(HARNESSES)) {
        if (harness.logins.length === 0) continue
        context.signal.throwIfAborted()
        rows.push(await ask(context, client, sandbox, chosen.login, harness, accounts))
      }
      printRows(context, options, rows, COLUMNS, (row) => ({ ...row }))
      if (resolveFormat(context, options) === 'table') printText(context, nextLines(rows))
      const isFine = rows.some(({ result }) => result === 'answers')
      if (!isFine || rows.some(({ result }) => result === 'failed')) context.setExitCode(77)
    })

function nextLines(rows: readonly Row[]): string {
  const lines = rows.flatMap(({ harness, next }) =>
    next === null ? [] : [`  ${harness}: ${printable(next)}\n`],
  )
  return lines.length === 0 ? '' : `\n${lines.join('')}`
}

async function ask(
  context: CliContext,
  client: ApiClient,
  sandbox: SandboxBody,
  owner: string,
  harness: Harness,
  accounts: readonly Account[],
): Promise<Row> {
  const login = loginFor(harness, selectPreferredAccounts(accounts))
  if (login === undefined)
    return {
      harness: harness.name,
      login: null,
      result: 'not logged in',
      took_ms: null,
      next: null,
      detail: `log in on the host:  ${harness.loginCommand}`,
    }
  using progress = new Progress(context, `asking ${harness.name},`, ' s')
  using _ = countingSeconds(progress)
  const startedMs = performance.now()
  let words = ''
  const common = { harness: harness.name, login: `${login.family} (${login.kind})` }
  const { scope } = transcriptDeps(context, owner)
  const { transcripts: records } = context.home
  const took = () => Math.round(performance.now() - startedMs)
  try {
    const { run } = await runPrompt(
      context,
      client,
      {
        harness,
        login,
        text: QUESTION,
        timeoutMs: TIMEOUT_MS,
        resumes: undefined,
        sandbox,
        workspace: null,
        model: undefined,
        permissions: 'deny',
        madeSandbox: false,
        // The test prompt is not a conversation of the user.
        onSession: (session) => excludeSessions({ records, scope }, harness.name, session),
      },
      (event) => {
        if (event.type === 'text') words = `${words}${event.text}`.slice(0, 200)
      },
      () => {},
      async () => {},
    )
    const answered = run.stop_reason === 'end_turn' && words.trim() !== ''
    return {
      ...common,
      result: answered ? 'answers' : 'failed',
      took_ms: took(),
      next: answered ? null : SEE_RECEIPTS,
      detail: answered ? words.trim().split('\n')[0]! : `no answer (${run.stop_reason ?? 'no end'})`,
    }
  } catch (error) {
    if (!(error instanceof CraikError) || error.code === 'interrupted') throw error
    return { ...common, result: 'failed', took_ms: took(), detail: error.message, next: error.hint }
  }
}
