/** Isolation `none`: the sidecar runs on the host itself, as whoever runs Craik, and nothing confines it. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { CraikError } from '../../../errors.ts'
import { cleanEnvironment } from '../../../lib/child.ts'
import { type Owner, ownerOf, ownerState } from '../../../lib/owner.ts'
import { INSIDE, SIDECAR_ENV } from '../../../sidecar/protocol.ts'
import type { RunningPlace, SandboxSpec } from '../../backend.ts'
import { diskFolders, type PlaceFolders, placeFolders } from './folders.ts'
import type { ProcessHandle } from './handle.ts'
import { INHERITED_MARKER, listen } from './launch.ts'
import { unlimited } from './limits.ts'
import { runningPlace } from './place.ts'
import { sidecarCommand } from './place-arguments.ts'
import { endAll, endProcesses, findPlaceProcesses, signalOwner, withDescendants } from './place-processes.ts'

/** Its jobs are asked to end, and have two seconds for it. */
const TERM_GRACE_MS = 3000
const MAX_SOCKET_PATH_BYTES = 107

export async function startOnHost(
  spec: SandboxSpec,
  folders: PlaceFolders,
  runtime: string,
  environment: NodeJS.ProcessEnv,
): Promise<RunningPlace> {
  const [program, ...args] = sidecarCommand(runtime)
  const child = spawn(program!, args, {
    cwd: folders.socket,
    env: {
      [INHERITED_MARKER]: spec.id,
      ...cleanEnvironment(environment),
      ...sidecarEnvironment(spec, folders),
    },
    stdio: ['ignore', 'ignore', 'pipe'],
    detached: true,
  })
  const complaint = listen(child)
  try {
    await once(child, 'spawn')
  } catch (cause) {
    throw new CraikError('unavailable', 'the sidecar could not be started', { cause })
  }
  const inner = ownerOf(child.pid!)
  if (inner === undefined) throw new CraikError('unavailable', `the sidecar ended at once: ${complaint()}`)
  const handle = { inner, outer: inner, hostUid: process.getuid?.() ?? 0, limits: unlimited(spec.limits) }
  return hostPlace(handle, spec, { child, complaint })
}

export function hostPlace(
  handle: ProcessHandle,
  spec: SandboxSpec,
  started: Pick<Parameters<typeof runningPlace>[0], 'child' | 'complaint'> = {},
): RunningPlace {
  return runningPlace({
    ...started,
    handle,
    isolation: 'none',
    socketFolder: placeFolders(spec.folder).socket,
    observe: async () => ({}),
    end: () => endOnHost(spec, handle.inner),
  })
}

/** All that it started carries its mark, unless it was told to forget it: then nothing on the host ties it to us. */
export async function endOnHost(spec: SandboxSpec, sidecar: Owner | undefined): Promise<void> {
  const all = async () => [...(sidecar ? withDescendants(sidecar) : []), ...(await findPlaceProcesses(spec))]
  if (sidecar !== undefined && ownerState(sidecar) === 'alive') {
    const known = await all()
    signalOwner(sidecar, 'SIGTERM')
    const endsMs = performance.now() + TERM_GRACE_MS
    while (ownerState(sidecar) === 'alive' && performance.now() < endsMs) await sleep(20)
    await endProcesses(known)
  }
  await endAll(all)
}

function sidecarEnvironment(spec: SandboxSpec, folders: PlaceFolders): Record<string, string> {
  const direct = join(folders.socket, INSIDE.socketName)
  const { home, spill } = diskFolders(folders.data)
  const { workspace } = spec
  return {
    [INHERITED_MARKER]: spec.id,
    HOME: home,
    // A path to a socket is short; its working folder is where the socket is.
    [SIDECAR_ENV.socket]:
      Buffer.byteLength(direct) > MAX_SOCKET_PATH_BYTES ? `/proc/self/cwd/${INSIDE.socketName}` : direct,
    [SIDECAR_ENV.home]: home,
    [SIDECAR_ENV.workspace]: workspace.mode === 'in-place' ? workspace.folder : join(home, 'project'),
    [SIDECAR_ENV.gatewayPort]: '0',
    [SIDECAR_ENV.spill]: spill,
  }
}
