/** What a container will be made of: fixed before anything is decided, by what was asked and what the engine can do. */
import { CraikError } from '../../../errors.ts'
import type { ContainerRequest, ContainerSpec } from '../../backend.ts'
import { agentsOf, harnessName } from '../../harness-package.ts'
import { isGone } from './engine/ask.ts'
import type { Engine } from './engine/engine.ts'
import { imageHarnesses, wholeId } from './image/image-names.ts'

export interface PlannedImage {
  readonly id: string
  readonly name: string
  /** The ids of the agents' command lines in it. */
  readonly harnesses?: readonly string[]
}

export async function planContainer(
  engine: Engine,
  asked: ContainerRequest,
  findImage: () => Promise<PlannedImage>,
): Promise<ContainerSpec> {
  if (!engine.filtersCalls) throw noFilter(engine)
  if (engine.product === 'podman' && !engine.sharesFolders) throw remotePodman(engine)
  const runtime = asked.runtime ?? 'runc'
  requireRuntime(engine, runtime)
  const line = lineFor(engine, runtime, asked.line)
  const image = await findImage()
  requireHolds(image, asked.harnesses ?? [])
  return {
    image: image.id,
    imageName: image.name,
    runtime,
    line,
    // Where users have other numbers outside, nobody but the engine can make a folder that is theirs.
    state: engine.sharesFolders && !engine.remapsUsers ? 'folder' : 'volume',
    engine: engine.id,
    ...((image.harnesses ?? []).length > 0 && { harnesses: [...image.harnesses!] }),
  }
}

/** An image holds what it holds: what was asked for is in it, at the version that this build of Craik knows, or it is not used. */
function requireHolds({ name, harnesses = [] }: PlannedImage, asked: readonly string[]): void {
  const missing = agentsOf(asked).filter((id) => !harnesses.includes(id))
  if (missing.length === 0) return
  throw new CraikError('not_found', `the image ${name} does not contain ${missing.join(', ')}`, {
    hint: `leave out --image, or build one:  craik image build --harness ${agentsOf(asked).map(harnessName).join(',')}`,
  })
}

function noFilter({ address }: Engine): CraikError {
  return new CraikError('unavailable', `the engine at ${address} does not filter system calls`, {
    hint: 'use an engine that was built with seccomp, on a kernel with CONFIG_SECCOMP_FILTER',
  })
}

/** It takes the profile as a file of its own machine. */
function remotePodman({ address }: Engine): CraikError {
  return new CraikError(
    'unavailable',
    `the Podman at ${address} runs on another machine and cannot use Craik’s system call filter`,
    {
      hint: 'run craik on that machine, or use Docker there',
    },
  )
}

/** Over this API it runs every container with its own default, whatever it is asked for, and says nothing. */
function oneRuntime({ address }: Engine): CraikError {
  return new CraikError('unavailable', `the Podman at ${address} cannot select gVisor`, {
    hint: 'leave out --runtime, or use Docker for gVisor',
  })
}

/** Whatever was recorded: what runs a container is what was asked for, or it is not started. */
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

/** gVisor opens no sockets of the host; a socket in a folder that is not shared is none. */
function lineFor(
  engine: Engine,
  runtime: ContainerSpec['runtime'],
  asked: ContainerSpec['line'] | undefined,
): ContainerSpec['line'] {
  const canShare = engine.sharesFolders && runtime !== 'runsc'
  if (asked !== 'socket' || canShare) return asked ?? (canShare ? 'socket' : 'relay')
  const why =
    runtime === 'runsc' ? 'gVisor cannot open host sockets' : 'it shares no folders with this machine'
  throw new CraikError('unavailable', `the engine cannot use a host socket: ${why}`, {
    hint: 'omit --transport, or use --transport relay',
  })
}

/** An image that is there already. */
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
