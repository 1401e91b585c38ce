/** Inspects the first process of a sandbox from the host, to verify its isolation. */
import { readFileSync, readlinkSync } from 'node:fs'

const NAMESPACES = ['net', 'pid', 'mnt', 'user', 'ipc', 'uts'] as const
const CAPABILITIES = ['CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb']

/** Returns the first fault. `undefined` when the process is isolated, has the user's id and has no capabilities. */
export function findIsolationFault(pid: number, hostUid: number): string | undefined {
  try {
    const shared = NAMESPACES.find(
      (name) => readlinkSync(`/proc/${pid}/ns/${name}`) === readlinkSync(`/proc/self/ns/${name}`),
    )
    if (shared !== undefined) return `it shares the host’s ${shared} namespace`
    const lines = readFileSync(`/proc/${pid}/status`, 'utf8').split('\n')
    const fields = new Map(lines.map((line) => line.split(':\t', 2) as [string, string]))
    if (fields.get('Uid') !== Array(4).fill(hostUid).join('\t')) return 'it runs as the wrong user'
    if (CAPABILITIES.some((set) => fields.get(set) !== '0'.repeat(16))) return 'it has Linux capabilities'
    if (fields.get('NoNewPrivs') !== '1') return 'programs in it can gain privileges'
    return fields.get('Seccomp') === '2' ? undefined : 'its system calls are not filtered'
  } catch (error) {
    return `it cannot be inspected (${(error as NodeJS.ErrnoException).code})`
  }
}
