/** Starts a sandbox with bubblewrap, finds it again, and ends it without leaving a trace. */
import { join } from 'node:path'
import { CraikError } from '../../../errors.ts'
import { ownerOf } from '../../../lib/owner.ts'
import type { HostUser, SandboxInstance, SandboxSpec } from '../../backend.ts'
import { harnessesFolder, requireHarnesses } from '../../harness-package.ts'
import { type ExpectedVolume, findVolumeFault } from '../../volumes/verify-volumes.ts'
import { openVolumes } from '../../volumes/volume-folders.ts'
import { findOtherHome, folderArgument } from './another-home.ts'
import { SandboxCgroup } from './cgroups.ts'
import { measureImage } from './disk-image.ts'
import { writeExclude } from './git-exclude.ts'
import { watchGuards } from './guard-watch.ts'
import type { ProcessHandle } from './handle.ts'
import { chooseHostUser } from './host-user.ts'
import { checkInPlace, type InPlace } from './in-place.ts'
import { createInstance } from './instance.ts'
import {
  diskFolders,
  type InstanceFolders,
  instanceFolders,
  makeFolders,
  stagingFolders,
} from './instance-folders.ts'
import { endAll, endProcesses, findInstanceProcesses } from './instance-processes.ts'
import { buildInvocation, type LaunchSources } from './launch-arguments.ts'
import { type Launched, launchProcess } from './launch-process.ts'
import { buildLaunchCommand, type Staging } from './launch-script.ts'
import type { HostFeatures } from './machine.ts'
import { type LimitPlan, planLimits } from './resource-limits.ts'
import { chooseStage } from './stage.ts'
import { findIsolationFault } from './verify-isolation.ts'
import { type ExpectedWorkspace, findWorkspaceFault } from './verify-workspace.ts'
import { guardWorkspace, readCreatedNames, releaseWorkspace } from './workspace-guard.ts'

export interface HostSetup {
  readonly craikHome: string
  readonly environment: NodeJS.ProcessEnv
}

/** Starts a sandbox. After a failure, the caller must sweep what this function started and created. */
export async function startIsolated(
  spec: SandboxSpec,
  machine: HostFeatures,
  around: HostSetup,
): Promise<SandboxInstance> {
  const bubblewrap = await machine.bubblewrap()
  const user = chooseHostUser(spec)
  const inPlace =
    spec.workspace.mode === 'in-place' ? await checkInPlace(spec.workspace.folder, user, around) : undefined
  const [limitSupport, runtime] = await Promise.all([
    machine.readLimitSupport(spec.limits.diskBytes !== undefined),
    machine.runtimeFor(spec.folder),
  ])
  const ids = spec.harnesses ?? []
  const harnesses = ids.length === 0 ? undefined : harnessesFolder(around)
  await requireHarnesses(around, ids)
  const volumes = await openVolumes(spec.volumes ?? [], user)
  const plan = planLimits(spec.limits, inPlace !== undefined || volumes.length > 0, limitSupport)
  const folders = await makeFolders(spec.folder, user, plan.imageBytes, volumes)
  const cgroup = new SandboxCgroup(machine.cgroups, spec.id)
  cgroup.create(spec.limits)
  const guarded = inPlace && guardWorkspace(spec.folder, inPlace, user)
  const exclude = stagingFolders(folders.staged).exclude
  const hasExclude =
    inPlace !== undefined && writeExclude(readCreatedNames(spec.folder), inPlace.folder, exclude)
  const mounted = {
    runtime: runtime.folder,
    harnesses,
    workspace: inPlace,
    volumes: volumes.map(({ folder }) => folder),
  }
  const staging = user && stagingOf(folders, user, plan, mounted)
  const from = staging
    ? stagingFolders(staging.stage)
    : {
        ...folders,
        runtime: runtime.folder,
        exclude,
        harnesses: harnesses ?? '',
        workspace: inPlace?.folder ?? '',
      }
  const sources: LaunchSources = {
    ...diskFolders(from.data),
    socketFolder: from.socket,
    runtime: from.runtime,
    harnesses: { folder: from.harnesses, ids },
    volumes: volumes.map(({ name, folder, at }) => ({
      folder: staging ? join(stagingFolders(staging.stage).volumes, name) : folder,
      at,
    })),
    workspace: inPlace && {
      folder: from.workspace,
      guarded: guarded ?? [],
      exclude: hasExclude ? from.exclude : undefined,
    },
  }
  const { programs } = machine
  const { argv, inputs } = buildInvocation({
    sources,
    programs: { bwrap: bubblewrap.path, disableUserns: bubblewrap.disableUserns, ...programs },
    limits: spec.limits,
    resources: plan.resources,
    mark: folderArgument(spec),
  })
  const command = buildLaunchCommand(programs, cgroup.joinFiles, staging, argv)
  const launched = await launchProcess({ id: spec.id, argv: command, inputs })
  const expected = inPlace && { identity: inPlace.identity, guarded: guarded ?? [] }
  const handle = verifyInstance(launched, user?.uid ?? process.getuid?.() ?? 0, plan, {
    workspace: expected,
    volumes,
  })
  return isolatedInstance(handle, spec, machine, launched)
}

export function isolatedInstance(
  handle: ProcessHandle,
  spec: SandboxSpec,
  machine: HostFeatures,
  launched?: Launched,
): SandboxInstance {
  const folders = instanceFolders(spec.folder)
  const cgroup = new SandboxCgroup(machine.cgroups, spec.id)
  return createInstance({
    ...(launched && { child: launched.child, errorOutput: launched.errorOutput }),
    handle,
    isolation: 'process',
    socketFolder: folders.socket,
    async observe() {
      const diskBytes = await measureImage(folders.image)
      return { ...cgroup.observe(), ...(diskBytes !== undefined && { diskBytes }) }
    },
    freezing: cgroup.canFreeze ? cgroup : undefined,
    watch:
      spec.workspace.mode === 'in-place'
        ? (end) => watchGuards(handle.inner.pid, spec.folder, end)
        : undefined,
    async end() {
      // Frozen processes do not die.
      await cgroup.thaw()
      // bubblewrap itself exits when its child is gone.
      await endProcesses([handle.inner])
      await endProcesses([handle.outer])
      await removeTraces(spec, machine)
    },
  })
}

/** Ends everything that runs for a sandbox that must not run, even if no record says that it runs. */
export async function sweepIsolated(spec: SandboxSpec, machine: HostFeatures): Promise<void> {
  const cgroup = new SandboxCgroup(machine.cgroups, spec.id)
  const find = async () => {
    const members = cgroup.members().flatMap((pid) => ownerOf(pid) ?? [])
    return [...members, ...(await findInstanceProcesses(spec))]
  }
  // The control group and the protected names in the workspace then belong to the other home's sandbox.
  if ((await find()).length > 0 && (await findOtherHome(spec)) !== undefined) return
  await cgroup.thaw()
  await endAll(find)
  await removeTraces(spec, machine)
}

async function removeTraces(spec: SandboxSpec, machine: HostFeatures): Promise<void> {
  await new SandboxCgroup(machine.cgroups, spec.id).remove()
  releaseWorkspace(spec.folder)
}

/** Inspects the sandbox from the host before Craik trusts it with anything. */
function verifyInstance(
  { innerPid, child }: Launched,
  hostUid: number,
  { report }: LimitPlan,
  mounted: {
    readonly workspace: ExpectedWorkspace | undefined
    readonly volumes: readonly ExpectedVolume[]
  },
): ProcessHandle {
  const [inner, outer] = [ownerOf(innerPid), ownerOf(child.pid!)]
  if (inner === undefined || outer === undefined)
    throw new CraikError('unavailable', 'the sandbox exited immediately')
  const fault =
    findIsolationFault(innerPid, hostUid) ??
    (mounted.workspace && findWorkspaceFault(innerPid, mounted.workspace)) ??
    findVolumeFault(innerPid, mounted.volumes, ['nosuid', 'nodev'])
  if (fault !== undefined)
    throw new CraikError(
      'unavailable',
      `refused to start the sandbox, because it is not isolated: ${fault}`,
      {
        hint: 'check this machine:  craik doctor',
      },
    )
  return { inner, outer, hostUid, limits: report }
}

function stagingOf(
  { data, image, socket, staged }: InstanceFolders,
  user: HostUser,
  plan: LimitPlan,
  mounted: Pick<Staging, 'runtime' | 'harnesses' | 'volumes'> & { readonly workspace: InPlace | undefined },
): Staging {
  const { runtime, harnesses, workspace } = mounted
  const others = [...(harnesses ? [harnesses] : []), ...(workspace ? [workspace.folder] : [])]
  const stage = chooseStage([staged, runtime, ...others])
  const isImage = plan.imageBytes !== undefined
  return { user, staged, stage, ...mounted, socket, disk: isImage ? image : data, isImage }
}
