/** Runs sandboxes in containers of an engine that speaks Docker's API. */
import { CraikError } from '../../../errors.ts'
import { cacheSuccess } from '../../../lib/memoize.ts'
import type { Availability, ContainerSpec, OtherHome, SandboxBackend, SandboxSpec } from '../../backend.ts'
import type { SandboxDisks } from '../../sandbox-disks.ts'
import { otherHomeError } from '../process/another-home.ts'
import { canMountImages, MIN_IMAGE_BYTES } from '../process/disk-image.ts'
import { folderDisks } from '../process/folder-disks.ts'
import { chooseHostUser } from '../process/host-user.ts'
import { instanceFolders } from '../process/instance-folders.ts'
import { containerInstance, removeTraces, startContainer } from './container-instance.ts'
import { isOurs } from './container-names.ts'
import type { Engine } from './engine/engine.ts'
import { faultOf, isGone } from './engine/engine-request.ts'
import { removeVolumes } from './engine-volumes.ts'
import { Engines } from './engines.ts'
import { parseDockerHandle } from './handle.ts'
import { findBuiltImage } from './image/ensure-image.ts'
import { followingContainer, isNotFollowing } from './mount-propagation.ts'
import { existingImage, planContainer } from './plan-container.ts'
import type { MountContext } from './prepare-mounts.ts'
import { homeOfContainer, removeContainers } from './remove-container.ts'
import { volumeDisks } from './volume-disks.ts'

export function dockerBackend(around: MountContext): SandboxBackend {
  const engines = new Engines(around.environment)
  // The kind of a sandbox's disk must not change, so only an error is not cached.
  const isMountable = cacheSuccess(
    () => canMountImages(around.craikHome),
    () => true,
  )
  let canFollow = process.platform === 'linux' && process.geteuid?.() === 0

  /** Returns the size of the disk's own file system. `undefined` without root, because only root can mount one. */
  const diskBytesOf = async ({ limits: { diskBytes } }: SandboxSpec, { state }: ContainerSpec) => {
    if (diskBytes === undefined || state === 'volume') return undefined
    return (await isMountable()) ? diskBytes : undefined
  }

  const withItsEngine = async (spec: SandboxSpec, use: (engine: Engine) => Promise<void>) => {
    try {
      await engines.with(spec.container?.engine, use)
    } catch (error) {
      // The record names no container, and this host has no engine that could run one.
      if (spec.container !== undefined || !isWithoutEngine(error)) throw error
    }
  }

  const sweep = async (spec: SandboxSpec) => {
    let other: OtherHome | undefined
    await engines.removals.run(undefined, () =>
      withItsEngine(spec, async (engine) => {
        other = await removeContainers(engine, spec, around.craikHome)
      }),
    )
    // If another home owns the container, the mounted names in the workspace belong to its sandbox.
    if (other === undefined) await removeTraces(spec)
  }

  return {
    kind: 'container',
    pooled: true,
    // This needs root, because only root can mount. gVisor's own kernel does not see later mounts.
    supportsHotMounts: (container) =>
      canFollow && container?.state === 'folder' && container.runtime === 'runc',

    async probe() {
      try {
        const engine = await engines.reach()
        return { isolation: 'container', version: `${engine.product} ${engine.version}` }
      } catch (error) {
        if (!(error instanceof CraikError)) throw error
        return { isolation: 'none', reason: error.message, fix: error.hint } satisfies Availability
      }
    },

    plan: (request) =>
      engines.with(undefined, (engine) =>
        planContainer(engine, request, () =>
          request.image === undefined
            ? findBuiltImage(
                engine,
                { readableNode: request.runtime === 'runsc', harnesses: request.harnesses ?? [] },
                around,
              )
            : existingImage(engine, request.image),
        ),
      ),

    async create(spec) {
      const container = requirePossible(spec)
      const diskBytes = await diskBytesOf(spec, container)
      return engines.with(container.engine, async (engine) => {
        try {
          const other = await removeContainers(engine, spec, around.craikHome)
          if (other !== undefined) throw otherHomeError(spec, other)
          const handle = await startContainer(engine, spec, container, diskBytes, around)
          const following = followingContainer(handle, spec)
          return containerInstance(engines, engine, handle, spec, around, following)
        } catch (error) {
          // Do not request hot mounts again from an engine that cannot do them.
          if (spec.late !== undefined && (isNotFollowing(error) || faultOf(error) === 'refused'))
            canFollow = false
          await sweep(spec).catch(() => {})
          throw error
        }
      })
    },

    async recover(handle, spec) {
      const known = parseDockerHandle(handle)
      return engines.with(known.engine, async (engine) => {
        try {
          const { State, Config } = await engine.ask('inspect a container', () =>
            engine.docker.getContainer(known.container).inspect(),
          )
          const isIt = isOurs(Config.Labels, spec.id, around.craikHome) && State.StartedAt === known.startedAt
          if (!isIt || !(State.Running || State.Paused)) return undefined
          return containerInstance(engines, engine, known, spec, around)
        } catch (error) {
          if (isGone(error)) return undefined
          throw error
        }
      })
    },

    locateOtherHome: (handle, spec) =>
      engines.with(parseDockerHandle(handle).engine, (engine) =>
        homeOfContainer(engine, spec.id, around.craikHome),
      ),

    sweep,

    disks: disksByState({
      folder: folderDisks({
        ownerOf: (spec) => chooseHostUser(spec),
        imageBytesOf: async (spec) => diskBytesOf(spec, containerOf(spec)),
        // Craik mounts the disk where the engine looks, which is also where this process looks.
        reachRunning: async (spec) => ({ path: instanceFolders(spec.folder).data, close: async () => {} }),
      }),
      volume: volumeDisks({
        withEngine: (spec, use) => engines.with(containerOf(spec).engine, use),
        craikHome: around.craikHome,
      }),
    }),

    async discard(spec) {
      if (spec.container?.state === 'folder') return
      await withItsEngine(spec, (engine) => removeVolumes(engine, spec.id, around.craikHome))
    },
  }
}

function disksByState(disks: Readonly<Record<ContainerSpec['state'], SandboxDisks>>): SandboxDisks {
  const of = (spec: SandboxSpec) => disks[spec.container?.state ?? 'folder']
  return {
    read: async (spec, running, options) => of(spec).read(spec, running, options),
    write: async (spec, archive, options) => of(spec).write(spec, archive, options),
    exchange: async (spec) => of(spec).exchange(spec),
    isExchanged: async (spec) => of(spec).isExchanged(spec),
    revert: async (spec) => of(spec).revert(spec),
    keepCurrent: async (spec) => of(spec).keepCurrent(spec),
  }
}

function containerOf({ container }: SandboxSpec): ContainerSpec {
  if (container !== undefined) return container
  throw new CraikError('internal', 'the sandbox has no container configuration')
}

function isWithoutEngine(error: unknown): boolean {
  return error instanceof CraikError && error.details?.none === true
}

function requirePossible(spec: SandboxSpec): ContainerSpec {
  const { isolation, limits } = spec
  if (isolation !== 'container')
    throw new CraikError('unavailable', `the docker backend does not support isolation ${isolation}`, {
      hint: 'omit --isolation, or use  --backend process',
    })
  if (limits.diskBytes !== undefined && limits.diskBytes < MIN_IMAGE_BYTES)
    throw new CraikError('usage', `the disk of a sandbox must have at least ${MIN_IMAGE_BYTES} bytes`, {
      hint: 'use a larger disk:  --disk 16m',
    })
  return containerOf(spec)
}
