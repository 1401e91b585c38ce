/** Where a prompt runs: a sandbox that is there, that of the run it goes on from, or a new one with a copy of the folder. */
import { resolve } from 'node:path'
import { CraikError } from '../../errors.ts'
import type { Harness } from '../../harnesses/harness.ts'
import type { SandboxBody } from '../../operator/api/bodies.ts'
import type { PromptRun } from '../../run/prompts/prompt-record.ts'
import type { ApiClient } from '../../sdk/client.ts'
import type { CliContext } from '../context.ts'
import { printable, printNote } from '../output.ts'
import { containerOf } from '../sandbox/container-options.ts'
import { createWithParts, fill, sourceOf, workspaceOf } from '../sandbox/create.ts'
import { offerKeys } from '../sandbox/environment-keys.ts'
import { resumeAndReport } from '../sandbox/resume.ts'

export interface PromptSandboxOptions {
  readonly sandbox?: string
  readonly backend?: 'process' | 'docker'
  readonly workspace?: string
  readonly inPlace?: boolean
  readonly maxCopy: string
}

export interface PromptSandbox {
  readonly sandbox: SandboxBody
  readonly made: boolean
  readonly workspace: string | null
  /** Files that were copied in. */
  readonly copied: number | undefined
}

/** One that nobody comes back to is not kept for ever. */
const KEEP_MS = 7 * 24 * 3600_000

export async function openPromptSandbox(
  context: CliContext,
  client: ApiClient,
  harness: Harness,
  options: PromptSandboxOptions,
  resumes: PromptRun | undefined,
): Promise<PromptSandbox> {
  await offerKeys(context, client)
  const named = resumes?.sandbox_id ?? options.sandbox
  if (named !== undefined) {
    const sandbox = await (resumes === undefined
      ? awake(context, client, named, harness)
      : awakeAgain(context, client, resumes, harness))
    const workspace =
      resumes?.workspace ?? (sandbox.workspace.mode === 'in-place' ? sandbox.workspace.folder : null)
    return { sandbox, made: false, workspace, copied: undefined }
  }
  const requested = {
    workspace: options.workspace ?? '.',
    maxCopy: options.maxCopy,
    ...(options.inPlace && { inPlace: true }),
  }
  const backend = options.backend ?? 'process'
  const source = await sourceOf(context, requested)
  const harnesses = harness.name === 'fixture' ? [] : [harness.name]
  const sandbox = await createWithParts(
    context,
    client,
    {
      workspace: workspaceOf(requested),
      harnesses,
      credentials: harness.logins.length === 0 ? 'none' : 'broker',
      ...containerOf({ backend }),
      environment: {},
      ends: { keep_ms: KEEP_MS },
    },
    harnesses,
  )
  const copied = source && (await fill(context, client, sandbox, source))
  return { sandbox, made: true, workspace: resolve(requested.workspace), copied: copied?.files }
}

/** A session of an agent is in the home of its sandbox, and gone with it. */
async function awakeAgain(
  context: CliContext,
  client: ApiClient,
  { id, sandbox_id, changed_files }: PromptRun,
  harness: Harness,
): Promise<SandboxBody> {
  return awake(context, client, sandbox_id, harness).catch((error: unknown) => {
    if (!(error instanceof CraikError) || error.code !== 'not_found') throw error
    const stored = changed_files ? `   show its saved changes:  craik run diff ${id}` : ''
    throw new CraikError(
      'not_found',
      `cannot resume run ${id}: its sandbox ${sandbox_id} was deleted, with the agent’s session`,
      { hint: `start again:  craik prompt "…" --harness ${harness.name}${stored}` },
    )
  })
}

/** One that was stopped meanwhile is started again; one that runs has the logins as they are now. */
export async function awake(
  context: CliContext,
  client: ApiClient,
  named: string,
  harness: Harness,
): Promise<SandboxBody> {
  const { signal } = context
  const found = await client.sandboxes.get(named, { signal })
  if (found.isolation === 'none')
    throw new CraikError(
      'usage',
      `sandbox ${found.name} has no isolation: agents run only in isolated sandboxes`,
      {
        hint: 'omit --sandbox to create one',
      },
    )
  if (found.state !== 'running') return resumeAndReport(context, client, named, { signal })
  // What was forwarded is the sandbox's own since: its programs may have renewed it.
  if (harness.logins.length > 0 && found.credentials === 'broker') await updateLogins(context, client, found)
  return found
}

/**
 * Somebody may have logged in again since it was started. What could not be put in place is told; whether it is missed, the agent
 * finds out.
 */
async function updateLogins(
  context: CliContext,
  client: ApiClient,
  { id, name }: SandboxBody,
): Promise<void> {
  try {
    await client.sandboxes.putLogins(id, { signal: context.signal })
  } catch (error) {
    if (!(error instanceof CraikError) || context.signal.aborted) throw error
    printNote(context, `craik: could not update the logins of sandbox ${name}: ${printable(error.message)}\n`)
  }
}
