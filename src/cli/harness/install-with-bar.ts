/** Installs the agents' command lines with the bar that a person watches; at once when they are there. */
import type { PackageName } from '../../harnesses/packages/harness-catalogue.ts'
import type { InstalledHarness } from '../../harnesses/packages/install-harness.ts'
import { listMountedFolders } from '../../store/mounted-folders.ts'
import type { CliContext } from '../context.ts'
import { ImageBar } from '../image/image-bar.ts'

/** `thorough`: what is there is looked at to the last byte. */
export async function installHarnesses(
  context: CliContext,
  names: readonly PackageName[],
  thorough = false,
): Promise<readonly InstalledHarness[]> {
  const { ensureHarnesses } = await import('../../harnesses/packages/install-harness.ts')
  using bar = new ImageBar(context, 'harness')
  return await ensureHarnesses(names, {
    craikHome: context.home.root,
    environment: context.environment,
    mounted: () => listMountedFolders(context.home, context.store),
    signal: context.signal,
    progress: bar.at,
    thorough,
  })
}
