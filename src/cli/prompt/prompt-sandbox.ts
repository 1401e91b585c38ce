/** Opens the sandbox of a prompt: an existing one, that of the resumed run, or a new one with a copy of the folder. */
import { resolve } from 'node:path'
import { CraikError } from '../../errors.ts'
import type { Harness } from '../../harnesses/harness.ts'
import type { SandboxBody } from '../../operator/api/bodies.ts'
import type { PromptRun } from '../../run/prompts/prompt-record.ts'
import type { ApiClient } from '../../sdk/client.ts'
import type { CliContext } from '../context.ts'
import { printable, printNote } from '../output.ts'
import { containerOf } from '../sandbox/container-options.ts'
import { copyWorkspaceIn, createWithParts, sourceOf, workspaceOf } from '../sandbox/create.ts'
import { requireSameEngine } from '../sandbox/engine-mismatch.ts'
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
  /** The number of files that were copied into the sandbox. */
  readonly copied: number | undefined
}

/** A sandbox that the user does not return to is not kept forever. */
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
      ? ensureRunning(context, client, named, harness)
      : ensureResumable(context, client, resumes, harness))
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
  if (backend === 'docker') await requireSameEngine(context, client)
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
  const copied = source && (await copyWorkspaceIn(context, client, sandbox, source))
  return { sandbox, made: true, workspace: resolve(requested.workspace), copied: copied?.files }
}

/** An agent's session is in the home of its sandbox and is deleted with it. */
async function ensureResumable(
  context: CliContext,
  client: ApiClient,
  { id, sandbox_id, changed_files }: PromptRun,
  harness: Harness,
): Promise<SandboxBody> {
  return ensureRunning(context, client, sandbox_id, harness).catch((error: unknown) => {
    if (!(error instanceof CraikError) || error.code !== 'not_found') throw error
    const stored = changed_files ? `   show its saved changes:  craik run diff ${id}` : ''
    throw new CraikError(
      'not_found',
      `cannot resume run ${id}: its sandbox ${sandbox_id} was deleted, with the agent’s session`,
      { hint: `start again:  craik prompt "…" --harness ${harness.name}${stored}` },
    )
  })
}

/** Starts the sandbox again if it is stopped, or updates the logins of a running one. */
export async function ensureRunning(
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
        hint: 'omit --sandbox to create an isolated sandbox',
      },
    )
  if (found.state !== 'running') return resumeAndReport(context, client, named, { signal })
  // Forwarded logins belong to the sandbox since its start, because its programs may have renewed them.
  if (harness.logins.length > 0 && found.credentials === 'broker') await updateLogins(context, client, found)
  return found
}

/**
 * The user may have logged in again since the sandbox started. If a login cannot be updated, Craik prints a note. The
 * agent finds out whether it needs that login.
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
