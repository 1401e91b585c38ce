/** Verifies that a container matches its configuration, from the engine's description and from the kernel. */
import { lstatSync, readFileSync, readlinkSync } from 'node:fs'
import type { ContainerInspectInfo } from 'dockerode'
import type { ContainerSpec, HostUser } from '../../backend.ts'
import type { ContainerMount } from './container-config.ts'
import type { Engine } from './engine/engine.ts'

export interface Expected {
  readonly container: ContainerSpec
  readonly user: HostUser
  readonly shown: readonly ContainerMount[]
  /** The configured entries: variables with values, and names to remove. */
  readonly environment: readonly string[]
}

/** Returns what is wrong in the engine's description. `undefined` when nothing is. */
export function faultInDescription(
  found: ContainerInspectInfo,
  { container, user, shown: mounted, environment }: Expected,
  product: Engine['product'],
): string | undefined {
  const { HostConfig: host, Config: config } = found
  const networks = Object.keys(found.NetworkSettings?.Networks ?? {})
  const options = (host.SecurityOpt ?? []).join(' ')
  // Podman lists each capability that it dropped. Craik checks the remaining ones at the process.
  const dropped = product === 'podman' || (host.CapDrop ?? []).includes('ALL')
  const checks: readonly (readonly [boolean, string])[] = [
    [imageId(found.Image) === imageId(container.image), 'it uses a different image'],
    [host.NetworkMode === 'none' && networks.every((name) => name === 'none'), 'it has a network'],
    [host.Privileged === false, 'it is privileged'],
    [dropped && (host.CapAdd ?? []).length === 0, 'it has Linux capabilities'],
    [host.ReadonlyRootfs === true, 'its root file system is writable'],
    [config.User === `${user.uid}:${user.gid}`, 'it runs as the wrong user'],
    [/\bno-new-privileges\b(?!=false)/.test(options), 'programs in it can gain privileges'],
    [!/seccomp[=:]unconfined/.test(options), 'its system calls are not filtered'],
    [isOwn(host.PidMode) && isOwn(host.UTSMode) && isOwn(host.IpcMode), 'it shares a host namespace'],
    [isOwn(host.UsernsMode), 'it has the wrong user namespace'],
    [isOnly(config.Env, environment, product), 'its image or engine sets environment variables'],
    [(host.Devices ?? []).length === 0, 'it has host devices'],
  ]
  return checks.find(([holds]) => !holds)?.[1] ?? faultInMounts(found, mounted)
}

const imageId = (id: string): string => id.replace(/^sha256:/, '')
/** Podman adds these, which contain nothing that the container does not know already. */
const ADDED_BY_PODMAN = /^(?:TERM|HOME|HOSTNAME|container)=/
const isOnly = (
  found: readonly string[] | null | undefined,
  requests: readonly string[],
  product: Engine['product'],
): boolean =>
  (found ?? []).every(
    (entry) => requests.includes(entry) || (product === 'podman' && ADDED_BY_PODMAN.test(entry)),
  )
const isOwn = (mode: string | undefined): boolean => ['', 'private', 'shareable'].includes(mode ?? '')

/** The mounts must be exactly Craik's, because an image can declare volumes of its own. */
function faultInMounts(
  { Mounts }: ContainerInspectInfo,
  mounted: readonly ContainerMount[],
): string | undefined {
  const found = Mounts.filter(({ Type }) => (Type as string) !== 'tmpfs').map(
    ({ Type, Source, Name, Destination, RW }) =>
      [Type, Type === 'volume' ? Name : Source, Destination, RW ? 'rw' : 'ro'].join('\0'),
  )
  const wanted = mounted.map(({ type, source, target, readOnly }) =>
    [type, source, target, readOnly ? 'ro' : 'rw'].join('\0'),
  )
  const isSame = found.length === wanted.length && wanted.every((one) => found.includes(one))
  return isSame ? undefined : 'its mounts are not the requested ones'
}

const NAMESPACES = ['net', 'pid', 'mnt', 'ipc', 'uts'] as const
const CAPABILITIES = ['CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb']

export interface SeenProcess {
  readonly uid: number
  readonly fault: string | undefined
}

/**
 * Inspects a container's first process on this machine. Without its user's rights or root, Craik can read its
 * capabilities but not its namespaces. It then trusts the engine's description of those.
 */
export function inspectProcess(pid: number): SeenProcess {
  const lines = readFileSync(`/proc/${pid}/status`, 'utf8').split('\n')
  const fields = new Map(lines.map((line) => line.split(':\t', 2) as [string, string]))
  const uids = new Set((fields.get('Uid') ?? '').split('\t').map(Number))
  const [uid = 0] = uids
  const mayLook = process.getuid?.() === 0 || process.getuid?.() === uid
  const rights: readonly (readonly [boolean, string])[] = [
    [uids.size === 1 && uid !== 0, 'it runs as root'],
    [CAPABILITIES.every((set) => fields.get(set) === '0'.repeat(16)), 'it has Linux capabilities'],
    [fields.get('NoNewPrivs') === '1', 'programs in it can gain privileges'],
    [fields.get('Seccomp') === '2', 'its system calls are not filtered'],
  ]
  const shared = mayLook && NAMESPACES.find((name) => namespaceOf(pid, name) === namespaceOf('self', name))
  const fault = shared ? `it shares the host’s ${shared} namespace` : rights.find(([holds]) => !holds)?.[1]
  return { uid, fault }
}

function namespaceOf(pid: number | 'self', name: string): string {
  return readlinkSync(`/proc/${pid}/ns/${name}`)
}

/** Returns whether the mounted folder is the intended one, and not one that replaced it. */
export function isMountedInside(pid: number, target: string, source: string): boolean {
  const [inside, outside] = [`/proc/${pid}/root${target}`, source].map((path) =>
    lstatSync(path, { bigint: true }),
  )
  return inside!.dev === outside!.dev && inside!.ino === outside!.ino
}
