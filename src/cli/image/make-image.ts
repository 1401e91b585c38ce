/** Builds the image with a progress bar for the user. Returns at once if it exists. */
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { PackageName } from '../../harnesses/packages/harness-catalogue.ts'
import type {
  EnsureOptions,
  ImageRequest,
  ReadyImage,
} from '../../sandboxes/backends/docker/image/ensure-image.ts'
import { listMountedFolders } from '../../store/mounted-folders.ts'
import type { CliContext } from '../context.ts'
import { ImageBar } from './image-bar.ts'
import { engineOf } from './open-engine.ts'

export interface RequestedImage extends Omit<ImageRequest, 'harnesses'> {
  readonly harnesses?: readonly PackageName[]
}

export async function makeImage(context: CliContext, request: RequestedImage): Promise<ReadyImage> {
  const { ensureImage } = await import('../../sandboxes/backends/docker/image/ensure-image.ts')
  const { harnesses: names = [], ...rest } = request
  const engine = await engineOf(context)
  using bar = new ImageBar(context)
  return await ensureImage(
    engine,
    { ...rest, harnesses: await harnessIds(names) },
    {
      craikHome: context.home.root,
      environment: context.environment,
      signal: context.signal,
      progress: bar.at,
      harnessFolder: createHarnessInstaller(context),
    },
  )
}

/** Returns the name that the image has or would have. Builds nothing. */
export async function nameOfImage(context: CliContext, request: RequestedImage): Promise<string> {
  const [{ resolveImage }, { imageName }] = await Promise.all([
    import('../../sandboxes/backends/docker/image/ensure-image.ts'),
    import('../../sandboxes/backends/docker/image/image-names.ts'),
  ])
  const { harnesses: names = [], ...rest } = request
  const folder = join(context.home.root, 'cache/images')
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const requested = { ...rest, harnesses: await harnessIds(names) }
  return imageName((await resolveImage(await engineOf(context), requested, folder)).sandbox)
}

async function harnessIds(names: readonly PackageName[]): Promise<readonly string[]> {
  const { harnessStore } = await import('../../harnesses/packages/harness-store.ts')
  return harnessStore.ids(names)
}

/** Verifies every byte of a harness that becomes a layer, and installs the harness if it is missing. */
function createHarnessInstaller({
  home,
  environment,
  signal,
  store,
}: CliContext): NonNullable<EnsureOptions['harnessFolder']> {
  return async (id, progress) => {
    const [{ ensureHarnesses }, { checkHarnesses }, { harnessName }] = await Promise.all([
      import('../../harnesses/packages/install-harness.ts'),
      import('../../harnesses/packages/harness-catalogue.ts'),
      import('../../sandboxes/harness-package.ts'),
    ])
    const names = checkHarnesses([harnessName(id)])
    const listMounted = () => listMountedFolders(home, store)
    const options = {
      craikHome: home.root,
      environment,
      mounted: listMounted,
      signal,
      progress,
      thorough: true,
    }
    return (await ensureHarnesses(names, options))[0]!.folder
  }
}

/** Parses package names such as `jq,ripgrep`. */
export async function packagesOf(typed: string | undefined): Promise<readonly string[]> {
  if (typed === undefined) return []
  const { parsePackages } = await import('../../sandboxes/backends/docker/image/packages.ts')
  return parsePackages(typed)
}
