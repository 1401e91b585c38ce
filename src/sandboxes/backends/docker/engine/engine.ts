/** Finds a container engine that speaks Docker's API, identifies it and describes its features. */
import { Agent as HttpAgent } from 'node:http'
import { Agent as HttpsAgent } from 'node:https'
import { hostname, release } from 'node:os'
import type Dockerode from 'dockerode'
import type { DockerOptions } from 'dockerode'
import { z } from 'zod'
import { CraikError } from '../../../../errors.ts'
import { type EngineAddress, readEngineAddress, usualAddresses } from './address.ts'
import { type AskEngine, asker, GREETING } from './engine-request.ts'

export interface Engine {
  readonly docker: Dockerode
  /** The options to connect to it. */
  readonly options: DockerOptions
  /** The engine's own id. Another engine at the same address has a different one. */
  readonly id: string
  /** Text for people. */
  readonly address: string
  readonly product: 'docker' | 'podman'
  readonly version: string
  /** The version of the program that creates containers; undefined where the engine does not report it. */
  readonly runcVersion: string | undefined
  readonly runtimes: readonly string[]
  readonly isRootless: boolean
  /** Whether it sees the same folders and processes as this machine. Only then can a container mount them. */
  readonly sharesFolders: boolean
  /** Whether it maps the users of containers to other numbers on the host. */
  readonly remapsUsers: boolean
  readonly cgroupVersion: 1 | 2
  readonly cgroupDriver: string
  /** The limits that it enforces. */
  readonly holds: Readonly<Record<'memory' | 'processes' | 'cpu', boolean>>
  readonly filtersCalls: boolean
  /** Node's name: `x64`, `arm64`. */
  readonly architecture: string
  readonly processors: number
  /** Sends requests to the engine, with a deadline and the errors of `engine-request.ts`. */
  readonly ask: AskEngine
}

/** A busy engine takes seconds to describe itself. A missing one fails immediately. */
const OPEN_DEADLINE_MS = 20_000

const text = z.string().max(1000)
const infoSchema = z.object({
  ID: text.nullish(),
  Name: text,
  ServerVersion: text.nullish(),
  OSType: text,
  OperatingSystem: text,
  KernelVersion: text,
  Architecture: text,
  DockerRootDir: text,
  NCPU: z.number().int().positive(),
  Runtimes: z.record(text, z.unknown()).nullish(),
  SecurityOptions: z.array(text).nullish(),
  CgroupVersion: text.nullish(),
  CgroupDriver: text.nullish(),
  MemoryLimit: z.boolean().nullish(),
  PidsLimit: z.boolean().nullish(),
  CpuCfsQuota: z.boolean().nullish(),
  /** Podman's field for it. */
  Rootless: z.boolean().nullish(),
})
type Info = z.infer<typeof infoSchema>

const versionSchema = z.object({
  Version: text,
  Components: z.array(z.object({ Name: text, Version: text })).nullish(),
})
type Version = z.infer<typeof versionSchema>

/** Opens the engine that the environment names, or the first one that answers where engines usually listen. */
export async function openEngine(environment: NodeJS.ProcessEnv): Promise<Engine> {
  const named = readEngineAddress(environment)
  if (named !== undefined) return await engineAt(named)
  const faults: CraikError[] = []
  for (const address of usualAddresses(environment)) {
    try {
      return await engineAt(address)
    } catch (error) {
      if (!(error instanceof CraikError)) throw error
      faults.push(error)
    }
  }
  throw noneFound(faults)
}

/** An engine that refuses access is a better explanation than all missing ones. */
function noneFound(faults: readonly CraikError[]): CraikError {
  const codeOf = (fault: CraikError) => String(fault.details?.code)
  const telling = faults.find((fault) => !['ENOENT', 'ECONNREFUSED', 'ENOTDIR'].includes(codeOf(fault)))
  if (telling !== undefined) return telling
  const isStopped = faults.some((fault) => codeOf(fault) === 'ECONNREFUSED')
  const hint = isStopped
    ? 'start Docker:  sudo systemctl start docker'
    : 'install Docker:  sudo apt-get install docker.io'
  return new CraikError('unavailable', 'no container engine is running on this machine', {
    hint,
    details: { engine: 'silent', none: !isStopped },
  })
}

async function engineAt(address: EngineAddress): Promise<Engine> {
  const ask = asker(address.text)
  const docker = await connect(address)
  const options = { deadlineMs: OPEN_DEADLINE_MS }
  const [info, version] = await ask(
    GREETING,
    async () => {
      const answers = await Promise.all([docker.info(), docker.version()])
      return [parse(infoSchema, answers[0]), parse(versionSchema, answers[1])] as const
    },
    options,
  )
  if (info.OSType !== 'linux')
    throw new CraikError('unavailable', `the engine at ${address.text} runs ${info.OSType} containers`, {
      hint: 'switch the engine to Linux containers',
    })
  return describe(address, docker, ask, info, version)
}

async function connect(address: EngineAddress): Promise<Dockerode> {
  const { default: Client } = await import('dockerode')
  try {
    return new Client({ ...address.options, agent: agentFor(address) } as DockerOptions)
  } catch (cause) {
    // The client reads DOCKER_HOST and DOCKER_CERT_PATH even when it gets an explicit address.
    throw new CraikError('usage', 'DOCKER_HOST or DOCKER_CERT_PATH is invalid', {
      hint: 'unset DOCKER_HOST DOCKER_CERT_PATH',
      cause,
    })
  }
}

/** Opens a connection for each request. A connection that is kept alive would be dead after the engine restarts. */
function agentFor({ options: { protocol } }: EngineAddress): HttpAgent {
  return protocol === 'https' ? new HttpsAgent({ keepAlive: false }) : new HttpAgent({ keepAlive: false })
}

function describe(
  address: EngineAddress,
  docker: Dockerode,
  ask: AskEngine,
  info: Info,
  { Version: version, Components }: Version,
): Engine {
  const componentVersion = (name: string) =>
    Components?.find((one) => one.Name.toLowerCase() === name)?.Version
  const product = componentVersion('podman engine') === undefined ? 'docker' : 'podman'
  const hasSecurityOption = (name: string) =>
    (info.SecurityOptions ?? []).some((one) => one.startsWith(`name=${name}`))
  const isRootless = hasSecurityOption('rootless') || info.Rootless === true
  const cgroupVersion = info.CgroupVersion === '2' ? 2 : 1
  // Without root, nothing can enforce limits in the first version of cgroups.
  const canHold = (info.CgroupDriver ?? 'none') !== 'none' && !(isRootless && cgroupVersion === 1)
  const isHere =
    process.platform === 'linux' &&
    address.socket !== undefined &&
    info.OperatingSystem !== 'Docker Desktop' &&
    info.Name === hostname() &&
    info.KernelVersion === release()
  return {
    docker,
    options: address.options,
    ask,
    id: engineId(product, info),
    address: address.text,
    product,
    version,
    runcVersion: componentVersion('runc'),
    // Podman lists every runtime that it knows of, but callers cannot choose one.
    runtimes: Object.keys(info.Runtimes ?? {}).filter((name) => product === 'docker' || name !== 'runsc'),
    isRootless,
    sharesFolders: isHere,
    remapsUsers: isRootless || hasSecurityOption('userns'),
    cgroupVersion,
    cgroupDriver: info.CgroupDriver ?? 'none',
    holds: {
      memory: canHold && info.MemoryLimit === true,
      processes: canHold && info.PidsLimit === true,
      cpu: canHold && info.CpuCfsQuota === true,
    },
    filtersCalls: hasSecurityOption('seccomp'),
    architecture: { x86_64: 'x64', amd64: 'x64', aarch64: 'arm64' }[info.Architecture] ?? info.Architecture,
    processors: info.NCPU,
  }
}

/** Podman creates a new id for every answer. The folder where it stores containers stays the same. */
function engineId(product: Engine['product'], { ID, Name, DockerRootDir }: Info): string {
  return product === 'docker' && ID ? ID : `${product}:${Name}:${DockerRootDir}`
}

function parse<T>(schema: z.ZodType<T>, answer: unknown): T {
  const parsed = schema.safeParse(answer)
  if (parsed.success) return parsed.data
  throw new CraikError('unavailable', 'the program at the engine’s address is not a container engine', {
    hint: 'unset CRAIK_ENGINE DOCKER_HOST',
    cause: parsed.error,
  })
}
