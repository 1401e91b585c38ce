/** Plans a login sandbox: checks everything and prepares all parts before Craik creates or removes anything. */
import { lstatSync } from 'node:fs'
import { CraikError } from '../../errors.ts'
import { presetCalled } from '../../gateway/egress/egress-presets.ts'
import { type PackageName, parseHarnesses } from '../../harnesses/packages/harness-catalogue.ts'
import { volumesOf } from '../../login-sandbox/login-names.ts'
import type { LoginSandboxSettings, TypedOptions } from '../../login-sandbox/login-sandbox-settings.ts'
import { formatRepeatCommand } from '../../login-sandbox/next-commands.ts'
import type { SandboxBody } from '../../operator/api/bodies.ts'
import type { CreateBody } from '../../operator/api/requests.ts'
import { overlapsCraikPrograms } from '../../sandboxes/backends/process/workspace.ts'
import type { ApiClient } from '../../sdk/client.ts'
import type { CliContext } from '../context.ts'
import { installHarnesses } from '../harness/install-with-bar.ts'
import { makeImage, packagesOf, type RequestedImage } from '../image/make-image.ts'
import { containerOf } from '../sandbox/container-options.ts'
import { copyWorkspaceIn, createWithParts, sourceOf } from '../sandbox/create.ts'
import { requireSameEngine } from '../sandbox/engine-mismatch.ts'
import type { SelectedSandbox } from './select-sandbox.ts'

/** Users return to their login sandbox on the same day. */
const IDLE_MS = 12 * 3600_000
const MEMORY_BYTES = 4 * 1024 ** 3
const DISK_BYTES = 16 * 1024 ** 3
const PROCESSES = 2048
const MAX_COPY = '4g'

interface PlannedSandbox {
  readonly sandbox: SandboxBody
  readonly copiedFiles: number | undefined
  readonly notes: readonly string[]
}

interface Workspace {
  readonly inPlace: boolean
  readonly note: string
}

interface Plan {
  make(): Promise<PlannedSandbox>
}

export async function planSandbox(
  context: CliContext,
  client: ApiClient,
  chosen: SelectedSandbox,
  typed: TypedOptions,
): Promise<Plan> {
  const workspace = workspaceOf(chosen.settings, typed)
  const { settings } = chosen
  if (settings.backend !== undefined)
    return planWith(context, client, chosen, workspace, settings.backend, [])
  try {
    return await planWith(context, client, chosen, workspace, 'docker', [])
  } catch (error) {
    // The user named no backend and no engine exists, so Craik uses the other backend and says so in a note.
    if (!(error instanceof CraikError) || error.code !== 'unavailable' || error.details?.none !== true)
      throw error
    const note = 'no container engine is available: this is a process sandbox (bubblewrap)'
    return planWith(context, client, chosen, workspace, 'process', [note])
  }
}

async function planWith(
  context: CliContext,
  client: ApiClient,
  { settings, sandboxName, login }: SelectedSandbox,
  { inPlace, note }: Workspace,
  backend: 'docker' | 'process',
  notes: readonly string[],
): Promise<Plan> {
  for (const preset of settings.egressPresets) presetCalled(preset)
  const harnesses = parseWantedAgents(settings)
  const image = await partsFor(context, client, settings, backend)
  const source = inPlace
    ? undefined
    : await sourceOf(context, { workspace: settings.workspace, maxCopy: MAX_COPY })
  const body: CreateBody = {
    name: sandboxName,
    ...containerOf({ backend, network: 'none', ...(image !== undefined && { image }) }),
    workspace: inPlace ? { mode: 'in-place', folder: settings.workspace } : { mode: 'copy' },
    limits: { memory_bytes: MEMORY_BYTES, processes: PROCESSES, disk_bytes: DISK_BYTES },
    environment: {},
    credentials: settings.credentials,
    harnesses: [...harnesses],
    volumes: volumesOf(login).map(({ name, at }) => ({ name, at })),
    ends: { idle_ms: IDLE_MS },
  }
  return {
    async make() {
      const sandbox = await createWithParts(context, client, body, harnesses)
      const copied = source && (await copyWorkspaceIn(context, client, sandbox, source))
      return { sandbox, copiedFiles: copied?.files, notes: [...notes, note] }
    },
  }
}

/** Prepares the parts of the sandbox. Returns the name of the image if it is not Craik's default image. */
async function partsFor(
  context: CliContext,
  client: ApiClient,
  settings: LoginSandboxSettings,
  backend: 'docker' | 'process',
): Promise<string | undefined> {
  if (backend === 'docker') {
    await requireSameEngine(context, client)
    const { name } = await makeImage(context, await imageFor(settings))
    return settings.packages === undefined ? undefined : name
  }
  if (settings.packages !== undefined) throw noPackages()
  await installHarnesses(context, parseWantedAgents(settings))
  return undefined
}

export function noPackages(): CraikError {
  return new CraikError(
    'usage',
    'Debian packages need a container image; process sandboxes do not have one',
    {
      hint: 'install Docker or Podman, or install the packages on this machine',
    },
  )
}

export async function imageFor(settings: LoginSandboxSettings): Promise<RequestedImage> {
  return { packages: await packagesOf(settings.packages), harnesses: parseWantedAgents(settings) }
}

export function parseWantedAgents({ harnesses }: LoginSandboxSettings): readonly PackageName[] {
  return parseHarnesses(harnesses ?? 'all')
}

/**
 * Decides whether to mount the folder or copy it. A folder of root is copied, because nothing in a sandbox runs as
 * root. The folder that Craik runs from is copied too.
 */
function workspaceOf(settings: LoginSandboxSettings, typed: TypedOptions): Workspace {
  const { workspace } = settings
  const stats = lstatSync(workspace, { throwIfNoEntry: false })
  if (stats === undefined || !(stats.isDirectory() || stats.isSymbolicLink()))
    throw new CraikError('usage', `there is no folder ${workspace}`, {
      hint: `choose a project folder:  ${formatRepeatCommand('up', settings, typed, { workspace: 'FOLDER' })}`,
    })
  const uid = process.getuid?.()
  const isOwn = uid !== 0 ? stats.uid === uid : stats.uid !== 0
  if (isOwn && !overlapsCraikPrograms(workspace)) return { inPlace: true, note: IN_PLACE }
  const why = isOwn
    ? 'is or contains the folder that Craik runs from'
    : `belongs to ${stats.uid === 0 ? 'root' : 'another user'}`
  const note = `the workspace is a copy of ${workspace}, which ${why}: copy your work out with  craik sandbox cp`
  return { inPlace: false, note }
}

const IN_PLACE =
  'the folder itself is mounted: review changes before you run git, an editor or a build in it on the host'
