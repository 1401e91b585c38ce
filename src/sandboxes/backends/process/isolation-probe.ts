/**
 * Tests the isolation of a sandbox: a small program reports what it sees in the sandbox, and Craik compares that with
 * the host.
 */
import { statSync } from 'node:fs'
import { WORKSPACE_INSIDE, WRITABLE_INSIDE } from './bubblewrap.ts'

const NAMESPACES = ['net', 'pid', 'mnt', 'user', 'ipc', 'uts'] as const
type NamespaceNumbers = Readonly<Record<(typeof NAMESPACES)[number], number>>

const files = (names: readonly string[]) => names.map((name) => `/proc/self/${name}`).join(' ')

/**
 * The command runs in the sandbox. Its report counts only with exit code 0. It also tests whether the working folder is
 * accessible, because root first tries without its identity.
 */
export const PROBE_COMMAND: readonly string[] = [
  'sh',
  '-c',
  [
    '[ -r . ] && [ -x . ]',
    `stat -L -c %i ${files(NAMESPACES.map((name) => `ns/${name}`))}`,
    `exec cat ${files(['net/dev', 'status', 'mountinfo'])}`,
  ].join(' && '),
]

/** The parts of the report in order, and nothing else: numbers, devices below two heading lines, fields, mounts. */
const REPORT = new RegExp(
  [
    '^(?<namespaces>(?:\\d{1,20}\n){6})',
    'Inter-\\|[^\n]*\n face \\|[^\n]*\n(?<devices>(?: *[^\\s:]+:[^\n]*\n)*)',
    '(?<status>Name:\tcat\n(?:[^\\s:]+:[^\n]*\n)+)',
    '(?<mounts>(?:\\d+ \\d+ \\d+:\\d+ [^\n]*\n)+)$',
  ].join(''),
)

/** Returns the namespaces of this process. */
export function readOwnNamespaces(): NamespaceNumbers {
  const numbers = NAMESPACES.map((name) => [name, statSync(`/proc/self/ns/${name}`).ino])
  return Object.fromEntries(numbers) as NamespaceNumbers
}

/** Returns what a report shows to be wrong with the isolation. `undefined` when the isolation is complete. */
export function findReportFault(report: string, outside: NamespaceNumbers): string | undefined {
  const { namespaces, devices, status, mounts } = REPORT.exec(report)?.groups ?? {}
  if (namespaces === undefined) return 'the test program sent an incomplete report'
  return (
    faultInNamespaces(namespaces, outside) ??
    faultInNetwork(devices!) ??
    faultInRights(status!) ??
    faultInMounts(mounts!)
  )
}

function faultInNamespaces(inside: string, outside: NamespaceNumbers): string | undefined {
  const numbers = inside.trim().split('\n').map(Number)
  const shared = NAMESPACES.find((name, i) => numbers[i] === outside[name])
  return shared && `it shares the host’s ${shared} namespace`
}

function faultInNetwork(devices: string): string | undefined {
  return /^ *lo:[^\n]*\n$/.test(devices) ? undefined : 'it has network interfaces besides loopback'
}

const CAPABILITIES = ['CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb']

function faultInRights(status: string): string | undefined {
  const fields = new Map(status.split('\n').map((line) => line.split(':\t', 2) as [string, string]))
  if (CAPABILITIES.some((set) => fields.get(set) !== '0'.repeat(16))) return 'it has Linux capabilities'
  if (fields.get('NoNewPrivs') !== '1') return 'programs in it can gain privileges'
  return fields.get('Seccomp') === '2' ? undefined : 'its system calls are not filtered'
}

/** Only the sandbox's own file systems may be writable. Devices may be written to, but not their folder. */
function faultInMounts(table: string): string | undefined {
  const mounts = table
    .trimEnd()
    .split('\n')
    .map((line) => line.split(' '))
    .map(([, , , , point = '', options = '']) => ({ point, readOnly: options.split(',').includes('ro') }))
  if (!mounts.some(({ point }) => point === WORKSPACE_INSIDE)) return 'the workspace is not mounted in it'
  const mayWrite = (point: string) => WRITABLE_INSIDE.includes(point) || point.startsWith('/dev/')
  const open = mounts.find(({ point, readOnly }) => !readOnly && !mayWrite(point))
  return (
    open &&
    `${open.point.startsWith(WORKSPACE_INSIDE) ? 'the workspace' : 'a system folder'} is writable in it`
  )
}
