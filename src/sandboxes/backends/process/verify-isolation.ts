/** What the host itself sees of a sandbox's first process: whether it is held as promised. */
import { readFileSync, readlinkSync } from 'node:fs'

const NAMESPACES = ['net', 'pid', 'mnt', 'user', 'ipc', 'uts'] as const
const CAPABILITIES = ['CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb']

/** What is wrong with it; undefined when it is isolated and has the rights of that user alone. */
export function faultSeenFromOutside(pid: number, hostUid: number): string | undefined {
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
