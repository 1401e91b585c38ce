/**
 * Runs sandboxes with isolation `none`: the sidecar runs on the host as the user who runs Craik, without restrictions.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { CraikError } from '../../../errors.ts'
import { cleanEnvironment } from '../../../lib/child.ts'
import { type Owner, ownerOf, ownerState } from '../../../lib/owner.ts'
import { INSIDE, SIDECAR_ENV } from '../../../sidecar/protocol.ts'
import type { SandboxInstance, SandboxSpec } from '../../backend.ts'
import { findOtherHome, folderArgument } from './another-home.ts'
import type { ProcessHandle } from './handle.ts'
import { createInstance } from './instance.ts'
import { diskFolders, type InstanceFolders, instanceFolders } from './instance-folders.ts'
import {
  endAll,
  endProcesses,
  findInstanceProcesses,
  signalOwner,
  withDescendants,
} from './instance-processes.ts'
import { sidecarCommand } from './launch-arguments.ts'
import { captureErrorOutput, INHERITED_MARKER } from './launch-process.ts'
import { reportUnlimited } from './resource-limits.ts'

/** The sidecar asks its jobs to end and gives them two seconds (`GRACE_MS` in its job.ts). */
const TERM_GRACE_MS = 3000
const MAX_SOCKET_PATH_BYTES = 107

export async function startOnHost(
  spec: SandboxSpec,
  folders: InstanceFolders,
  runtime: string,
  environment: NodeJS.ProcessEnv,
): Promise<SandboxInstance> {
  const [program, ...args] = [...sidecarCommand(runtime), folderArgument(spec)]
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
  const complaint = captureErrorOutput(child)
  try {
    await once(child, 'spawn')
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    throw new CraikError(
      'unavailable',
      `cannot start the program that runs the sandbox’s commands (${code})`,
      {
        hint: 'check this machine:  craik doctor',
        cause,
      },
    )
  }
  const inner = ownerOf(child.pid!)
  if (inner === undefined)
    throw new CraikError(
      'unavailable',
      `the program that runs the sandbox’s commands exited immediately: ${complaint()}`,
      { hint: 'check this machine:  craik doctor' },
    )
  const handle = {
    inner,
    outer: inner,
    hostUid: process.getuid?.() ?? 0,
    limits: reportUnlimited(spec.limits),
  }
  return hostInstance(handle, spec, { child, errorOutput: complaint })
}

export function hostInstance(
  handle: ProcessHandle,
  spec: SandboxSpec,
  started: Pick<Parameters<typeof createInstance>[0], 'child' | 'errorOutput'> = {},
): SandboxInstance {
  return createInstance({
    ...started,
    handle,
    isolation: 'none',
    socketFolder: instanceFolders(spec.folder).socket,
    observe: async () => ({}),
    end: () => endOnHost(spec, handle.inner),
  })
}

/** Every process that the sidecar started has its mark. A process that removed the mark cannot be found on the host. */
export async function endOnHost(spec: SandboxSpec, sidecar: Owner | undefined): Promise<void> {
  const all = async () => [
    ...(sidecar ? withDescendants(sidecar) : []),
    ...(await findInstanceProcesses(spec)),
  ]
  if (sidecar !== undefined && ownerState(sidecar) === 'alive') {
    const known = await all()
    signalOwner(sidecar, 'SIGTERM')
    const endsMs = performance.now() + TERM_GRACE_MS
    while (ownerState(sidecar) === 'alive' && performance.now() < endsMs) await sleep(20)
    await endProcesses(known)
  }
  // The processes that are left have only the sandbox's id, which the jobs of another home's sandbox have too.
  if ((await all()).length > 0 && (await findOtherHome(spec)) === undefined) await endAll(all)
}

function sidecarEnvironment(spec: SandboxSpec, folders: InstanceFolders): Record<string, string> {
  const direct = join(folders.socket, INSIDE.socketName)
  const { home, spill } = diskFolders(folders.data)
  const { workspace } = spec
  return {
    [INHERITED_MARKER]: spec.id,
    HOME: home,
    // The path of a socket must be short. The sidecar's working folder is the folder of the socket.
    [SIDECAR_ENV.socket]:
      Buffer.byteLength(direct) > MAX_SOCKET_PATH_BYTES ? `/proc/self/cwd/${INSIDE.socketName}` : direct,
    [SIDECAR_ENV.home]: home,
    [SIDECAR_ENV.workspace]: workspace.mode === 'in-place' ? workspace.folder : join(home, 'project'),
    [SIDECAR_ENV.gatewayPort]: '0',
    [SIDECAR_ENV.spill]: spill,
  }
}
