/**
 * Processes of a container that its engine has forgotten, or leaves behind. One that is killed while it starts a container
 * does not know afterwards that it did: it removes the container as one that never ran, and what it began waits, or runs,
 * for ever, with the sandbox's disk in its view.
 */
import { readFileSync } from 'node:fs'
import { endAll, findProcesses } from '../process/instance-processes.ts'

const CONTAINER_ID = /^[0-9a-f]{64}$/

/** Only for a container that the engine has no more, on this machine. The control group names it, whoever asks. */
export async function endForgotten(container: string): Promise<void> {
  if (!CONTAINER_ID.test(container)) return
  await endAll(() => findProcesses(async (pid) => isIn(container, pid) && isOurs(pid)))
}

/**
 * Podman's monitors of commands that were run in a container: each waits five minutes for somebody who asks how its
 * command ended, although the container is gone. Only for one that the engine has no more, on this machine.
 */
export async function endMonitors(container: string): Promise<void> {
  if (!CONTAINER_ID.test(container)) return
  await endAll(() => findProcesses(async (pid) => isMonitor(container, pid) && isOurs(pid)))
}

/** Of what runs in a container nothing is read that it could have written: whatever has two numbers is not looked at. */
function isMonitor(container: string, pid: number): boolean {
  const status = read(`/proc/${pid}/status`)
  if (!/^Name:\tconmon$/m.test(status) || !/^NSpid:\t\d+$/m.test(status)) return false
  const words = read(`/proc/${pid}/cmdline`).split('\0')
  return words.includes('--exec-process-spec') && words[words.indexOf('-c') + 1] === container
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
