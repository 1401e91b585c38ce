/** Makes the image with the bar that a person watches; at once when it is there. */
import type { ImageRequest, ReadyImage } from '../../sandboxes/backends/docker/image/ensure-image.ts'
import type { CliContext } from '../context.ts'
import { ImageBar } from './image-bar.ts'
import { engineOf } from './open.ts'

export async function makeImage(context: CliContext, request: ImageRequest): Promise<ReadyImage> {
  const { ensureImage } = await import('../../sandboxes/backends/docker/image/ensure-image.ts')
  const engine = await engineOf(context)
  using bar = new ImageBar(context)
  return await ensureImage(engine, request, {
    craikHome: context.home.root,
    environment: context.environment,
    signal: context.signal,
    progress: bar.at,
  })
}

/** What was typed as `jq,ripgrep`. */
export async function packagesOf(typed: string | undefined): Promise<readonly string[]> {
  if (typed === undefined) return []
  const { parsePackages } = await import('../../sandboxes/backends/docker/image/packages.ts')
  return parsePackages(typed)
}
