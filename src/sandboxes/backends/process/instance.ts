/** A running sandbox instance: detects its end, measures its usage and ends it. */
import type { ChildProcess } from 'node:child_process'
import { ownerState } from '../../../lib/owner.ts'
import type { Isolation, ObservedUse, SandboxInstance } from '../../backend.ts'
import { formatProcessHandle, type ProcessHandle } from './handle.ts'
import { observeProcesses } from './instance-processes.ts'

const POLL_MS = 250

export interface InstanceParts {
  readonly handle: ProcessHandle
  readonly isolation: Isolation
  readonly socketFolder: string
  /** The child process that started it, if this process is the parent. */
  readonly child?: ChildProcess
  readonly errorOutput?: () => string
  /** Returns values that are more exact than the sums over its processes. */
  readonly observe: () => Promise<ObservedUse>
  /** Present where the processes can be frozen. */
  readonly freezing?: { freeze(): Promise<void>; thaw(): Promise<void> } | undefined
  /** Ends the instance when the protection of host files is lost. Missing where there is nothing to protect. */
  readonly watch?: ((end: (why: string) => Promise<void>) => Disposable) | undefined
  /**
   * Ends everything in the instance and removes its cgroups and mounts. Never called twice at the same time. Called
   * again after a failure.
   */
  readonly end: () => Promise<void>
}

export function createInstance(parts: InstanceParts): SandboxInstance {
  const { handle, isolation, socketFolder, freezing } = parts
  let destroyed = false
  let destroying: Promise<void> | undefined
  let unprotected: string | undefined
  const end = () => {
    destroying ??= parts.end().finally(() => {
      destroying = undefined
    })
    return destroying
  }
  const watching = parts.watch?.((why) => {
    unprotected = why
    return end()
  })
  const ended = waitUntilGone(parts, () => destroyed).then((why) => {
    watching?.[Symbol.dispose]()
    return unprotected ?? why
  })
  return {
    handle: formatProcessHandle(handle),
    isolation,
    hostUid: handle.hostUid,
    limits: handle.limits,
    line: { kind: 'socket', folder: socketFolder },
    ended,
    async observe() {
      const better = await parts.observe()
      const { cpuMs, memoryBytes, processes } = better
      // Walks over all processes of the sandbox. That is wasted where the cgroups already count everything.
      const isComplete = [cpuMs, memoryBytes, processes].every((figure) => figure !== undefined)
      return isComplete ? better : { ...(await observeProcesses(handle.inner)), ...better }
    },
    ...(freezing && { pause: () => freezing.freeze(), unpause: () => freezing.thaw() }),
    destroy() {
      destroyed = true
      return end()
    },
  }
}

/**
 * When the first process in the sandbox dies, the kernel ends all others. The exit of bubblewrap alone means nothing.
 */
async function waitUntilGone(parts: InstanceParts, isDestroyed: () => boolean): Promise<string> {
  const { child, errorOutput: complaint = () => '' } = parts
  await new Promise<void>((done) => {
    const isGone = () => ownerState(parts.handle.inner) === 'dead'
    const timer = setInterval(() => isGone() && finish(), POLL_MS)
    timer.unref()
    const onExit = () => isGone() && finish()
    const finish = () => {
      clearInterval(timer)
      child?.off('exit', onExit)
      done()
    }
    child?.on('exit', onExit)
    onExit()
  })
  if (isDestroyed()) return 'it was destroyed'
  const last = complaint().split('\n').findLast(Boolean)?.slice(0, 300)
  return `${exitOf(child)}${last ? `; its last output: ${last}` : ''}`
}

function exitOf(child: ChildProcess | undefined): string {
  if (child?.signalCode) return `its sidecar was killed by ${child.signalCode}`
  if (child?.exitCode === null || child?.exitCode === undefined) return 'its sidecar exited'
  return `its sidecar exited (exit code ${child.exitCode})`
}
