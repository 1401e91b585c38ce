/** A sandbox made by bubblewrap: started, found again, and ended without a trace. */
import { join } from 'node:path'
import { CraikError } from '../../../errors.ts'
import { ownerOf } from '../../../lib/owner.ts'
import type { HostUser, RunningPlace, SandboxSpec } from '../../backend.ts'
import { harnessesFolder, requireHarnesses } from '../../harness-package.ts'
import { type ExpectedVolume, faultInVolumes } from '../../volumes/evidence.ts'
import { openVolumes } from '../../volumes/folders.ts'
import { SandboxCgroup } from './cgroups.ts'
import { imageUse } from './disk-image.ts'
import { faultSeenFromOutside } from './evidence.ts'
import { diskFolders, makeFolders, type PlaceFolders, placeFolders, stagedFolders } from './folders.ts'
import { writeExclude } from './git-exclude.ts'
import { watchGuards } from './guard-watch.ts'
import type { ProcessHandle } from './handle.ts'
import { chooseHostUser } from './host-user.ts'
import { checkInPlace, type InPlace } from './in-place.ts'
import { type Launched, launch } from './launch.ts'
import { launchCommand, type Staging } from './launch-script.ts'
import { type LimitPlan, planLimits } from './limits.ts'
import type { Machine } from './machine.ts'
import { runningPlace } from './place.ts'
import { type PlaceSources, placeInvocation } from './place-arguments.ts'
import { endAll, endProcesses, findPlaceProcesses } from './place-processes.ts'
import { chooseStage } from './stage.ts'
import { type ExpectedWorkspace, faultInWorkspace } from './workspace-evidence.ts'
import { guardWorkspace, releaseWorkspace, takenNames } from './workspace-guard.ts'

export interface Surroundings {
  readonly craikHome: string
  readonly environment: NodeJS.ProcessEnv
}

/** Fails with nothing running; what it made in the sandbox's folder is the caller's to sweep. */
export async function startIsolated(
  spec: SandboxSpec,
  machine: Machine,
  around: Surroundings,
): Promise<RunningPlace> {
  const bubblewrap = await machine.bubblewrap()
  const user = chooseHostUser(spec)
  const inPlace =
    spec.workspace.mode === 'in-place' ? await checkInPlace(spec.workspace.folder, user, around) : undefined
  const [means, runtime] = await Promise.all([
    machine.limitMeans(spec.limits.diskBytes !== undefined),
    machine.runtimeFor(spec.folder),
  ])
  const ids = spec.harnesses ?? []
  const harnesses = ids.length === 0 ? undefined : harnessesFolder(around)
  await requireHarnesses(around, ids)
  const volumes = await openVolumes(spec.volumes ?? [], user)
  const plan = planLimits(spec.limits, inPlace !== undefined || volumes.length > 0, means)
  const folders = await makeFolders(spec.folder, user, plan.imageBytes, volumes)
  const cgroup = new SandboxCgroup(machine.cgroups, spec.id)
  cgroup.create(spec.limits)
  const guarded = inPlace && guardWorkspace(spec.folder, inPlace, user)
  const exclude = stagedFolders(folders.staged).exclude
  const hasExclude = inPlace !== undefined && writeExclude(takenNames(spec.folder), inPlace.folder, exclude)
  const shown = {
    ...{ runtime: runtime.folder, harnesses, workspace: inPlace },
    volumes: volumes.map(({ folder }) => folder),
  }
  const staging = user && stagingOf(folders, user, plan, shown)
  const from = staging
    ? stagedFolders(staging.stage)
    : {
        ...{ ...folders, runtime: runtime.folder, exclude },
        ...{ harnesses: harnesses ?? '', workspace: inPlace?.folder ?? '' },
      }
  const sources: PlaceSources = {
    ...diskFolders(from.data),
    socketFolder: from.socket,
    runtime: from.runtime,
    harnesses: { folder: from.harnesses, ids },
    volumes: volumes.map(({ name, folder, at }) => ({
      folder: staging ? join(stagedFolders(staging.stage).volumes, name) : folder,
      at,
    })),
    workspace: inPlace && {
      folder: from.workspace,
      guarded: guarded ?? [],
      exclude: hasExclude ? from.exclude : undefined,
    },
  }
  const { programs } = machine
  const { argv, inputs } = placeInvocation({
    sources,
    programs: { bwrap: bubblewrap.path, disableUserns: bubblewrap.disableUserns, ...programs },
    limits: spec.limits,
    resources: plan.resources,
  })
  const command = launchCommand(programs, cgroup.joinFiles, staging, argv)
  const launched = await launch({ id: spec.id, argv: command, inputs })
  const expected = inPlace && { identity: inPlace.identity, guarded: guarded ?? [] }
  const handle = examined(launched, user?.uid ?? process.getuid?.() ?? 0, plan, {
    workspace: expected,
    volumes,
  })
  return isolatedPlace(handle, spec, machine, launched)
}

export function isolatedPlace(
  handle: ProcessHandle,
  spec: SandboxSpec,
  machine: Machine,
  launched?: Launched,
): RunningPlace {
  const folders = placeFolders(spec.folder)
  const cgroup = new SandboxCgroup(machine.cgroups, spec.id)
  return runningPlace({
    ...(launched && { child: launched.child, complaint: launched.complaint }),
    handle,
    isolation: 'process',
    socketFolder: folders.socket,
    async observe() {
      const diskBytes = await imageUse(folders.image)
      return { ...cgroup.observe(), ...(diskBytes !== undefined && { diskBytes }) }
    },
    freezing: cgroup.canFreeze ? cgroup : undefined,
    watch:
      spec.workspace.mode === 'in-place'
        ? (end) => watchGuards(handle.inner.pid, spec.folder, end)
        : undefined,
    async end() {
      // What stands still does not end.
      await cgroup.thaw()
      // bubblewrap itself leaves when its child is gone.
      await endProcesses([handle.inner])
      await endProcesses([handle.outer])
      await removeTraces(spec, machine)
    },
  })
}

/** Whatever runs for a sandbox that is not to run, also when nobody wrote down that it does. */
export async function sweepIsolated(spec: SandboxSpec, machine: Machine): Promise<void> {
  const cgroup = new SandboxCgroup(machine.cgroups, spec.id)
  await cgroup.thaw()
  await endAll(async () => {
    const members = cgroup.members().flatMap((pid) => ownerOf(pid) ?? [])
    return [...members, ...(await findPlaceProcesses(spec))]
  })
  await removeTraces(spec, machine)
}

async function removeTraces(spec: SandboxSpec, machine: Machine): Promise<void> {
  await new SandboxCgroup(machine.cgroups, spec.id).remove()
  releaseWorkspace(spec.folder)
}

/** Looked at from outside before anything is entrusted to it. */
function examined(
  { innerPid, child }: Launched,
  hostUid: number,
  { report }: LimitPlan,
  shown: {
    readonly workspace: ExpectedWorkspace | undefined
    readonly volumes: readonly ExpectedVolume[]
  },
): ProcessHandle {
  const [inner, outer] = [ownerOf(innerPid), ownerOf(child.pid!)]
  if (inner === undefined || outer === undefined)
    throw new CraikError('unavailable', 'the sandbox ended at once')
  const fault =
    faultSeenFromOutside(innerPid, hostUid) ??
    (shown.workspace && faultInWorkspace(innerPid, shown.workspace)) ??
    faultInVolumes(innerPid, shown.volumes, ['nosuid', 'nodev'])
  if (fault !== undefined) throw new CraikError('unavailable', `the sandbox does not isolate: ${fault}`)
  return { inner, outer, hostUid, limits: report }
}

function stagingOf(
  { data, image, socket, staged }: PlaceFolders,
  user: HostUser,
  plan: LimitPlan,
  shown: Pick<Staging, 'runtime' | 'harnesses' | 'volumes'> & { readonly workspace: InPlace | undefined },
): Staging {
  const { runtime, harnesses, workspace } = shown
  const others = [...(harnesses ? [harnesses] : []), ...(workspace ? [workspace.folder] : [])]
  const stage = chooseStage([staged, runtime, ...others])
  const isImage = plan.imageBytes !== undefined
  return { user, staged, stage, ...shown, socket, disk: isImage ? image : data, isImage }
}
