/**
 * Ends processes of a container that its engine has forgotten or left behind. An engine that is killed while it starts
 * a container does not remember the start. It removes the container as one that never ran. The process waits or runs
 * forever and still sees the sandbox's disk.
 */
import { readFileSync } from 'node:fs'
import { endAll, findProcesses } from '../process/instance-processes.ts'

const CONTAINER_ID = /^[0-9a-f]{64}$/

/**
 * Ends processes of a container that the engine no longer has, on this machine. The control group names the container,
 * so the owner of the process does not matter.
 */
export async function endForgotten(container: string): Promise<void> {
  if (!CONTAINER_ID.test(container)) return
  await endAll(() => findProcesses(async (pid) => isIn(container, pid) && isOurs(pid)))
}

/**
 * Ends Podman's monitors of commands in a container. Each waits five minutes for a request for its command's exit code,
 * even when the container is gone. Only for a container that the engine does not have, on this machine.
 */
export async function endMonitors(container: string): Promise<void> {
  if (!CONTAINER_ID.test(container)) return
  await endAll(() => findProcesses(async (pid) => isMonitor(container, pid) && isOurs(pid)))
}

/**
 * Reads nothing that a container's process could have written. It skips a process with a second number, because that
 * one is in a PID namespace.
 */
function isMonitor(container: string, pid: number): boolean {
  const status = read(`/proc/${pid}/status`)
  if (!/^Name:\tconmon$/m.test(status) || !/^NSpid:\t\d+$/m.test(status)) return false
  const words = read(`/proc/${pid}/cmdline`).split('\0')
  return words.includes('--exec-process-spec') && words[words.indexOf('-c') + 1] === container
}

function isIn(container: string, pid: number): boolean {
  return read(`/proc/${pid}/cgroup`).includes(container)
}

/**
 * Without root, Craik cannot end another user's process. A container that waits for its start already has the sandbox's
 * user.
 */
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
