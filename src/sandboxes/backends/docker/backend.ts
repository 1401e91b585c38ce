/** Sandboxes in containers, made by an engine that speaks Docker's API. */
import { CraikError } from '../../../errors.ts'
import type { Availability, ContainerSpec, OtherHome, SandboxBackend, SandboxSpec } from '../../backend.ts'
import type { SandboxDisks } from '../../disks.ts'
import { runsInAnotherHome } from '../process/another-home.ts'
import { canMountImages, MIN_IMAGE_BYTES } from '../process/disk-image.ts'
import { folderDisks } from '../process/disks.ts'
import { instanceFolders } from '../process/folders.ts'
import { chooseHostUser } from '../process/host-user.ts'
import { containerInstance, removeTraces, startContainer } from './container-instance.ts'
import { faultOf, isGone } from './engine/ask.ts'
import type { Engine } from './engine/engine.ts'
import { Engines } from './engines.ts'
import { followingContainer, isNotFollowing } from './following.ts'
import { parseDockerHandle } from './handle.ts'
import { builtImage } from './image/ensure-image.ts'
import { isOurs } from './names.ts'
import { existingImage, planContainer } from './plan.ts'
import type { Around } from './prepare-mounts.ts'
import { homeOfContainer, removeContainers } from './remove-container.ts'
import { volumeDisks } from './volume-disks.ts'
import { removeVolumes } from './volumes.ts'

export function dockerBackend(around: Around): SandboxBackend {
  const engines = new Engines(around.environment)
  let mountable: Promise<boolean> | undefined
  let canFollow = process.platform === 'linux' && process.geteuid?.() === 0

  /** Only root mounts; then a disk is a file system of the size that was asked for. */
  const diskBytesOf = async ({ limits: { diskBytes } }: SandboxSpec, { state }: ContainerSpec) => {
    if (diskBytes === undefined || state === 'volume') return undefined
    mountable ??= canMountImages(around.craikHome)
    return (await mountable) ? diskBytes : undefined
  }

  const withItsEngine = async (spec: SandboxSpec, use: (engine: Engine) => Promise<void>) => {
    try {
      await engines.with(spec.container?.engine, use)
    } catch (error) {
      // Nothing says that it ever was in a container, and there is no engine that could hold one.
      if (spec.container !== undefined || !isWithoutEngine(error)) throw error
    }
  }

  const sweep = async (spec: SandboxSpec) => {
    let other: OtherHome | undefined
    await engines.removals.pass(undefined, () =>
      withItsEngine(spec, async (engine) => {
        other = await removeContainers(engine, spec, around.craikHome)
      }),
    )
    // Then the names in the workspace are those of the other home's sandbox.
    if (other === undefined) await removeTraces(spec)
  }

  return {
    kind: 'container',
    pooled: true,
    // As root, who alone mounts. gVisor's own kernel sees nothing of what is mounted later.
    showsLate: (container) => canFollow && container?.state === 'folder' && container.runtime === 'runc',

    async probe() {
      try {
        const engine = await engines.reach()
        return { isolation: 'container', version: `${engine.product} ${engine.version}` }
      } catch (error) {
        if (!(error instanceof CraikError)) throw error
        return { isolation: 'none', reason: error.message, fix: error.hint } satisfies Availability
      }
    },

    plan: (asked) =>
      engines.with(undefined, (engine) =>
        planContainer(engine, asked, () =>
          asked.image === undefined
            ? builtImage(
                engine,
                { readableNode: asked.runtime === 'runsc', harnesses: asked.harnesses ?? [] },
                around,
              )
            : existingImage(engine, asked.image),
        ),
      ),

    async create(spec) {
      const container = requirePossible(spec)
      const diskBytes = await diskBytesOf(spec, container)
      return engines.with(container.engine, async (engine) => {
        try {
          const other = await removeContainers(engine, spec, around.craikHome)
          if (other !== undefined) throw runsInAnotherHome(spec, other)
          const handle = await startContainer(engine, spec, container, diskBytes, around)
          const following = followingContainer(handle, spec)
          return containerInstance(engines, engine, handle, spec, around, following)
        } catch (error) {
          // What this engine does not do is not asked of it again.
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

    elsewhere: (handle, spec) =>
      engines.with(parseDockerHandle(handle).engine, (engine) =>
        homeOfContainer(engine, spec.id, around.craikHome),
      ),

    sweep,

    disks: disksByState({
      folder: folderDisks({
        ownerOf: (spec) => chooseHostUser(spec),
        imageBytesOf: async (spec) => diskBytesOf(spec, containerOf(spec)),
        // Mounted where the engine looks, which is where we are.
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
    settle: async (spec) => of(spec).settle(spec),
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
    throw new CraikError('unavailable', `a container does not support isolation ${isolation}`)
  if (limits.diskBytes !== undefined && limits.diskBytes < MIN_IMAGE_BYTES)
    throw new CraikError('usage', `the disk of a sandbox must have at least ${MIN_IMAGE_BYTES} bytes`)
  return containerOf(spec)
}
