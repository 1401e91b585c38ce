/** Starts a stopped sandbox. Installs the agents' packages first if this host lacks them. */
import { CraikError } from '../../errors.ts'
import type { SandboxBody } from '../../operator/api/bodies.ts'
import { harnessesFolder, harnessName, isHarnessId } from '../../sandboxes/harness-package.ts'
import type { CallOptions } from '../../sdk/api-paths.ts'
import type { ApiClient } from '../../sdk/client.ts'
import type { CliContext } from '../context.ts'

/**
 * The home of an earlier version contains the packages. Craik does not use them, because anyone with access to the home
 * could have changed them. npm installs them again, and Craik checks them with the lock of this build.
 */
export async function resumeAndReport(
  context: CliContext,
  client: ApiClient,
  sandbox: string,
  options: CallOptions,
): Promise<SandboxBody> {
  try {
    return await client.sandboxes.resume(sandbox, options)
  } catch (error) {
    const missing = missingPackages(error)
    if (missing.length === 0) throw error
    await installAgain(context, missing)
  }
  return client.sandboxes.resume(sandbox, options)
}

function missingPackages(error: unknown): readonly string[] {
  if (!(error instanceof CraikError) || error.details?.missing !== 'harness') return []
  const { ids } = error.details
  return Array.isArray(ids) ? ids.filter((id) => typeof id === 'string' && isHarnessId(id)) : []
}

async function installAgain(context: CliContext, ids: readonly string[]): Promise<void> {
  const [{ PACKAGE_NAMES, readPackage }, { installHarnesses }] = await Promise.all([
    import('../../harnesses/packages/harness-catalogue.ts'),
    import('../harness/install-with-bar.ts'),
  ])
  const names = PACKAGE_NAMES.filter((name) => ids.some((id) => harnessName(id) === name))
  const other = ids.find((id) => !names.some((name) => readPackage(name).id === id))
  if (other !== undefined) {
    const owner = { craikHome: context.home.root, environment: context.environment }
    throw new CraikError('unavailable', `another build of Craik installed ${other}, and this one cannot`, {
      hint: `recreate the sandbox; or, if you trust this Craik home, move its folder cache/harnesses/${other} to ${harnessesFolder(owner)}`,
    })
  }
  await installHarnesses(context, names)
}
