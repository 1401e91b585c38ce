/** Adds a harness as an image layer: streams its installed folder on this machine to the engine. */
import type { Engine } from '../engine/engine.ts'
import { buildContext, dockerfileOf } from './build-context.ts'
import { harnessDockerfile, type ImageLabels } from './dockerfile.ts'
import { buildImage } from './engine-build.ts'
import { type OnProgress, progressWithin } from './image-progress.ts'

/** Returns the folder of a harness on this machine, by its id. It can install the harness first. */
export type HarnessFolder = (id: string, onProgress: OnProgress) => Promise<string>

export interface LayerOptions {
  readonly folderOf: HarnessFolder
  readonly epochSeconds: number
  readonly signal: AbortSignal
  readonly onProgress: OnProgress
}

/** Adds the last harness of the labels on top of the others. Returns the id of an image without a name. */
export async function addHarness(
  engine: Engine,
  parentId: string,
  labels: ImageLabels,
  { folderOf, epochSeconds, signal, onProgress }: LayerOptions,
): Promise<string> {
  const id = labels.harnesses!.at(-1)!
  const tree = { name: 'harness', path: await folderOf(id, progressWithin(onProgress, 0, 0.4)) }
  const adding = progressWithin(onProgress, 0.4, 1)
  adding({ part: 0.1, doing: `adding ${id}` })
  const context = buildContext([dockerfileOf(harnessDockerfile(parentId, labels))], epochSeconds, [tree])
  return buildImage(engine, context, {
    signal,
    onProgress: ({ part }) => adding({ part, doing: `adding ${id}` }),
  })
}
