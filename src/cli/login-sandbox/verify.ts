/** `craik verify-llm-auth`: each agent that has a login is asked for an answer, in the sandbox, through the gateway. */
import { Command } from 'commander'
import type { Account } from '../../accounts/account.ts'
import { chosenAccounts } from '../../accounts/sentinel-files.ts'
import { CraikError } from '../../errors.ts'
import { HARNESSES } from '../../harnesses/all.ts'
import { type Harness, loginFor } from '../../harnesses/harness.ts'
import { formatDuration } from '../../lib/duration.ts'
import type { Typed } from '../../login-sandbox/settings.ts'
import type { SandboxBody } from '../../operator/api/bodies.ts'
import type { ApiClient } from '../../sdk/client.ts'
import { leaveOut } from '../../transcripts/export/export-new.ts'
import type { CliContext, NounBuilder } from '../context.ts'
import { type Column, chosenFormat, formatOption, printable, printRows } from '../output.ts'
import { countingSeconds, Progress } from '../progress.ts'
import { runPrompt } from '../prompt/run-prompt.ts'
import { connect } from '../sandbox/connect.ts'
import { addLoginOptions, choose, runningSandboxOf } from './chosen.ts'
import { transcriptsPlace } from './transcripts-place.ts'

const QUESTION = 'Answer with the one word: ready'
const TIMEOUT_MS = 2 * 60_000
const SEE_RECEIPTS = 'see what it asked for:  craik receipts list'

interface Row {
  readonly harness: string
  readonly login: string | null
  readonly result: 'answers' | 'failed' | 'not logged in'
  readonly detail: string
  readonly took_ms: number | null
  /** What to do, where it failed. */
  readonly next: string | null
}

const COLUMNS: readonly Column<Row>[] = [
  { title: 'agent', value: ({ harness }) => harness },
  { title: 'login', value: ({ login }) => login ?? '–' },
  {
    title: 'result',
    value: ({ result }) => `${result === 'answers' ? '✓' : result === 'failed' ? '✗' : '–'} ${result}`,
  },
  { title: 'took', value: ({ took_ms }) => (took_ms === null ? '–' : formatDuration(took_ms)), goes: 1 },
  { title: 'detail', value: ({ detail }) => detail, shortens: true },
]

const HELP = `
It costs one short answer of each provider. An agent without a login is passed over. Exits with 77 when one that has a login
does not answer, or when none has one, and with 2 when the sandbox is not up.

Example:
  craik verify-llm-auth
`

export const verifyCommand: NounBuilder = (context) =>
  addLoginOptions(new Command('verify-llm-auth'))
    .addOption(formatOption())
    .addHelpText('after', HELP)
    .action(async (options: Typed & { readonly format?: string }) => {
      const chosen = await choose(context, options)
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
      if (chosenFormat(context, options) === 'table') context.stdout.write(nextLines(rows))
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
  const login = loginFor(harness, chosenAccounts(accounts))
  if (login === undefined)
    return {
      ...{ harness: harness.name, login: null, result: 'not logged in', took_ms: null, next: null },
      detail: `log in on the host:  ${harness.logIn}`,
    }
  using progress = new Progress(context, `asking ${harness.name},`, ' s')
  using _ = countingSeconds(progress)
  const startedMs = performance.now()
  let words = ''
  const common = { harness: harness.name, login: `${login.family} (${login.kind})` }
  const { scope } = transcriptsPlace(context, owner)
  const { transcripts: records } = context.home
  const took = () => Math.round(performance.now() - startedMs)
  try {
    const { run } = await runPrompt(
      context,
      client,
      {
        ...{ harness, login, text: QUESTION, timeoutMs: TIMEOUT_MS, resumes: undefined, sandbox },
        ...{ workspace: null, model: undefined, permissions: 'deny', madeSandbox: false },
        // The question is nobody's conversation.
        onSession: (session) => leaveOut({ records, scope }, harness.name, session),
      },
      (event) => {
        if (event.type === 'text') words = `${words}${event.text}`.slice(0, 200)
      },
      () => {},
      async () => {},
    )
    const answered = run.stop_reason === 'end_turn' && words.trim() !== ''
    return {
      ...{ ...common, result: answered ? 'answers' : 'failed', took_ms: took() },
      next: answered ? null : SEE_RECEIPTS,
      detail: answered ? words.trim().split('\n')[0]! : `it said nothing (${run.stop_reason ?? 'no end'})`,
    }
  } catch (error) {
    if (!(error instanceof CraikError) || error.code === 'interrupted') throw error
    return { ...common, result: 'failed', took_ms: took(), detail: error.message, next: error.hint }
  }
}
