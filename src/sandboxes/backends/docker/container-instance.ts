/** Starts a container for a sandbox, finds it again, and removes it with all its traces. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Container, ContainerInspectInfo } from 'dockerode'
import { CraikError } from '../../../errors.ts'
import { INSIDE } from '../../../sidecar/protocol.ts'
import type { ContainerSpec, HostUser, LimitReport, SandboxInstance, SandboxSpec } from '../../backend.ts'
import { findVolumeFault } from '../../volumes/verify-volumes.ts'
import { measureImage } from '../process/disk-image.ts'
import { watchGuards } from '../process/guard-watch.ts'
import { chooseHostUser } from '../process/host-user.ts'
import { instanceFolders } from '../process/instance-folders.ts'
import { findWorkspaceFault } from '../process/verify-workspace.ts'
import { releaseWorkspace } from '../process/workspace-guard.ts'
import { containerConfig, environmentFor } from './container-config.ts'
import { spillVolume } from './container-names.ts'
import { observeContainer } from './container-usage.ts'
import { dialRelay } from './dial-relay.ts'
import { closeDisk } from './disk.ts'
import type { Engine } from './engine/engine.ts'
import { removeVolume } from './engine-volumes.ts'
import type { Engines } from './engines.ts'
import { type DockerHandle, formatDockerHandle } from './handle.ts'
import { closeHotMounts } from './hot-mount-folder.ts'
import { hotMount } from './hot-mounts.ts'
import { type FoundImage, findRecordedImage } from './image/recorded-image.ts'
import type { FollowingContainer } from './mount-propagation.ts'
import { faultInMounted } from './mounts.ts'
import { requireRuntime } from './plan-container.ts'
import { type MountContext, type PreparedMounts, prepareMounts } from './prepare-mounts.ts'
import { removeContainer } from './remove-container.ts'
import { type Expected, faultInDescription, inspectProcess, isMountedInside } from './verify-isolation.ts'
import { whenEnded } from './watch-end.ts'

/** The image's own `agent` user, for engines that choose its number on the host. */
export const USER_OF_IMAGE: HostUser = { uid: 1000, gid: 1000 }
const START_DEADLINE_MS = 60_000
/** Until the runtime has executed the container's first program, the process shows the runtime's own properties. */
const LOOK_DEADLINE_MS = 10_000
const LOOK_PAUSE_MS = 10
const PAUSE_ATTEMPTS = 5
const PAUSE_RETRY_MS = 200

/** Starts a container. If it fails, the caller must sweep what exists by then. */
export async function startContainer(
  engine: Engine,
  spec: SandboxSpec,
  recorded: ContainerSpec,
  diskBytes: number | undefined,
  around: MountContext,
): Promise<DockerHandle> {
  requireRuntime(engine, recorded.runtime)
  const image = await findRecordedImage(engine, recorded, around.craikHome)
  refuseVolumes(image, recorded.imageName)
  const container = { ...recorded, image: image.id }
  const user = userOf(spec, container)
  const prepared = await prepareMounts(engine, spec, container, user, diskBytes, around)
  const { shown: mounted } = prepared
  const imageEnvironment = image.environment
  const parts = { spec, container, craikHome: around.craikHome, user, shown: mounted, imageEnvironment }
  const environment = environmentFor(engine, parts)
  const made = await engine.ask(
    'create a container',
    () => engine.docker.createContainer(containerConfig(engine, parts)),
    { deadlineMs: START_DEADLINE_MS },
  )
  await engine.ask('start a container', () => made.start(), { deadlineMs: START_DEADLINE_MS })
  const found = await engine.ask('inspect a container', () => made.inspect())
  const hostUid = await verifyContainer(
    engine,
    found,
    { container, user, shown: mounted, environment },
    prepared,
  )
  return {
    container: found.Id,
    engine: engine.id,
    image: image.id,
    startedAt: found.State.StartedAt,
    pid: found.State.Pid,
    hostUid,
    limits: reportOf(engine, spec, prepared.isDiskBounded),
  }
}

/** Each would become a volume of the engine that nobody requested and that has no limit. */
function refuseVolumes({ volumes }: FoundImage, name: string): void {
  if (volumes.length === 0) return
  const named = volumes.slice(0, 5).map((path) => JSON.stringify(path.slice(0, 100)))
  throw new CraikError('unavailable', `the image ${name} declares volumes: VOLUME ${named.join(' ')}`, {
    hint: 'build the image without VOLUME, which later instructions cannot undo; keep data in the home folder',
  })
}

function userOf(spec: SandboxSpec, { state }: ContainerSpec): HostUser {
  if (state === 'volume') return USER_OF_IMAGE
  const own = { uid: process.getuid?.() ?? 1000, gid: process.getgid?.() ?? 1000 }
  return chooseHostUser(spec) ?? own
}

/** Inspects a container from the host before Craik trusts it with anything. Returns its user's id on this machine. */
async function verifyContainer(
  engine: Engine,
  found: ContainerInspectInfo,
  expected: Expected,
  prepared: PreparedMounts,
): Promise<number> {
  const refuse = (fault: string) =>
    new CraikError('unavailable', `refused to start the sandbox, because it is not isolated: ${fault}`, {
      hint: 'check this machine:  craik doctor',
    })
  if (!found.State.Running)
    throw new CraikError(
      'unavailable',
      `the sandbox exited immediately (exit code ${found.State.ExitCode})`,
      {
        hint: `check that ${expected.container.imageName} is one of Craik’s images:  craik image list`,
      },
    )
  const described = faultInDescription(found, expected, engine.product)
  if (described !== undefined) throw refuse(described)
  // The host process is gVisor's own kernel. gVisor manages the rights of the programs that it runs.
  if (!engine.sharesFolders || expected.container.runtime === 'runsc') return expected.user.uid
  const endsMs = performance.now() + LOOK_DEADLINE_MS
  for (;;) {
    const seen = inspectContainer(found.State.Pid, expected, prepared, engine)
    if (seen.fault === undefined) return seen.uid
    if (performance.now() > endsMs) throw refuse(seen.fault)
    await sleep(LOOK_PAUSE_MS)
  }
}

function inspectContainer(
  pid: number,
  { user, shown: mounted }: Expected,
  prepared: PreparedMounts,
  engine: Engine,
) {
  const { workspace, mounts, volumes } = prepared
  try {
    const { uid, fault: unheld } = inspectProcess(pid)
    if (unheld !== undefined) return { uid, fault: unheld }
    if (engine.remapsUsers) return { uid, fault: undefined }
    if (uid !== user.uid) return { uid, fault: 'it runs as the wrong user' }
    const home = mounted.find(({ type, target }) => type === 'bind' && target === INSIDE.home)
    if (home && !isMountedInside(pid, home.target, home.source))
      return { uid, fault: 'its home is not its own disk' }
    const fault =
      (workspace && findWorkspaceFault(pid, workspace)) ??
      faultInMounted(pid, mounts) ??
      findVolumeFault(pid, volumes)
    return { uid, fault }
  } catch (error) {
    return { uid: 0, fault: `it cannot be inspected (${(error as NodeJS.ErrnoException).code})` }
  }
}

function reportOf(
  engine: Engine,
  { limits, workspace, volumes = [], late: hotMounts, container }: SandboxSpec,
  isDiskBounded: boolean,
): LimitReport {
  const enforcementOf = (holds: boolean) => (holds ? 'cgroup' : 'not-enforced')
  const isOnDisk = workspace.mode === 'copy' && hotMounts?.workspace !== true && volumes.length === 0
  const disk = isDiskBounded && isOnDisk ? 'filesystem' : 'not-enforced'
  return {
    memory: enforcementOf(engine.holds.memory),
    // gVisor counts its own threads. `hostThreads` in container-config.ts sets that limit.
    processes: enforcementOf(engine.holds.processes && container?.runtime !== 'runsc'),
    cpu: limits.cpuMillis === undefined ? 'not-asked' : enforcementOf(engine.holds.cpu),
    disk: limits.diskBytes === undefined ? 'not-asked' : disk,
  }
}

export function containerInstance(
  engines: Engines,
  engine: Engine,
  handle: DockerHandle,
  spec: SandboxSpec,
  around: MountContext,
  following?: FollowingContainer,
): SandboxInstance {
  const { craikHome } = around
  const watching = new AbortController()
  let isDestroyed = false
  let guards: Disposable | undefined
  let unprotected: string | undefined
  const ended = whenEnded(engines, handle, watching.signal).then((why) => {
    guards?.[Symbol.dispose]()
    return unprotected ?? (why === undefined || isDestroyed ? 'it was destroyed' : why)
  })
  const askEngine = (doing: string, act: (engine: Engine) => Promise<unknown>) =>
    engines.with(handle.engine, (one) => one.ask(doing, () => act(one))).then(() => {})
  const containerOf = (one: Engine) => one.docker.getContainer(handle.container)
  // A rootless engine cannot freeze containers with the first version of cgroups.
  const canPause = !(engine.isRootless && engine.cgroupVersion === 1)
  let destroying: Promise<void> | undefined
  const { socket, image } = instanceFolders(spec.folder)
  const watchWorkspace = ({ workspace, folder, container }: SandboxSpec) => {
    // The host cannot see the mounts in these containers.
    if (workspace.mode !== 'in-place' || container?.runtime === 'runsc' || engine.remapsUsers) return
    guards = watchGuards(handle.pid, folder, (why) => {
      unprotected = why
      return askEngine('kill a container', (one) => containerOf(one).kill())
    })
  }
  watchWorkspace(spec)
  return {
    handle: formatDockerHandle(handle),
    isolation: 'container',
    hostUid: handle.hostUid,
    limits: handle.limits,
    line:
      spec.container?.line === 'relay'
        ? { kind: 'dial', dial: (until) => dialRelay(engines, handle, until) }
        : { kind: 'socket', folder: socket },
    ended,
    async observe() {
      const [use, diskBytes] = await Promise.all([
        engines.with(handle.engine, (one) => observeContainer(one, handle)),
        measureImage(image),
      ])
      return { ...use, ...(diskBytes !== undefined && { diskBytes }) }
    },
    ...(canPause && {
      pause: () => askEngine('pause a container', (one) => setPaused(containerOf(one), true)),
      unpause: () => askEngine('unpause a container', (one) => setPaused(containerOf(one), false)),
    }),
    ...(following && {
      async mountFolders(mounted: SandboxSpec) {
        await hotMount(following, mounted, around)
        watchWorkspace(mounted)
      },
    }),
    destroy() {
      isDestroyed = true
      const remove = async (one: Engine) => {
        await removeContainer(one, handle.container)
        await removeVolume(one, spillVolume(spec.id), spec.id, craikHome)
        await removeTraces(spec)
        guards?.[Symbol.dispose]()
        watching.abort()
      }
      destroying ??= engines.removals
        .run(undefined, () => engines.with(handle.engine, remove))
        .finally(() => {
          destroying = undefined
        })
      return destroying
    },
  }
}

/**
 * Pauses or resumes a container. An engine refuses a state that the container already has. With the first version of
 * cgroups, runc fails for a container that starts processes all the time, or on a busy machine. This function then
 * retries.
 */
export async function setPaused(container: Container, isPaused: boolean): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    const { State } = await container.inspect()
    if (State.Paused === isPaused) return
    try {
      await (isPaused ? container.pause() : container.unpause())
      return
    } catch (error) {
      if (attempt === PAUSE_ATTEMPTS || !/unable to freeze/.test((error as Error).message)) throw error
      await sleep(PAUSE_RETRY_MS)
    }
  }
}

/** Removes the host's mounts and traces of a container that is gone. */
export async function removeTraces(spec: SandboxSpec): Promise<void> {
  await closeHotMounts(spec.folder)
  await closeDisk(spec.folder)
  releaseWorkspace(spec.folder)
}
