/** The sandbox of a login: made when there is none, started again when it was stopped, and never another than was asked for. */
import { CraikError, type ErrorCode } from '../../errors.ts'
import { LoginRecords } from '../../login-sandbox/login-records.ts'
import type { Typed } from '../../login-sandbox/login-sandbox-settings.ts'
import { craikAgain } from '../../login-sandbox/next-commands.ts'
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
  /** What was not as one might expect, for a person. */
  readonly notes: readonly string[]
}

export async function startLoginSandbox(
  context: CliContext,
  client: ApiClient,
  chosen: SelectedSandbox,
  typed: Typed,
): Promise<StartedLoginSandbox> {
  const found = await sandboxOf(context, client, chosen)
  if (chosen.settings.credentials !== 'none') await offerKeys(context, client)
  if (found === undefined) {
    const elsewhere = craikAgain('up', chosen.settings, typed, { workspace: 'FOLDER' })
    const { sandbox, copiedFiles, notes } = await inOwnWords(
      {
        copy: `choose another folder:  ${elsewhere}`,
        recreatedReason: craikAgain('rebuild', chosen.settings, typed),
      },
      async () => (await planSandbox(context, client, chosen, typed)).make(),
    )
    return { sandbox, how: 'made', copiedFiles, notes: [...notes, ...noticeOf(sandbox)] }
  }
  await requireSame(context, found, chosen, typed)
  if (found.state === 'running') {
    const notes = await freshLogins(context, client, found)
    return { sandbox: found, how: 'running', copiedFiles: undefined, notes }
  }
  using progress = new Progress(context, `starting ${found.name},`, ' s')
  using _ = countingSeconds(progress)
  const elsewhere = craikAgain('rebuild', chosen.settings, typed, { workspace: 'FOLDER' })
  const recreatedReason = craikAgain('rebuild', chosen.settings, typed)
  const sandbox = await inOwnWords(
    { copy: `move it to another folder:  ${elsewhere}`, recreatedReason },
    () => resumeAndReport(context, client, found.id, { signal: context.signal }),
  )
  // What ended it may be something to look at.
  const before = found.state === 'lost' ? noticeOf(found) : []
  return { sandbox, how: 'resumed', copiedFiles: undefined, notes: [...before, ...noticeOf(sandbox)] }
}

/** A refusal that knows nothing of `up` tells of a copy, for which it has no option, and not of which login it is. */
async function inOwnWords<T>(
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

/** Somebody may have logged in, or out, since it was started. One that cannot be put in its place keeps nobody out. */
async function freshLogins(
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

/** What one has is not changed under it: what differs is told, and how it comes to be. */
async function requireSame(
  context: CliContext,
  found: SandboxBody,
  { settings, sandboxName, login }: SelectedSandbox,
  typed: Typed,
): Promise<void> {
  const recreatedReason = craikAgain('rebuild', settings, typed)
  const differs = (what: string, has: string, wanted: string) =>
    new CraikError('conflict', `${sandboxName} ${what} ${has}, but you asked for ${wanted}`, {
      hint: `recreate it with its volumes:  ${recreatedReason}`,
    })
  const folder =
    found.workspace.mode === 'in-place' ? found.workspace.folder : findCopiedFolder(context, login, found.id)
  if (folder !== undefined && folder !== settings.workspace)
    throw new CraikError(
      'conflict',
      `${sandboxName} has the workspace ${folder}, not ${settings.workspace}`,
      {
        hint: `use that folder:  ${craikAgain('up', settings, typed, { workspace: folder })}   or recreate it with its volumes for this one:  ${recreatedReason}`,
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

/** Of a copy, as far as it is remembered. */
function findCopiedFolder({ home }: CliContext, login: string, sandbox: string): string | undefined {
  const record = new LoginRecords(home.loginSandboxes).readable(login)
  return record?.sandboxId === sandbox ? (record.workspace ?? undefined) : undefined
}
