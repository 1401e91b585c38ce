/** A sandbox that runs: how the host sees that it ended, what it uses, and how it is ended. */
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
  /** What started it, while that is us. */
  readonly child?: ChildProcess
  readonly complaint?: () => string
  /** Figures that are better than those of its processes. */
  readonly observe: () => Promise<ObservedUse>
  /** Where what runs in it can be made to stand still. */
  readonly freezing?: { freeze(): Promise<void>; thaw(): Promise<void> } | undefined
  /** Has it ended when what protects the host's files from it is gone; absent where there is nothing of that kind. */
  readonly watch?: ((end: (why: string) => Promise<void>) => Disposable) | undefined
  /** Ends all of it and removes what held it. Called once at a time, again when it failed. */
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
  const ended = whenGone(parts, () => destroyed).then((why) => {
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
      // A walk over all that runs inside, which only costs where nothing counts it already.
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

/** The first process inside takes all others along; bubblewrap's own end alone means nothing. */
async function whenGone(parts: InstanceParts, isDestroyed: () => boolean): Promise<string> {
  const { child, complaint = () => '' } = parts
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
