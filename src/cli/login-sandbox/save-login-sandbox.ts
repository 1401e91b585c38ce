/**
 * Saves the conversations and changes of a login sandbox: on exit, on request, and every few minutes by the supervisor.
 * Conversations come from the volume, so they are saved even if the sandbox is stopped or was killed.
 */
import { CraikError } from '../../errors.ts'
import { writeSnapshot } from '../../login-sandbox/keep/write-snapshot.ts'
import { type LoginRecord, LoginRecords } from '../../login-sandbox/login-records.ts'
import { redactText } from '../../receipts/redaction/redact.ts'
import { type ExportedTranscripts, exportNew } from '../../transcripts/export/export-new.ts'
import type { SkippedTranscript } from '../../transcripts/find-transcripts.ts'
import type { CliContext } from '../context.ts'
import { takeState } from './capture-state.ts'
import { transcriptDeps } from './transcript-deps.ts'

export interface SaveOptions {
  /** Does not inspect the sandbox, so that saving does not count as activity there. */
  readonly conversationsOnly?: boolean
  /** Called for content that could not be read, or not completely. */
  readonly onProblem?: (path: string, problem: string) => void
  readonly onSkipped?: (passed: SkippedTranscript) => void
}

export interface Saved {
  readonly conversations: readonly ExportedTranscripts[]
  /**
   * The folder of the saved changes. Undefined if nothing changed, or if the sandbox does not run or was never
   * inspected before.
   */
  readonly snapshot: string | undefined
}

export async function saveLoginSandbox(
  context: CliContext,
  record: LoginRecord,
  options: SaveOptions = {},
): Promise<Saved> {
  const conversations = await saveConversations(context, record, options)
  const snapshot = options.conversationsOnly === true ? undefined : await saveSnapshot(context, record)
  return { conversations, snapshot }
}

export function saveConversations(
  context: CliContext,
  { login, inbox }: Pick<LoginRecord, 'login' | 'inbox'>,
  { onProblem, onSkipped }: SaveOptions = {},
): Promise<readonly ExportedTranscripts[]> {
  return exportNew({
    ...transcriptDeps(context, login, onProblem),
    inbox,
    records: context.home.transcripts,
    signal: context.signal,
    redact: (text) => redactText(text).text,
    ...(onProblem !== undefined && { onProblem }),
    ...(onSkipped !== undefined && { onSkipped }),
  })
}

async function saveSnapshot(context: CliContext, record: LoginRecord): Promise<string | undefined> {
  const entry = new LoginRecords(context.home.loginSandboxes).entryOf(record)
  if (entry === undefined) return undefined
  // A running sandbox has a supervisor, so nothing is started to inspect it.
  const { findSupervisor } = await import('../../supervisor/connect-or-start.ts')
  using client = await findSupervisor(context)
  if (client === undefined || !(await isRunning(client, record.sandboxId, context.signal))) return undefined
  const exit = await takeState(context, client, record.sandboxId).catch(async (error: unknown) => {
    // A sandbox that stops meanwhile is not an error: there is nothing to inspect then.
    if (await isRunning(client, record.sandboxId, context.signal)) throw error
    return undefined
  })
  if (exit === undefined) return undefined
  return writeSnapshot({ inbox: record.inbox, isoTimestamp: record.entryTimestamp, entry, exit })
}

async function isRunning(
  client: NonNullable<
    Awaited<ReturnType<typeof import('../../supervisor/connect-or-start.ts').findSupervisor>>
  >,
  sandbox: string,
  signal: AbortSignal,
): Promise<boolean> {
  try {
    return (await client.sandboxes.get(sandbox, { signal })).state === 'running'
  } catch (error) {
    if (error instanceof CraikError && error.code === 'not_found') return false
    throw error
  }
}
