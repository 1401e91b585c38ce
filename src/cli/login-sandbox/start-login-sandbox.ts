/**
 * Starts a login sandbox: creates it, or starts a stopped one again. Fails if it exists and differs from what the user
 * asked for.
 */
import { CraikError, type ErrorCode } from '../../errors.ts'
import { LoginRecords } from '../../login-sandbox/login-records.ts'
import type { TypedOptions } from '../../login-sandbox/login-sandbox-settings.ts'
import { formatRepeatCommand } from '../../login-sandbox/next-commands.ts'
import type { SandboxBody } from '../../operator/api/bodies.ts'
import { COPY_INSTEAD, RECREATE_COMMAND } from '../../sandboxes/outdated-sandbox.ts'
import type { ApiClient } from '../../sdk/client.ts'
import type { CliContext } from '../context.ts'
import { nameOfImage } from '../image/make-image.ts'
import { countingSeconds, Progress } from '../progress.ts'
import { offerKeys } from '../sandbox/environment-keys.ts'
import { resumeAndReport } from '../sandbox/resume.ts'
import { imageFor, noPackages, parseWantedAgents, planSandbox } from './plan-sandbox.ts'
import { type SelectedSandbox, sandboxOf } from './select-sandbox.ts'

export interface StartedLoginSandbox {
  readonly sandbox: SandboxBody
  readonly how: 'made' | 'resumed' | 'running'
  readonly copiedFiles: number | undefined
  /** Unexpected facts for the user. */
  readonly notes: readonly string[]
}

export async function startLoginSandbox(
  context: CliContext,
  client: ApiClient,
  chosen: SelectedSandbox,
  typed: TypedOptions,
): Promise<StartedLoginSandbox> {
  const found = await sandboxOf(context, client, chosen)
  if (chosen.settings.credentials !== 'none') await offerKeys(context, client)
  if (found === undefined) {
    const elsewhere = formatRepeatCommand('up', chosen.settings, typed, { workspace: 'FOLDER' })
    const { sandbox, copiedFiles, notes } = await withUpHints(
      {
        copy: `choose another folder:  ${elsewhere}`,
        recreatedReason: formatRepeatCommand('rebuild', chosen.settings, typed),
      },
      async () => (await planSandbox(context, client, chosen, typed)).make(),
    )
    return { sandbox, how: 'made', copiedFiles, notes: [...notes, ...noticeOf(sandbox)] }
  }
  await requireSame(context, found, chosen, typed)
  if (found.state === 'running') {
    const notes = await updateLogins(context, client, found)
    return { sandbox: found, how: 'running', copiedFiles: undefined, notes }
  }
  using progress = new Progress(context, `starting ${found.name},`, ' s')
  using _ = countingSeconds(progress)
  const elsewhere = formatRepeatCommand('rebuild', chosen.settings, typed, { workspace: 'FOLDER' })
  const recreatedReason = formatRepeatCommand('rebuild', chosen.settings, typed)
  const sandbox = await withUpHints(
    { copy: `move it to another folder:  ${elsewhere}`, recreatedReason },
    () => resumeAndReport(context, client, found.id, { signal: context.signal }),
  )
  // The notice of a lost sandbox can explain what stopped it.
  const before = found.state === 'lost' ? noticeOf(found) : []
  return { sandbox, how: 'resumed', copiedFiles: undefined, notes: [...before, ...noticeOf(sandbox)] }
}

/**
 * Adapts the hints of errors to `craik up`. The original hint suggests a copy, for which `up` has no option, and does
 * not name the login.
 */
async function withUpHints<T>(
  { copy, recreatedReason }: { readonly copy: string; readonly recreatedReason: string },
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof CraikError)) throw error
    const hint = error.hint.replace(COPY_INSTEAD, () => copy).replace(RECREATE_COMMAND, () => recreatedReason)
    if (hint === error.hint) throw error
    throw new CraikError(error.code, error.message, {
      hint,
      ...(error.details !== undefined && { details: error.details }),
      cause: error,
    })
  }
}

/**
 * Updates the logins, because the user may have logged in or out since the sandbox started. A login that cannot be
 * written does not prevent the user from entering.
 */
async function updateLogins(
  context: CliContext,
  client: ApiClient,
  { id, credentials }: SandboxBody,
): Promise<readonly string[]> {
  if (credentials === 'none') return []
  try {
    await client.sandboxes.putLogins(id, { signal: context.signal })
    return []
  } catch (error) {
    if (!(error instanceof CraikError) || !NOT_IN_PLACE.includes(error.code)) throw error
    return [error.message]
  }
}

const NOT_IN_PLACE: readonly ErrorCode[] = ['conflict', 'refused_inside']

function noticeOf({ notice }: SandboxBody): readonly string[] {
  return notice === null ? [] : [notice]
}

/**
 * Fails with the first difference and the command that recreates the sandbox. Craik never changes the settings of an
 * existing sandbox.
 */
async function requireSame(
  context: CliContext,
  found: SandboxBody,
  { settings, sandboxName, login }: SelectedSandbox,
  typed: TypedOptions,
): Promise<void> {
  const recreatedReason = formatRepeatCommand('rebuild', settings, typed)
  const differs = (what: string, has: string, wanted: string) =>
    new CraikError('conflict', `${sandboxName} ${what} ${has}, but you asked for ${wanted}`, {
      hint: `recreate the sandbox, which keeps its volumes:  ${recreatedReason}`,
    })
  const folder =
    found.workspace.mode === 'in-place' ? found.workspace.folder : findCopiedFolder(context, login, found.id)
  if (folder !== undefined && folder !== settings.workspace)
    throw new CraikError(
      'conflict',
      `${sandboxName} has the workspace ${folder}, not ${settings.workspace}`,
      {
        hint: `use that folder:  ${formatRepeatCommand('up', settings, typed, { workspace: folder })}   or recreate the sandbox for the new folder, which keeps its volumes:  ${recreatedReason}`,
      },
    )
  const backend = found.isolation === 'container' ? 'docker' : 'process'
  if (settings.backend !== undefined && settings.backend !== backend)
    throw differs('has the backend', backend, settings.backend)
  if (found.credentials !== settings.credentials)
    throw differs('has credentials', found.credentials, settings.credentials)
  const has = found.harnesses.map(({ name }) => name).sort()
  const wanted = parseWantedAgents(settings)
    .filter((name) => name !== 'npm')
    .sort()
  if (typed.harness !== undefined && has.join() !== wanted.join())
    throw differs('has the agents', has.join(', '), wanted.join(', '))
  if (typed.apt === undefined) return
  if (backend !== 'docker') throw noPackages()
  const image = await nameOfImage(context, await imageFor(settings))
  if (image !== found.container?.image_name)
    throw differs('has the image', found.container?.image_name ?? 'another image', image)
}

/** Returns the folder of a copied workspace, if a record names it. */
function findCopiedFolder({ home }: CliContext, login: string, sandbox: string): string | undefined {
  const record = new LoginRecords(home.loginSandboxes).readOrUndefined(login)
  return record?.sandboxId === sandbox ? (record.workspace ?? undefined) : undefined
}
