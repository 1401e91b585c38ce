/**
 * Creates the configuration of a container: no network, no capabilities, a read-only root, and no other part of the
 * host.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ContainerCreateOptions, HostConfig } from 'dockerode'
import { CraikError } from '../../../errors.ts'
import { GATEWAY_PORT, INSIDE, SIDECAR_ENV, SIDECAR_NODE_FLAGS } from '../../../sidecar/protocol.ts'
import type { ContainerSpec, HostUser, SandboxSpec } from '../../backend.ts'
import { dockerProfile } from '../../seccomp/docker-profile.ts'
import { containerName, labelsOf } from './container-names.ts'
import type { Engine } from './engine/engine.ts'

const MIB = 1024 * 1024
const SHM_BYTES = 256 * MIB
const RUN_BYTES = 16 * MIB
const LISTEN_BYTES = MIB
const MAX_TMP_BYTES = 1024 * MIB
/** The limit of open files, and of processes per user. Without one, Podman requests more than a system can grant. */
const ULIMIT = 16_384
/** The folder for spilled output: on the sandbox's disk, but outside its home. */
export const SPILL_INSIDE = '/var/spool/craik'
const INIT = ['/usr/bin/tini', '--']

/** A mount of a host folder or file, or of an engine volume. */
export interface ContainerMount {
  readonly type: 'bind' | 'volume'
  readonly source: string
  readonly target: string
  readonly readOnly: boolean
  /** Whether mounts below the source come along. */
  readonly deep?: boolean
  /** Whether later mounts of the host become visible in the container. Mounts never propagate the other way. */
  readonly follows?: boolean
}

export interface ContainerParts {
  readonly spec: SandboxSpec
  readonly container: ContainerSpec
  readonly craikHome: string
  readonly user: HostUser
  readonly shown: readonly ContainerMount[]
  /** The environment that the image itself sets. */
  readonly imageEnvironment: readonly string[]
}

export function containerConfig(engine: Engine, parts: ContainerParts): ContainerCreateOptions {
  const { spec, container, craikHome, user } = parts
  return {
    name: containerName(spec.id),
    Image: container.image,
    User: `${user.uid}:${user.gid}`,
    Hostname: 'sandbox',
    WorkingDir: INSIDE.home,
    Env: environmentFor(engine, parts),
    Entrypoint: [
      ...INIT,
      ...withoutCores(engine),
      `${INSIDE.runtime}/node`,
      ...SIDECAR_NODE_FLAGS,
      `${INSIDE.runtime}/sidecar.mjs`,
    ],
    Cmd: [],
    Labels: labelsOf(spec.id, craikHome),
    Tty: false,
    OpenStdin: false,
    AttachStdin: false,
    AttachStdout: false,
    AttachStderr: false,
    HostConfig: hostConfig(engine, parts),
  }
}

/**
 * Returns a shell command that disables core dumps. Rootless Podman accepts no core limit in the configuration. The
 * shell lowers the hard limit, so the sidecar cannot raise it.
 */
function withoutCores({ product, isRootless }: Engine): string[] {
  return product === 'podman' && isRootless ? ['/bin/sh', '-c', 'ulimit -c 0 && exec "$@"', 'sh'] : []
}

/**
 * Returns only our variables, because the image's own would reach every program, the sidecar first. A name without a
 * value removes a variable. Podman's version of this API cannot remove one, so there the value is empty.
 */
export function environmentFor(
  { product }: Pick<Engine, 'product'>,
  { container, imageEnvironment }: Pick<ContainerParts, 'container' | 'imageEnvironment'>,
): string[] {
  const own: Record<string, string> = { ...baseEnvironment(), ...sidecarEnvironment(container) }
  const foreign = new Set(imageEnvironment.map((entry) => entry.split('=', 1)[0]!))
  return [
    ...Object.entries(own).map(([name, value]) => `${name}=${value}`),
    ...[...foreign]
      .filter((name) => !Object.hasOwn(own, name))
      .map((name) => (product === 'docker' ? name : `${name}=`)),
  ]
}

/** The type definitions do not include cgroup namespaces. */
type FullHostConfig = HostConfig & { readonly CgroupnsMode: 'private' }

function hostConfig(engine: Engine, { spec, container, shown, user }: ContainerParts): FullHostConfig {
  const { memoryBytes, processes, cpuMillis } = spec.limits
  const { holds } = engine
  const temporary = tmpfs(Math.min(MAX_TMP_BYTES, Math.floor(memoryBytes / 2)), 'exec,mode=1777')
  return {
    NetworkMode: 'none',
    // Without this, the container's resolv.conf names the host's resolvers, which it cannot reach. Podman names none.
    ...(engine.product === 'docker' && { Dns: ['127.0.0.1'] }),
    // Engines open ICMP sockets to some groups or to all. This is the kernel's value for none.
    ...(!engine.remapsUsers && { Sysctls: { 'net.ipv4.ping_group_range': '1 0' } }),
    CapDrop: ['ALL'],
    Privileged: false,
    ReadonlyRootfs: true,
    SecurityOpt: ['no-new-privileges', `seccomp=${profileFor(engine, spec.folder)}`],
    IpcMode: 'private',
    CgroupnsMode: 'private',
    Runtime: container.runtime,
    RestartPolicy: { Name: 'no' },
    // Otherwise the boundary's data would be in the engine's logs.
    LogConfig: { Type: 'none', Config: {} },
    Init: false,
    ...(holds.memory && { Memory: memoryBytes, MemorySwap: memoryBytes }),
    ...(holds.processes && { PidsLimit: container.runtime === 'runsc' ? hostThreads(processes) : processes }),
    ...(holds.cpu &&
      cpuMillis !== undefined && { NanoCpus: Math.min(cpuMillis, engine.processors * 1000) * 1_000_000 }),
    // A core dump would contain the secrets of a program.
    Ulimits: [
      { Name: 'core', Soft: 0, Hard: 0 },
      { Name: 'nofile', Soft: ULIMIT, Hard: ULIMIT },
      ...(engine.product === 'podman' ? [{ Name: 'nproc', Soft: ULIMIT, Hard: ULIMIT }] : []),
    ],
    ShmSize: SHM_BYTES,
    Tmpfs: {
      '/tmp': temporary,
      // Podman mounts one here by default, sized at half the machine's memory. In our images, /var/tmp is a link to
      // /tmp.
      ...(engine.product === 'podman' && { '/var/tmp': temporary }),
      // The runtime sets the mode of the image's folder. Logins are stored here, so the owner must be the user who
      // writes them.
      '/run': tmpfs(RUN_BYTES, `noexec,mode=0755,${ownerOption(engine, user)}`),
      ...(container.line === 'relay' && {
        // Open to all, because not every engine can set the owner. The sandbox has only one user.
        [INSIDE.socketFolder]: tmpfs(LISTEN_BYTES, 'noexec,mode=1777'),
      }),
    },
    Mounts: shown.map(({ type, source, target, readOnly, deep, follows }) => ({
      Type: type,
      Source: source,
      Target: target,
      ReadOnly: readOnly,
      ...(type === 'bind' && {
        BindOptions: { Propagation: follows ? 'rslave' : 'rprivate', NonRecursive: !deep },
      }),
    })),
  }
}

/**
 * gVisor’s kernel is one process of the host, with several threads for each thread of the sandbox. It exits when it
 * cannot create another. This limit therefore protects the host; the sandbox’s own number is not enforced.
 */
function hostThreads(processes: number): number {
  return 4 * processes + 256
}

/** Docker expects the profile itself, Podman the path of a file. */
function profileFor({ architecture, product }: Engine, folder: string): string {
  const profile = dockerProfile(architecture)
  if (profile === undefined)
    throw new CraikError('unavailable', `no system call filter for ${architecture}`, {
      hint: 'use an engine on an x64 or arm64 machine',
    })
  if (product === 'docker') return JSON.stringify(profile)
  const path = join(folder, 'seccomp.json')
  writeFileSync(path, JSON.stringify(profile), { mode: 0o600 })
  return path
}

function tmpfs(bytes: number, options: string): string {
  return `rw,nosuid,nodev,size=${bytes},${options}`
}

/** Podman accepts no numbers here. Its option `U` means the container's user. */
function ownerOption({ product }: Engine, { uid, gid }: HostUser): string {
  return product === 'docker' ? `uid=${uid},gid=${gid}` : 'U'
}

function baseEnvironment(): Record<string, string> {
  return { PATH: '/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin', LANG: 'C.UTF-8' }
}

function sidecarEnvironment({ line }: ContainerSpec): Record<string, string> {
  return {
    ...(line === 'relay'
      ? { [SIDECAR_ENV.listen]: INSIDE.listenSocket }
      : { [SIDECAR_ENV.socket]: `${INSIDE.socketFolder}/${INSIDE.socketName}` }),
    [SIDECAR_ENV.home]: INSIDE.home,
    [SIDECAR_ENV.workspace]: INSIDE.workspace,
    [SIDECAR_ENV.gatewayPort]: String(GATEWAY_PORT),
    [SIDECAR_ENV.spill]: SPILL_INSIDE,
  }
}
