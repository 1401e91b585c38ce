/** Plans a container from the request and the engine's features, before the policy decision. */
import { CraikError } from '../../../errors.ts'
import type { ContainerRequest, ContainerSpec } from '../../backend.ts'
import { agentsOf, harnessName } from '../../harness-package.ts'
import type { Engine } from './engine/engine.ts'
import { isGone } from './engine/engine-request.ts'
import { imageHarnesses, wholeId } from './image/image-names.ts'

export interface PlannedImage {
  readonly id: string
  readonly name: string
  /** The ids of its harnesses. */
  readonly harnesses?: readonly string[]
}

export async function planContainer(
  engine: Engine,
  request: ContainerRequest,
  findImage: () => Promise<PlannedImage>,
): Promise<ContainerSpec> {
  if (!engine.filtersCalls) throw noFilter(engine)
  if (engine.product === 'podman' && !engine.sharesFolders) throw remotePodman(engine)
  const runtime = request.runtime ?? 'runc'
  requireRuntime(engine, runtime)
  const line = lineFor(engine, runtime, request.line)
  const image = await findImage()
  requireHolds(image, request.harnesses ?? [])
  return {
    image: image.id,
    imageName: image.name,
    runtime,
    line,
    // Where users have other numbers on the host, only the engine can create a folder that they own.
    state: engine.sharesFolders && !engine.remapsUsers ? 'folder' : 'volume',
    engine: engine.id,
    ...((image.harnesses ?? []).length > 0 && { harnesses: [...image.harnesses!] }),
  }
}

/**
 * Throws unless the image contains every requested harness in the version of this build of Craik. Nothing can be added
 * to an image.
 */
function requireHolds({ name, harnesses = [] }: PlannedImage, requests: readonly string[]): void {
  const missing = agentsOf(requests).filter((id) => !harnesses.includes(id))
  if (missing.length === 0) return
  throw new CraikError('not_found', `the image ${name} does not contain ${missing.join(', ')}`, {
    hint: `leave out --image, or build one:  craik image build --harness ${agentsOf(requests).map(harnessName).join(',')}`,
  })
}

function noFilter({ address }: Engine): CraikError {
  return new CraikError('unavailable', `the engine at ${address} does not filter system calls`, {
    hint: 'use an engine that was built with seccomp, on a kernel with CONFIG_SECCOMP_FILTER',
  })
}

/** Podman reads the profile from a file on its own machine. */
function remotePodman({ address }: Engine): CraikError {
  return new CraikError(
    'unavailable',
    `the Podman at ${address} runs on another machine and cannot use Craik’s system call filter`,
    {
      hint: 'run craik on that machine, or use Docker there',
    },
  )
}

/** Through this API, Podman runs every container with its default runtime, ignores the request and reports no error. */
function oneRuntime({ address }: Engine): CraikError {
  return new CraikError('unavailable', `the Podman at ${address} cannot select gVisor`, {
    hint: 'leave out --runtime, or use Docker for gVisor',
  })
}

/** Throws unless the engine runs containers with the requested runtime, whatever the record says. */
export function requireRuntime(engine: Engine, runtime: ContainerSpec['runtime']): void {
  if (engine.product === 'podman' && runtime === 'runsc') throw oneRuntime(engine)
  const isThere =
    engine.runtimes.includes(runtime) || (runtime === 'runc' && engine.runtimes.includes('crun'))
  if (isThere) return
  const hint =
    runtime === 'runsc'
      ? 'install and register it:  sudo apt-get install runsc && sudo runsc install && sudo systemctl reload docker'
      : 'install it:  sudo apt-get install runc'
  const message = `the engine at ${engine.address} has no runtime ${runtime}`
  throw new CraikError('unavailable', message, { hint, details: { runtimes: engine.runtimes } })
}

/** gVisor cannot open sockets of the host, and a socket in a folder that is not shared is useless. */
function lineFor(
  engine: Engine,
  runtime: ContainerSpec['runtime'],
  requested: ContainerSpec['line'] | undefined,
): ContainerSpec['line'] {
  const canShare = engine.sharesFolders && runtime !== 'runsc'
  if (requested !== 'socket' || canShare) return requested ?? (canShare ? 'socket' : 'relay')
  const why =
    runtime === 'runsc' ? 'gVisor cannot open host sockets' : 'it shares no folders with this machine'
  throw new CraikError('unavailable', `the engine cannot use a host socket: ${why}`, {
    hint: 'omit --transport, or use --transport relay',
  })
}

/** Describes an image that already exists. */
export async function existingImage(engine: Engine, name: string): Promise<PlannedImage> {
  try {
    const { Id, Config } = await engine.ask('inspect an image', () => engine.docker.getImage(name).inspect())
    return { id: wholeId(Id), name, harnesses: imageHarnesses(Config?.Labels) }
  } catch (error) {
    if (!isGone(error)) throw error
    throw new CraikError('not_found', `the engine at ${engine.address} has no image ${name}`, {
      hint: 'list the images:  craik image list',
    })
  }
}
