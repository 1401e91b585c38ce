/**
 * The disks of sandboxes that are volumes of their engine: read and written through it, by way of a container that is
 * made and never started. So nothing of the sandbox's runs meanwhile, and the engine follows none of its links.
 */
import type { IncomingMessage } from 'node:http'
import type { Readable } from 'node:stream'
import { CraikError } from '../../../errors.ts'
import { rewriteTar } from '../../../lib/safe-tar/rewrite.ts'
import { INSIDE } from '../../../sidecar/protocol.ts'
import type { SandboxSpec } from '../../backend.ts'
import type { SandboxDisks } from '../../disks.ts'
import { USER_OF_IMAGE } from './container-instance.ts'
import type { Engine } from './engine/engine.ts'
import { recordedImage } from './image/recorded-image.ts'
import { labelsOf } from './names.ts'
import { removeContainer } from './remove-container.ts'
import { readNumbers, type VolumeNumbers, volumeName, writeNumbers } from './volume-names.ts'
import { makeVolume, removeVolume } from './volumes.ts'

export interface VolumeMeans {
  withEngine<T>(spec: SandboxSpec, use: (engine: Engine) => Promise<T>): Promise<T>
  readonly craikHome: string
}

/** How long an engine may send nothing although there is more. */
const SILENCE_MS = 60_000
/** For as much as a snapshot may hold. */
const WRITE_DEADLINE_MS = 3_600_000

export function volumeDisks(means: VolumeMeans): SandboxDisks {
  const remove = async (spec: SandboxSpec, numbers: readonly (number | undefined)[]) => {
    const which = numbers.filter((one) => one !== undefined)
    if (which.length === 0) return
    await means.withEngine(spec, async (engine) => {
      for (const one of which) await removeVolume(engine, volumeName(spec, one), spec.id, means.craikHome)
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
      means.withEngine(spec, async (engine) => {
        const name = volumeName(spec, readNumbers(spec).disk)
        const keeper = await makeKeeper(engine, spec, name, means.craikHome)
        const done = () => removeContainer(engine, keeper)
        try {
          const source = await engine.ask(
            'read the disk of a sandbox',
            () => engine.docker.getContainer(keeper).getArchive({ path: `${INSIDE.home}/.` }),
            { signal },
          )
          giveUpWhenSilent(source as IncomingMessage)
          return { ...rewriteTar(source as IncomingMessage, { signal, limits, exclude }), done }
        } catch (error) {
          await done().catch(() => {})
          throw error
        }
      }),

    async write(spec, archive, { signal, limits }) {
      const numbers = await withoutNext(spec)
      const next = Math.max(numbers.disk, numbers.before ?? 0) + 1
      // On record before it is there.
      writeNumbers(spec, { ...numbers, next })
      const { archive: checked, report } = rewriteTar(archive, { signal, limits, owner: USER_OF_IMAGE })
      try {
        await means.withEngine(spec, (engine) => fill(engine, spec, volumeName(spec, next), checked, signal))
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
      if (next === undefined) throw new CraikError('internal', 'the sandbox has no new disk to switch to')
      writeNumbers(spec, { disk: next, before: disk })
    },

    isExchanged: async (spec) => readNumbers(spec).before !== undefined,

    async revert(spec) {
      const { disk, before } = readNumbers(spec)
      if (before !== undefined) writeNumbers(spec, { disk: before, next: disk })
      await withoutNext(spec)
    },

    settle,
  }

  /** What was written and never used goes. */
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
    const keeper = await makeKeeper(engine, spec, volume, means.craikHome)
    try {
      const failed = new Promise<never>((_, reject) => content.once('error', reject))
      failed.catch(() => {})
      const written = engine.ask(
        'write the disk of a sandbox',
        () => engine.docker.getContainer(keeper).putArchive(content, { path: INSIDE.home }),
        { signal, deadlineMs: WRITE_DEADLINE_MS },
      )
      // What is wrong with the archive is told as that, and not as what the engine makes of its end.
      written.catch(() => {})
      await Promise.race([written, failed])
    } finally {
      await removeContainer(engine, keeper)
    }
  }
}

/** Made of the sandbox's own image, so that a volume that is empty gets its owner; it holds nothing but the volume. */
async function makeKeeper(
  engine: Engine,
  spec: SandboxSpec,
  volume: string,
  craikHome: string,
): Promise<string> {
  const image = await recordedImage(engine, spec.container!, craikHome)
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

function giveUpWhenSilent(source: IncomingMessage): void {
  source.setTimeout(SILENCE_MS, () =>
    source.destroy(
      new CraikError('unavailable', `the engine sent no disk data for ${SILENCE_MS / 1000} seconds`, {
        hint: 'craik doctor',
        details: { engine: 'silent' },
      }),
    ),
  )
}
