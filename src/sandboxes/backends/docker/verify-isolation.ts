/** Whether a container is what was asked for: by what the engine says of it, and by what the kernel shows of it. */
import { lstatSync, readFileSync, readlinkSync } from 'node:fs'
import type { ContainerInspectInfo } from 'dockerode'
import type { ContainerSpec, HostUser } from '../../backend.ts'
import type { ContainerMount } from './container-config.ts'
import type { Engine } from './engine/engine.ts'

export interface Expected {
  readonly container: ContainerSpec
  readonly user: HostUser
  readonly shown: readonly ContainerMount[]
  /** As it was asked for: with values, and names that are to be taken away. */
  readonly environment: readonly string[]
}

/** What is wrong in the engine's own words for it; undefined when nothing is. */
export function faultInDescription(
  found: ContainerInspectInfo,
  { container, user, shown, environment }: Expected,
  product: Engine['product'],
): string | undefined {
  const { HostConfig: host, Config: config } = found
  const networks = Object.keys(found.NetworkSettings?.Networks ?? {})
  const options = (host.SecurityOpt ?? []).join(' ')
  // Podman names each capability that it dropped; what it left is seen at the process.
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
  return checks.find(([holds]) => !holds)?.[1] ?? faultInMounts(found, shown)
}

const imageId = (id: string): string => id.replace(/^sha256:/, '')
/** Podman adds these, which tell what the container is told anyway. */
const ADDED_BY_PODMAN = /^(?:TERM|HOME|HOSTNAME|container)=/
const isOnly = (
  found: readonly string[] | null | undefined,
  asked: readonly string[],
  product: Engine['product'],
): boolean =>
  (found ?? []).every(
    (entry) => asked.includes(entry) || (product === 'podman' && ADDED_BY_PODMAN.test(entry)),
  )
const isOwn = (mode: string | undefined): boolean => ['', 'private', 'shareable'].includes(mode ?? '')

/** Exactly ours: an image may ask for volumes of its own. */
function faultInMounts(
  { Mounts }: ContainerInspectInfo,
  shown: readonly ContainerMount[],
): string | undefined {
  const found = Mounts.filter(({ Type }) => (Type as string) !== 'tmpfs').map(
    ({ Type, Source, Name, Destination, RW }) =>
      [Type, Type === 'volume' ? Name : Source, Destination, RW ? 'rw' : 'ro'].join('\0'),
  )
  const wanted = shown.map(({ type, source, target, readOnly }) =>
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
 * The first process of a container on this machine. Whoever is not its user, and not root, sees its rights, but not its
 * namespaces: for those they have the engine's word.
 */
export function lookAtProcess(pid: number): SeenProcess {
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

/** Whether the folder that is mounted there inside is the very one that was meant, and not one put in its place. */
export function isMountedInside(pid: number, target: string, source: string): boolean {
  const [inside, outside] = [`/proc/${pid}/root${target}`, source].map((path) =>
    lstatSync(path, { bigint: true }),
  )
  return inside!.dev === outside!.dev && inside!.ino === outside!.ino
}
