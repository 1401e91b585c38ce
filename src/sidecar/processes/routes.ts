/** Reports the processes in the sandbox and the resources that they use. The values come from the sandbox itself. */
import { statfs } from 'node:fs/promises'
import { constants } from 'node:os'
import type { Metrics, ProcessInfo } from '../protocol.ts'
import { type RouteCall, SidecarError, type SidecarRoute } from '../router.ts'
import { type Family, type JobOf, jobsOf, processesOfSandbox } from './family.ts'
import { pageBytes, readBootTimeMs, readProcesses } from './proc.ts'

export interface ProcessOptions {
  readonly home: string
  /** Whether the sandbox has a process namespace of its own. */
  readonly isIsolated: boolean
  readonly jobOf: JobOf
  readonly runningJobs: () => number
  readonly openConnections: () => number
}

/** More processes than a sandbox may have are not listed, because the host limits the size of a response. */
const MAX_LISTED_PROCESSES = 4096
const NAME_LENGTH = 64

export function processRoutes(options: ProcessOptions): readonly SidecarRoute[] {
  return [
    { method: 'GET', path: '/processes', handle: (call) => call.answer(200, { processes: list(options) }) },
    { method: 'POST', path: '/processes/:pid/signal', handle: (call) => signal(call, options) },
    { method: 'GET', path: '/metrics', handle: async (call) => call.answer(200, await measure(options)) },
  ]
}

function list(options: ProcessOptions): readonly ProcessInfo[] {
  const everything = readProcesses()
  const jobs = jobsOf(everything, options.jobOf)
  const booted = readBootTimeMs()
  const page = pageBytes(everything.get(process.pid))
  return [...processesOfSandbox(everything, familyOf(options)).values()]
    .sort((a, b) => a.pid - b.pid)
    .slice(0, MAX_LISTED_PROCESSES)
    .map((one) => {
      const job = jobs.get(one.pid)
      return {
        pid: one.pid,
        parent: one.parent,
        name: one.name.slice(0, NAME_LENGTH),
        state: one.state,
        cpuMs: one.cpuMs,
        memoryBytes: one.residentPages * page,
        startedAtMs: booted + one.startedAfterMs,
        ...(job === undefined ? {} : { job }),
      }
    })
}

async function signal(call: RouteCall, options: ProcessOptions): Promise<void> {
  const pid = /^[1-9]\d{0,9}$/.test(call.params.pid ?? '') ? Number(call.params.pid) : 0
  const name = signalOf(await call.json())
  if (pid === 0) throw new SidecarError('usage', 'the pid must be a number above 0')
  if (pid === 1 || pid === process.pid || pid === process.ppid)
    throw new SidecarError('refused', `process ${pid} runs the sandbox; delete the sandbox to end it`)
  if (!processesOfSandbox(readProcesses(), familyOf(options)).has(pid))
    throw new SidecarError('not_found', `no process ${pid} runs in this sandbox`)
  try {
    process.kill(pid, name)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ESRCH') throw new SidecarError('not_found', `process ${pid} has ended`, { cause: error })
    throw new SidecarError('refused', `process ${pid} cannot be signalled (${code})`, { cause: error })
  }
  call.answer(200, {})
}

function familyOf({ jobOf, isIsolated }: ProcessOptions): Family {
  return { sidecarPid: process.pid, jobOf, isIsolated }
}

function signalOf(body: unknown): NodeJS.Signals {
  const name = (body as { readonly signal?: unknown } | null)?.signal
  if (typeof name === 'string' && Object.hasOwn(constants.signals, name)) return name as NodeJS.Signals
  throw new SidecarError('usage', 'signal must be the name of a signal, such as SIGTERM')
}

/** Memory is the sum of all resident pages. Pages that processes share count for each of them. */
async function measure(options: ProcessOptions): Promise<Metrics> {
  const everything = readProcesses()
  const ours = [...processesOfSandbox(everything, familyOf(options)).values()]
  const page = pageBytes(everything.get(process.pid))
  const disk = await statfs(options.home)
  return {
    // Includes children that exited and were waited for, so that the sum does not fall when a process exits.
    cpuMs: ours.reduce((sum, one) => sum + one.cpuMs + one.childrenCpuMs, 0),
    memoryBytes: ours.reduce((sum, one) => sum + one.residentPages, 0) * page,
    processes: ours.length,
    diskUsedBytes: (disk.blocks - disk.bfree) * disk.bsize,
    diskFreeBytes: disk.bavail * disk.bsize,
    sidecarMemoryBytes: process.memoryUsage.rss(),
    runningJobs: options.runningJobs(),
    openConnections: options.openConnections(),
  }
}
