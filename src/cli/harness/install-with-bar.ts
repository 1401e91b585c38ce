/** Installs harnesses with a progress bar for the user. Returns at once if they are installed. */
import type { PackageName } from '../../harnesses/packages/harness-catalogue.ts'
import type { InstalledHarness } from '../../harnesses/packages/install-harness.ts'
import { listMountedFolders } from '../../store/mounted-folders.ts'
import type { CliContext } from '../context.ts'
import { ImageBar } from '../image/image-bar.ts'

/** `thorough` verifies every byte of a harness that is already installed. */
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
