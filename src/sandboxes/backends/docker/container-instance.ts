/** A sandbox in a container: started, found again, and ended without a trace. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Container, ContainerInspectInfo } from 'dockerode'
import { CraikError } from '../../../errors.ts'
import { INSIDE } from '../../../sidecar/protocol.ts'
import type { ContainerSpec, HostUser, LimitReport, SandboxInstance, SandboxSpec } from '../../backend.ts'
import { faultInVolumes } from '../../volumes/verify-volumes.ts'
import { imageUse } from '../process/disk-image.ts'
import { instanceFolders } from '../process/folders.ts'
import { watchGuards } from '../process/guard-watch.ts'
import { chooseHostUser } from '../process/host-user.ts'
import { faultInWorkspace } from '../process/verify-workspace.ts'
import { releaseWorkspace } from '../process/workspace-guard.ts'
import { containerConfig, environmentFor } from './container-config.ts'
import { dialRelay } from './dial.ts'
import { closeDisk } from './disk.ts'
import type { Engine } from './engine/engine.ts'
import type { Engines } from './engines.ts'
import type { FollowingContainer } from './following.ts'
import { type DockerHandle, formatDockerHandle } from './handle.ts'
import { closeHotMounts } from './hot-mount-folder.ts'
import { mountLate } from './hot-mounts.ts'
import { type FoundImage, recordedImage } from './image/recorded-image.ts'
import { faultInMounted } from './mounts.ts'
import { spillVolume } from './names.ts'
import { requireRuntime } from './plan.ts'
import { type Around, type PreparedMounts, prepareMounts } from './prepare-mounts.ts'
import { removeContainer } from './remove-container.ts'
import { observeContainer } from './usage.ts'
import { type Expected, faultInDescription, isMountedInside, lookAtProcess } from './verify-isolation.ts'
import { removeVolume } from './volumes.ts'
import { whenEnded } from './watch-end.ts'

/** The image's own `agent`, where its number on the host is the engine's to choose. */
export const USER_OF_IMAGE: HostUser = { uid: 1000, gid: 1000 }
const START_DEADLINE_MS = 60_000
/** Until the engine's runtime has become the first program inside, it looks like itself. */
const LOOK_DEADLINE_MS = 10_000
const LOOK_PAUSE_MS = 10
const PAUSE_ATTEMPTS = 5
const PAUSE_RETRY_MS = 200

/** Fails with what it made left to the caller to sweep. */
export async function startContainer(
  engine: Engine,
  spec: SandboxSpec,
  recorded: ContainerSpec,
  diskBytes: number | undefined,
  around: Around,
): Promise<DockerHandle> {
  requireRuntime(engine, recorded.runtime)
  const image = await recordedImage(engine, recorded, around.craikHome)
  refuseVolumes(image, recorded.imageName)
  const container = { ...recorded, image: image.id }
  const user = userOf(spec, container)
  const prepared = await prepareMounts(engine, spec, container, user, diskBytes, around)
  const { shown } = prepared
  const imageEnvironment = image.environment
  const parts = { spec, container, craikHome: around.craikHome, user, shown, imageEnvironment }
  const environment = environmentFor(engine, parts)
  const made = await engine.ask(
    'create a container',
    () => engine.docker.createContainer(containerConfig(engine, parts)),
    { deadlineMs: START_DEADLINE_MS },
  )
  await engine.ask('start a container', () => made.start(), { deadlineMs: START_DEADLINE_MS })
  const found = await engine.ask('inspect a container', () => made.inspect())
  const hostUid = await examine(engine, found, { container, user, shown, environment }, prepared)
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

/** Each would be a folder of the engine that nobody asked for, and that has no limit. */
function refuseVolumes({ volumes }: FoundImage, name: string): void {
  if (volumes.length === 0) return
  const named = volumes.slice(0, 5).map((path) => JSON.stringify(path.slice(0, 100)))
  throw new CraikError('unavailable', `the image ${name} declares volumes: VOLUME ${named.join(' ')}`, {
    hint: 'build it without VOLUME, which later instructions cannot undo; keep data in the home folder',
  })
}

function userOf(spec: SandboxSpec, { state }: ContainerSpec): HostUser {
  if (state === 'volume') return USER_OF_IMAGE
  const own = { uid: process.getuid?.() ?? 1000, gid: process.getgid?.() ?? 1000 }
  return chooseHostUser(spec) ?? own
}

/** Looked at from outside before anything is entrusted to it. Tells whose rights it has on this machine. */
async function examine(
  engine: Engine,
  found: ContainerInspectInfo,
  expected: Expected,
  prepared: PreparedMounts,
): Promise<number> {
  const refuse = (fault: string) =>
    new CraikError('unavailable', `the sandbox is not isolated: ${fault}`, { hint: 'craik doctor' })
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
  // gVisor's own kernel is what runs there on the host; the rights of what it runs are its own affair.
  if (!engine.sharesFolders || expected.container.runtime === 'runsc') return expected.user.uid
  const endsMs = performance.now() + LOOK_DEADLINE_MS
  for (;;) {
    const seen = lookAt(found.State.Pid, expected, prepared, engine)
    if (seen.fault === undefined) return seen.uid
    if (performance.now() > endsMs) throw refuse(seen.fault)
    await sleep(LOOK_PAUSE_MS)
  }
}

function lookAt(pid: number, { user, shown }: Expected, prepared: PreparedMounts, engine: Engine) {
  const { workspace, mounts, volumes } = prepared
  try {
    const { uid, fault: unheld } = lookAtProcess(pid)
    if (unheld !== undefined) return { uid, fault: unheld }
    if (engine.remapsUsers) return { uid, fault: undefined }
    if (uid !== user.uid) return { uid, fault: 'it runs as the wrong user' }
    const home = shown.find(({ type, target }) => type === 'bind' && target === INSIDE.home)
    if (home && !isMountedInside(pid, home.target, home.source))
      return { uid, fault: 'its home is not its own disk' }
    const fault =
      (workspace && faultInWorkspace(pid, workspace)) ??
      faultInMounted(pid, mounts) ??
      faultInVolumes(pid, volumes)
    return { uid, fault }
  } catch (error) {
    return { uid: 0, fault: `it cannot be inspected (${(error as NodeJS.ErrnoException).code})` }
  }
}

function reportOf(
  engine: Engine,
  { limits, workspace, volumes = [], late, container }: SandboxSpec,
  isDiskBounded: boolean,
): LimitReport {
  const held = (holds: boolean) => (holds ? 'cgroup' : 'not-enforced')
  const isOnDisk = workspace.mode === 'copy' && late?.workspace !== true && volumes.length === 0
  const disk = isDiskBounded && isOnDisk ? 'filesystem' : 'not-enforced'
  return {
    memory: held(engine.holds.memory),
    // gVisor counts its own threads; see where the limit is set.
    processes: held(engine.holds.processes && container?.runtime !== 'runsc'),
    cpu: limits.cpuMillis === undefined ? 'not-asked' : held(engine.holds.cpu),
    disk: limits.diskBytes === undefined ? 'not-asked' : disk,
  }
}

export function containerInstance(
  engines: Engines,
  engine: Engine,
  handle: DockerHandle,
  spec: SandboxSpec,
  around: Around,
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
  const asked = (doing: string, act: (engine: Engine) => Promise<unknown>) =>
    engines.with(handle.engine, (one) => one.ask(doing, () => act(one))).then(() => {})
  const containerOf = (one: Engine) => one.docker.getContainer(handle.container)
  // Nothing freezes what an engine without rights holds by the first version of cgroups.
  const canPause = !(engine.isRootless && engine.cgroupVersion === 1)
  let destroying: Promise<void> | undefined
  const { socket, image } = instanceFolders(spec.folder)
  const watchWorkspace = ({ workspace, folder, container }: SandboxSpec) => {
    // Of these the host does not see what is mounted inside.
    if (workspace.mode !== 'in-place' || container?.runtime === 'runsc' || engine.remapsUsers) return
    guards = watchGuards(handle.pid, folder, (why) => {
      unprotected = why
      return asked('kill a container', (one) => containerOf(one).kill())
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
        imageUse(image),
      ])
      return { ...use, ...(diskBytes !== undefined && { diskBytes }) }
    },
    ...(canPause && {
      pause: () => asked('pause a container', (one) => setPaused(containerOf(one), true)),
      unpause: () => asked('unpause a container', (one) => setPaused(containerOf(one), false)),
    }),
    ...(following && {
      async show(shown: SandboxSpec) {
        await mountLate(following, shown, around)
        watchWorkspace(shown)
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
        .pass(undefined, () => engines.with(handle.engine, remove))
        .finally(() => {
          destroying = undefined
        })
      return destroying
    },
  }
}

/**
 * Pauses a container, or lets it run again. An engine refuses what is done already. With the first version of cgroups, runc
 * gives up on a container that starts processes all the time, or on a busy machine: then it is asked again.
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

/** What the host itself holds for a container that is gone. */
export async function removeTraces(spec: SandboxSpec): Promise<void> {
  await closeHotMounts(spec.folder)
  await closeDisk(spec.folder)
  releaseWorkspace(spec.folder)
}
