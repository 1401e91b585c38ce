/**
 * Reads and writes sandbox disks that are engine volumes, through a container that is created but never started. No
 * program of the sandbox runs then, and the engine follows none of its links.
 */
import type { IncomingMessage } from 'node:http'
import type { Readable } from 'node:stream'
import { CraikError } from '../../../errors.ts'
import { rewriteTar } from '../../../lib/safe-tar/rewrite.ts'
import { INSIDE } from '../../../sidecar/protocol.ts'
import type { SandboxSpec } from '../../backend.ts'
import type { SandboxDisks } from '../../sandbox-disks.ts'
import { USER_OF_IMAGE } from './container-instance.ts'
import { labelsOf } from './container-names.ts'
import type { Engine } from './engine/engine.ts'
import { makeVolume, removeVolume } from './engine-volumes.ts'
import { findRecordedImage } from './image/recorded-image.ts'
import { removeContainer } from './remove-container.ts'
import { readNumbers, type VolumeNumbers, volumeName, writeNumbers } from './volume-names.ts'

export interface VolumeDeps {
  withEngine<T>(spec: SandboxSpec, use: (engine: Engine) => Promise<T>): Promise<T>
  readonly craikHome: string
}

/** How long an engine can send nothing although it has more data. */
const SILENCE_MS = 60_000
/** Enough for the largest snapshot. */
const WRITE_DEADLINE_MS = 3_600_000

export function volumeDisks(deps: VolumeDeps): SandboxDisks {
  const remove = async (spec: SandboxSpec, numbers: readonly (number | undefined)[]) => {
    const which = numbers.filter((one) => one !== undefined)
    if (which.length === 0) return
    await deps.withEngine(spec, async (engine) => {
      for (const one of which) await removeVolume(engine, volumeName(spec, one), spec.id, deps.craikHome)
    })
  }

  const settle = async (spec: SandboxSpec) => {
    const { disk, next, before } = readNumbers(spec)
    if (next === undefined && before === undefined) return
    await remove(spec, [next, before])
    writeNumbers(spec, { disk })
  }

  return {
    read: (spec, _running, { signal, limits, exclude }) =>
      deps.withEngine(spec, async (engine) => {
        const name = volumeName(spec, readNumbers(spec).disk)
        const helper = await createHelperContainer(engine, spec, name, deps.craikHome)
        const finish = () => removeContainer(engine, helper)
        try {
          const source = await engine.ask(
            'read the disk of a sandbox',
            () => engine.docker.getContainer(helper).getArchive({ path: `${INSIDE.home}/.` }),
            { signal },
          )
          destroyWhenSilent(source as IncomingMessage)
          return { ...rewriteTar(source as IncomingMessage, { signal, limits, exclude }), finish }
        } catch (error) {
          await finish().catch(() => {})
          throw error
        }
      }),

    async write(spec, archive, { signal, limits }) {
      const numbers = await withoutNext(spec)
      const next = Math.max(numbers.disk, numbers.before ?? 0) + 1
      // The file names the volume before it exists.
      writeNumbers(spec, { ...numbers, next })
      const { archive: checked, report } = rewriteTar(archive, { signal, limits, owner: USER_OF_IMAGE })
      try {
        await deps.withEngine(spec, (engine) => fill(engine, spec, volumeName(spec, next), checked, signal))
      } catch (error) {
        checked.destroy()
        archive.destroy()
        await withoutNext(spec).catch(() => {})
        throw error
      }
      return report()
    },

    async exchange(spec) {
      const { disk, next } = readNumbers(spec)
      if (next === undefined)
        throw new CraikError(
          'internal',
          `cannot replace the disk of sandbox ${spec.id}: no new disk was prepared`,
        )
      writeNumbers(spec, { disk: next, before: disk })
    },

    isExchanged: async (spec) => readNumbers(spec).before !== undefined,

    async revert(spec) {
      const { disk, before } = readNumbers(spec)
      if (before !== undefined) writeNumbers(spec, { disk: before, next: disk })
      await withoutNext(spec)
    },

    keepCurrent: settle,
  }

  /** Removes a volume that was written but never used. */
  async function withoutNext(spec: SandboxSpec): Promise<VolumeNumbers> {
    const { next, ...rest } = readNumbers(spec)
    if (next === undefined) return rest
    await remove(spec, [next])
    writeNumbers(spec, rest)
    return rest
  }

  async function fill(
    engine: Engine,
    spec: SandboxSpec,
    volume: string,
    content: Readable,
    signal: AbortSignal,
  ): Promise<void> {
    const helper = await createHelperContainer(engine, spec, volume, deps.craikHome)
    try {
      const failed = new Promise<never>((_, reject) => content.once('error', reject))
      failed.catch(() => {})
      const written = engine.ask(
        'write the disk of a sandbox',
        () => engine.docker.getContainer(helper).putArchive(content, { path: INSIDE.home }),
        { signal, deadlineMs: WRITE_DEADLINE_MS },
      )
      // Report a fault in the archive as such, not as the engine's reaction to its end.
      written.catch(() => {})
      await Promise.race([written, failed])
    } finally {
      await removeContainer(engine, helper)
    }
  }
}

/**
 * Creates a container with only the volume. It uses the sandbox's own image, so that an empty volume gets the right
 * owner.
 */
async function createHelperContainer(
  engine: Engine,
  spec: SandboxSpec,
  volume: string,
  craikHome: string,
): Promise<string> {
  const image = await findRecordedImage(engine, spec.container!, craikHome)
  await makeVolume(engine, volume, spec.id, craikHome)
  const made = await engine.ask('create a container', () =>
    engine.docker.createContainer({
      Image: image.id,
      User: `${USER_OF_IMAGE.uid}:${USER_OF_IMAGE.gid}`,
      Entrypoint: ['/nonexistent'],
      Cmd: [],
      Labels: labelsOf(spec.id, craikHome),
      HostConfig: {
        NetworkMode: 'none',
        CapDrop: ['ALL'],
        LogConfig: { Type: 'none', Config: {} },
        Mounts: [{ Type: 'volume', Source: volume, Target: INSIDE.home, ReadOnly: false }],
      },
    }),
  )
  return made.id
}

function destroyWhenSilent(source: IncomingMessage): void {
  source.setTimeout(SILENCE_MS, () =>
    source.destroy(
      new CraikError('unavailable', `the engine sent no disk data for ${SILENCE_MS / 1000} seconds`, {
        hint: 'craik doctor',
        details: { engine: 'silent' },
      }),
    ),
  )
}
