/**
 * Reads the transcripts in a login's volume on the host, as if the volume were the sandbox home. This works while the
 * sandbox runs, when it is stopped, and after it was removed. The sandbox writes the volume's content, so no link in it
 * is followed.
 */
import { basename, dirname } from 'node:path/posix'
import { CraikError } from '../../errors.ts'
import { type HomeFolderOptions, homeFolder } from '../../transcripts/home-folder.ts'
import type { TranscriptFile, TranscriptSource } from '../../transcripts/source.ts'
import { VOLUME_LINKS, type VolumeLink } from './mirrors.ts'

/** `volumeFolder` must be a path that Craik chose itself. Without a volume there are no transcripts. */
export function createMirroredHome(volumeFolder: string, options: HomeFolderOptions): TranscriptSource {
  const volume = homeFolder(volumeFolder, options)
  return {
    async *list(folder, depth) {
      for (const { home, volume: inVolume } of VOLUME_LINKS.filter(({ kind }) => kind === 'folder')) {
        const below = belowOf(folder, home)
        if (below === undefined) continue
        yield* listFiles(volume, inVolume + below, folder, depth)
      }
      for (const mirror of VOLUME_LINKS.filter(
        ({ kind, home }) => kind === 'file' && dirname(home) === folder,
      ))
        yield* filesOf(volume, mirror)
    },
    async *read(path, maxBytes) {
      const at = inVolume(path)
      if (at !== undefined) yield* unlessMissing(volume.read(at, maxBytes))
    },
  }
}

/** Returns the path in the volume for a path in the home. Undefined when the volume does not store it. */
function inVolume(path: string): string | undefined {
  for (const { home, volume, kind, companions = [] } of VOLUME_LINKS) {
    if (kind === 'folder') {
      const below = belowOf(path, home)
      if (below !== undefined && below !== '') return volume + below
    } else
      for (const suffix of ['', ...companions]) if (path === `${home}${suffix}`) return `${volume}${suffix}`
  }
  return undefined
}

/** Returns `/x` for the path `<folder>/x`, and an empty string for the folder itself. */
function belowOf(path: string, folder: string): string | undefined {
  if (path === folder) return ''
  return path.startsWith(`${folder}/`) ? path.slice(folder.length) : undefined
}

async function* listFiles(
  volume: TranscriptSource,
  at: string,
  folder: string,
  depth: number,
): AsyncGenerator<TranscriptFile> {
  for await (const file of unlessMissing(volume.list(at, depth)))
    yield { ...file, path: folder + file.path.slice(at.length) }
}

async function* filesOf(
  volume: TranscriptSource,
  { home, volume: at, companions = [] }: VolumeLink,
): AsyncGenerator<TranscriptFile> {
  const names = ['', ...companions].map((suffix) => `${basename(at)}${suffix}`)
  for await (const file of unlessMissing(volume.list(dirname(at), 0))) {
    const name = basename(file.path)
    if (names.includes(name)) yield { ...file, path: home + name.slice(basename(at).length) }
  }
}

async function* unlessMissing<T>(items: AsyncIterable<T>): AsyncGenerator<T> {
  try {
    yield* items
  } catch (error) {
    if (!(error instanceof CraikError && error.code === 'not_found')) throw error
  }
}
