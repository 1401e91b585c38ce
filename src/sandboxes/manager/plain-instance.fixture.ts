/**
 * A small real backend, for tests of the code above it. It runs the real sidecar as an ordinary process of the host.
 */
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { ownerOf } from '../../lib/owner.ts'
import { packageFile } from '../../lib/package-files.ts'
import { SIDECAR_ENV } from '../../sidecar/protocol.ts'
import type { InstanceHandle, SandboxBackend, SandboxInstance, SandboxSpec } from '../backend.ts'
import { folderDisks } from '../backends/process/folder-disks.ts'

export interface PlainBackend extends SandboxBackend {
  /** The processes of its sandboxes, so that a test can kill them. */
  readonly pids: Map<string, number>
}

export function plainBackend(changes: { readonly program?: readonly string[] } = {}): PlainBackend {
  const pids = new Map<string, number>()
  return {
    kind: 'local_process',
    pooled: true,
    pids,
    probe: async () => ({ isolation: 'none' }),
    async create(spec) {
      const home = join(spec.folder, 'data', 'home')
      const workspace = spec.workspace.mode === 'copy' ? join(home, 'project') : spec.workspace.folder
      await mkdir(workspace, { recursive: true })
      const [program, ...args] = changes.program ?? [process.execPath, sidecarFile()]
      const child = spawn(program!, args, {
        cwd: home,
        detached: true,
        stdio: 'ignore',
        env: {
          PATH: process.env.PATH,
          [SIDECAR_ENV.socket]: join(spec.folder, 'socket', 'host.sock'),
          [SIDECAR_ENV.home]: home,
          [SIDECAR_ENV.workspace]: workspace,
          [SIDECAR_ENV.gatewayPort]: '0',
          [SIDECAR_ENV.spill]: join(spec.folder, 'data', 'spill'),
        },
      })
      await new Promise<void>((resolve, reject) => {
        child.once('spawn', resolve)
        child.once('error', reject)
      })
      child.unref()
      pids.set(spec.id, child.pid!)
      return instanceOf({ pid: child.pid!, startedAt: startOf(child.pid!) ?? 'gone' }, spec)
    },
    async recover(handle, spec) {
      return isAlive(handle) ? instanceOf(handle, spec) : undefined
    },
    disks: folderDisks({
      ownerOf: () => undefined,
      imageBytesOf: async () => undefined,
      reachRunning: () => Promise.reject(new Error('its disk is a folder')),
    }),
    async sweep({ id }, handle) {
      if (handle !== undefined) await end(handle)
      const startedAt = startOf(pids.get(id) ?? 0)
      if (startedAt !== undefined) await end({ pid: pids.get(id)!, startedAt })
    },
    async endLeftovers() {},
  }
}

function instanceOf(handle: InstanceHandle, spec: SandboxSpec): SandboxInstance {
  const ended = (async () => {
    while (isAlive(handle)) await sleep(50, undefined, { ref: false })
    return 'its process ended'
  })()
  return {
    handle,
    isolation: 'none',
    hostUid: process.geteuid?.() ?? 0,
    limits: {
      memory: 'not-enforced',
      processes: 'not-enforced',
      cpu: 'not-asked',
      disk: 'not-enforced',
    },
    line: { kind: 'socket', folder: join(spec.folder, 'socket') },
    ended,
    observe: async () => ({ processes: 1, outOfMemoryKills: 0 }),
    // This freezes only the sidecar, which is all that a test can see.
    async pause() {
      process.kill(Number(handle.pid), 'SIGSTOP')
    },
    async unpause() {
      process.kill(Number(handle.pid), 'SIGCONT')
    },
    destroy: () => end(handle),
  }
}

async function end(handle: InstanceHandle): Promise<void> {
  if (isAlive(handle)) process.kill(Number(handle.pid), 'SIGKILL')
  while (isAlive(handle)) await sleep(10)
}

function isAlive({ pid, startedAt }: InstanceHandle): boolean {
  return startOf(Number(pid)) === startedAt
}

/** Returns `undefined` for a process that has ended, even if its parent has not read its exit code. */
function startOf(pid: number): string | undefined {
  return ownerOf(pid)?.startedAt
}

/** Returns the bundle if it exists, and otherwise its source. */
function sidecarFile(): string {
  const bundle = fileURLToPath(packageFile('build/sidecar/sidecar.mjs'))
  return existsSync(bundle) ? bundle : fileURLToPath(packageFile('src/sidecar/main.ts'))
}
