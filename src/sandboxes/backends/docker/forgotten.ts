/**
 * Processes of a container that its engine has forgotten. One that is killed while it starts a container does not know
 * afterwards that it did: it removes the container as one that never ran, and what it began waits, or runs, for ever,
 * with the sandbox's disk in its view.
 */
import { readFileSync } from 'node:fs'
import { endAll, findProcesses } from '../process/place-processes.ts'

const CONTAINER_ID = /^[0-9a-f]{64}$/

/** Only for a container that the engine has no more, on this machine. The control group names it, whoever asks. */
export async function endForgotten(container: string): Promise<void> {
  if (!CONTAINER_ID.test(container)) return
  await endAll(() => findProcesses(async (pid) => isIn(container, pid) && isOurs(pid)))
}

function isIn(container: string, pid: number): boolean {
  return read(`/proc/${pid}/cgroup`).includes(container)
}

/** Of another user's the one who runs Craik can end nothing; what waits to be started has the sandbox's user already. */
function isOurs(pid: number): boolean {
  const own = process.geteuid?.()
  return own === 0 || Number(/^Uid:\t\d+\t(\d+)\t/m.exec(read(`/proc/${pid}/status`))?.[1]) === own
}

function read(path: string): string {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    return ''
  }
}
