/**
 * Saves what was said and what changed in the sandbox of a login: at exit, by hand, and every few minutes by the supervisor.
 * Conversations come from the volume, so also of a sandbox that is stopped or was killed.
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
  /** Leaves the sandbox alone: it is not looked at, and so not kept from being idle. */
  readonly conversationsOnly?: boolean
  /** What could not be read, or not all of it. */
  readonly onProblem?: (path: string, problem: string) => void
  readonly onPassedOver?: (passed: SkippedTranscript) => void
}

export interface Saved {
  readonly conversations: readonly ExportedTranscripts[]
  /** The folder; undefined when nothing changed, the sandbox does not run, or was never looked at before. */
  readonly snapshot: string | undefined
}

export async function saveLoginSandbox(
  context: CliContext,
  record: LoginRecord,
  { conversationsOnly = false, onProblem, onPassedOver }: SaveOptions = {},
): Promise<Saved> {
  const { login, inbox } = record
  const conversations = await exportNew({
    ...transcriptDeps(context, login, onProblem),
    inbox,
    records: context.home.transcripts,
    signal: context.signal,
    redact: (text) => redactText(text).text,
    ...(onProblem !== undefined && { onProblem }),
    ...(onPassedOver !== undefined && { onPassedOver }),
  })
  return { conversations, snapshot: conversationsOnly ? undefined : await saveSnapshot(context, record) }
}

async function saveSnapshot(context: CliContext, record: LoginRecord): Promise<string | undefined> {
  const entry = new LoginRecords(context.home.loginSandboxes).entryOf(record)
  if (entry === undefined) return undefined
  // Whoever is looked at runs, and is held by somebody: nothing is started for it.
  const { findSupervisor } = await import('../../supervisor/connect-or-start.ts')
  using client = await findSupervisor(context)
  if (client === undefined || !(await isRunning(client, record.sandboxId, context.signal))) return undefined
  const exit = await takeState(context, client, record.sandboxId).catch(async (error: unknown) => {
    // One that ends meanwhile is no failure: it is not looked at any more.
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
