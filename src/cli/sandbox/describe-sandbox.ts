/** Formats a sandbox: as a row, as a page, and the limits that are not enforced. */
import { formatDuration } from '../../lib/duration.ts'
import type {
  EndsBody,
  EnforcedBody,
  LimitsBody,
  ListedSandboxBody,
  SandboxBody,
} from '../../operator/api/bodies.ts'
import { type Column, printable } from '../output.ts'
import { formatBytes } from './amounts.ts'

export const SANDBOX_COLUMNS = (nowMs: number): readonly Column<ListedSandboxBody>[] => [
  { title: 'name', value: ({ name }) => name },
  { title: 'state', value: (sandbox) => (sandbox.state === 'damaged' ? sandbox.state : stateOf(sandbox)) },
  { title: 'isolation', value: whenReadable(({ isolation }) => isolation), dropOrder: 3 },
  { title: 'workspace', value: whenReadable(workspaceOf), canShorten: true, dropOrder: 5 },
  { title: 'jobs', value: whenReadable(({ running_jobs }) => String(running_jobs)), dropOrder: 2 },
  {
    title: 'age',
    value: whenReadable(({ created_at_ms }) => formatDuration(Math.max(0, nowMs - created_at_ms))),
    dropOrder: 4,
  },
  // The name identifies a sandbox too.
  { title: 'id', value: ({ id }) => id, dropOrder: 1 },
]

/** A sandbox whose record is damaged shows only its id and name. */
function whenReadable(value: (sandbox: SandboxBody) => string): (sandbox: ListedSandboxBody) => string {
  return (sandbox) => (sandbox.state === 'damaged' ? '–' : value(sandbox))
}

export function describeSandbox(sandbox: SandboxBody, nowMs: number): string {
  const { limits, enforced } = sandbox
  const lines: readonly (readonly [string, string | undefined])[] = [
    ['isolation', describeIsolation(sandbox)],
    ['image', sandbox.container?.image_name],
    ['workspace', workspaceOf(sandbox)],
    ['mounts', mountsOf(sandbox)],
    ['volumes', volumesOf(sandbox)],
    ['harnesses', harnessesOf(sandbox)],
    ['logins', loginsOf(sandbox)],
    ['memory', limitLine(formatBytes(limits.memory_bytes), enforced?.memory)],
    ['processes', limitLine(String(limits.processes), enforced?.processes)],
    ['cpu', limitLine(cpuOf(limits), enforced?.cpu)],
    [
      'disk',
      limitLine(
        limits.disk_bytes === undefined ? 'no limit' : formatBytes(limits.disk_bytes),
        enforced?.disk,
      ),
    ],
    ['jobs', `${sandbox.running_jobs} running`],
    ['operator', sandbox.operator],
    ['policy', sandbox.policy_envelope_id],
    ['created', ago(sandbox.created_at_ms, nowMs)],
    ['active', sandbox.active_at_ms === null ? undefined : ago(sandbox.active_at_ms, nowMs)],
    ['stopped', sandbox.stopped_at_ms === null ? undefined : ago(sandbox.stopped_at_ms, nowMs)],
    ['ends', endsOf(sandbox.ends)],
    [
      'stops in',
      sandbox.stops_at_ms === null ? undefined : formatDuration(Math.max(0, sandbox.stops_at_ms - nowMs)),
    ],
    ['notice', sandbox.notice ?? undefined],
  ]
  const shown = lines.map(([label, value]) =>
    value === undefined ? '' : `  ${label.padEnd(10)}  ${printable(value)}\n`,
  )
  return `  ${printable(sandbox.name)} · ${sandbox.id} · ${stateOf(sandbox)}\n${shown.join('')}`
}

/** Formats what the user sees when a sandbox starts: the logins that it got, and its notice. */
export function beginningLines({ credentials, accounts, notice }: SandboxBody): string {
  const logins = accounts === null || accounts.length === 0 ? 'none:  craik accounts' : accountNames(accounts)
  return [
    credentials === 'none' || accounts === null ? '' : `  accounts ${printable(logins)}\n`,
    notice === null ? '' : `  notice   ${printable(notice)}\n`,
  ].join('')
}

/** Formats accounts, such as `codex ada@example.test · env/OPENAI_API_KEY`. */
function accountNames(accounts: NonNullable<SandboxBody['accounts']>): string {
  return accounts.map(({ id, who }) => (who === null ? id : `${id} ${who}`)).join(' · ')
}

/** Formats the credential mode and, if they are known, the accounts. */
function loginsOf({ credentials, accounts }: SandboxBody): string {
  const names = credentials === 'none' || accounts === null ? '' : accountNames(accounts)
  return names === '' ? LOGINS[credentials] : `${LOGINS[credentials]}: ${names}`
}

const LOGINS: Readonly<Record<SandboxBody['credentials'], string>> = {
  broker: 'placeholders that only the gateway accepts (broker)',
  forward: 'the real credentials (forward)',
  none: 'none',
}

/** All mounts are read-only. */
function mountsOf({ mounts }: SandboxBody): string | undefined {
  return mounts.length === 0 ? undefined : mounts.map(({ folder, at }) => `${folder} → ${at}`).join(', ')
}

function volumesOf({ volumes }: SandboxBody): string | undefined {
  return volumes.length === 0 ? undefined : volumes.map(({ name, at }) => `${name} → ~/${at}`).join(', ')
}

function harnessesOf({ harnesses }: Pick<SandboxBody, 'harnesses'>): string | undefined {
  return harnesses.length === 0
    ? undefined
    : harnesses.map(({ name, version }) => `${name} ${version}`).join(', ')
}

function ago(atMs: number, nowMs: number): string {
  return `${formatDuration(Math.max(0, nowMs - atMs))} ago`
}

/** Formats when Craik stops or deletes the sandbox automatically. */
function endsOf({ idle_ms, lifetime_ms, keep_ms }: EndsBody): string {
  const ends = [
    ...(idle_ms === null ? [] : [`stopped when idle for ${formatDuration(idle_ms)}`]),
    ...(lifetime_ms === null ? [] : [`stopped after ${formatDuration(lifetime_ms)}`]),
    ...(keep_ms === null ? [] : [`deleted ${formatDuration(keep_ms)} after it stopped`]),
  ]
  return ends.length === 0 ? 'never automatically' : ends.join(' · ')
}

/** Formats the isolation and what implements it, such as `process (bubblewrap)`. */
export function describeIsolation({ isolation, container }: SandboxBody): string {
  if (container !== null) return `container (${container.runtime}) · no network`
  if (isolation === 'process') return 'process (bubblewrap) · no network'
  if (isolation === 'none') return 'none: runs directly on the host, with its network'
  return isolation
}

/** Returns each limit that is not enforced for the sandbox as a whole, by name. Returns nothing if all are. */
export function listUnenforcedLimits(limits: LimitsBody, enforced: EnforcedBody | null): string[] {
  if (enforced === null) return []
  const requested: Record<keyof EnforcedBody, boolean> = {
    memory: true,
    processes: true,
    cpu: limits.cpu_millis !== undefined,
    disk: limits.disk_bytes !== undefined,
  }
  return (Object.keys(requested) as (keyof EnforcedBody)[])
    .filter((name) => requested[name] && ['per-process', 'not-enforced'].includes(enforced[name]))
    .map((name) => `${name}: ${enforced[name]}`)
}

export function cpuOf({ cpu_millis }: LimitsBody): string {
  if (cpu_millis === undefined) return 'no limit'
  return cpu_millis === 1000 ? '1 core' : `${cpu_millis / 1000} cores`
}

function limitLine(limit: string, held: string | undefined): string {
  return held === undefined || held === 'not-asked' ? limit : `${limit} · ${held}`
}

function stateOf({ state, connected }: SandboxBody): string {
  return state === 'running' && !connected ? 'running (not connected)' : state
}

function workspaceOf({ workspace }: SandboxBody): string {
  return workspace.mode === 'copy' ? 'copy' : `in place: ${workspace.folder}`
}
