/**
 * Begins and ends the work in a login sandbox: records its state on entry, and saves conversations and changes on exit.
 */
import { CraikError } from '../../errors.ts'
import { LLM_STATE } from '../../login-sandbox/keep/mirrors.ts'
import { volumesOf } from '../../login-sandbox/login-names.ts'
import { type LoginRecord, LoginRecords } from '../../login-sandbox/login-records.ts'
import { loadSettings, type TypedOptions } from '../../login-sandbox/login-sandbox-settings.ts'
import type { SandboxBody } from '../../operator/api/bodies.ts'
import type { ApiClient } from '../../sdk/client.ts'
import type { ExportedTranscripts } from '../../transcripts/export/export-new.ts'
import type { CliContext } from '../context.ts'
import { printable, printNote } from '../output.ts'
import { SkippedContent } from '../transcripts/skipped-content.ts'
import { takeState } from './capture-state.ts'
import { saveConversations, saveLoginSandbox } from './save-login-sandbox.ts'
import type { SelectedSandbox } from './select-sandbox.ts'

type Author = NonNullable<LoginRecord['author']>

/**
 * A running sandbox has an entry record already, and changes are reported since that entry. So Craik keeps the record
 * of a running sandbox unless its inbox or author changed.
 */
export async function beginSession(
  context: CliContext,
  client: ApiClient,
  sandbox: SandboxBody,
  { login, settings }: SelectedSandbox,
  author: Author,
  isRunningAlready: boolean,
): Promise<void> {
  const records = new LoginRecords(context.home.loginSandboxes)
  const known = records.readOrUndefined(login)
  const isSame = known?.sandboxId === sandbox.id && known.inbox === settings.inbox
  if (isRunningAlready && isSame && known.author?.email === author.email && known.author.name === author.name)
    return
  // Saves conversations that were not saved before, for example because the host crashed.
  if (known !== undefined) await save(context, known, true)
  const state = await takeState(context, client, sandbox.id).catch((error: unknown) => {
    context.signal.throwIfAborted()
    if (!(error instanceof CraikError)) throw error
    return undefined
  })
  records.enter(
    {
      login,
      profile: settings.profile ?? null,
      inbox: settings.inbox,
      author,
      workspace: known?.sandboxId === sandbox.id ? known.workspace : settings.workspace,
      sandboxId: sandbox.id,
      entryTimestamp: `${new Date(context.clock.nowMs()).toISOString().slice(0, 19).replaceAll(':', '-')}Z`,
    },
    state,
  )
}

export async function endSession(
  context: CliContext,
  { login }: Pick<SelectedSandbox, 'login'>,
): Promise<void> {
  const record = new LoginRecords(context.home.loginSandboxes).readOrUndefined(login)
  if (record !== undefined) await save(context, record, false)
}

/**
 * Saves the conversations of a login whose volumes are about to be removed, because no other copy of them is left then.
 * Throws if it cannot save them. Without a record of the login, the inbox is that of the settings.
 */
export async function saveBeforeRemoval(
  context: CliContext,
  login: string,
  options: TypedOptions,
): Promise<void> {
  const inbox =
    new LoginRecords(context.home.loginSandboxes).readOrUndefined(login)?.inbox ??
    loadSettings(options, context.environment, process.cwd()).inbox
  const skipped = new SkippedContent()
  try {
    const conversations = await saveConversations(
      context,
      { login, inbox },
      { onProblem: skipped.problem, onSkipped: skipped.passedOver },
    )
    printSaved(context, inbox, conversations)
  } catch (error) {
    if (context.signal.aborted || !(error instanceof CraikError)) throw error
    const { name } = volumesOf(login).find(({ at }) => at === LLM_STATE)!
    const remove = `remove the conversations too:  craik volume delete ${name}`
    throw new CraikError(error.code, `nothing was removed: cannot save conversations: ${error.message}`, {
      hint: error.hint === '' ? remove : `${error.hint}   or ${remove}`,
      cause: error,
    })
  }
  printNote(context, skipped.lines())
}

export function forgetSession({ home }: CliContext, login: string): void {
  new LoginRecords(home.loginSandboxes).remove(login)
}

/** Returns git's author in the sandbox, as of the last `up`. */
export function authorOf({ home }: CliContext, login: string): Author | undefined {
  return new LoginRecords(home.loginSandboxes).readOrUndefined(login)?.author ?? undefined
}

async function save(context: CliContext, record: LoginRecord, conversationsOnly: boolean): Promise<void> {
  const skipped = new SkippedContent()
  try {
    const { conversations } = await saveLoginSandbox(context, record, {
      conversationsOnly,
      onProblem: skipped.problem,
      onSkipped: skipped.passedOver,
    })
    printSaved(context, record.inbox, conversations)
  } catch (error) {
    context.signal.throwIfAborted()
    const why = error instanceof CraikError ? error.message : String(error)
    printNote(
      context,
      `craik: could not save everything: ${printable(why)}\n  try again:  craik save --login ${record.login}\n`,
    )
  }
  printNote(context, skipped.lines())
}

function printSaved(context: CliContext, inbox: string, conversations: readonly ExportedTranscripts[]): void {
  const saved = conversations.filter(({ outcome }) => outcome === 'written' || outcome === 'updated')
  const [first] = saved
  if (first === undefined) return
  const what = saved.length === 1 ? '1 conversation' : `${saved.length} conversations`
  const where = saved.length === 1 ? first.path : `${inbox}/conversations`
  printNote(context, `  saved ${what} → ${printable(where)}\n`)
}
