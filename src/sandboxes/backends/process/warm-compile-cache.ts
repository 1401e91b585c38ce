/** Runs the sidecar once at its path in a sandbox, to fill its compile cache. The cache depends on that path. */
import { runChild } from '../../../lib/child.ts'
import { INSIDE, SIDECAR_ENV } from '../../../sidecar/protocol.ts'
import { namespaceArguments, systemArguments } from './bubblewrap.ts'
import type { Bubblewrap } from './find-bubblewrap.ts'
import { COMPILE_CACHE, sidecarCommand } from './launch-arguments.ts'
import { ownProcFolder } from './leftovers.ts'

const TIMEOUT_MS = 30_000

/**
 * With bubblewrap, the sidecar has the same path and user id as in a sandbox, because the cache is separate for each.
 */
export async function warmCompileCache(folder: string, bubblewrap: Bubblewrap | undefined): Promise<void> {
  const argv = bubblewrap
    ? [
        bubblewrap.path,
        ...namespaceArguments('sandbox', bubblewrap.disableUserns),
        '--die-with-parent',
        ...systemArguments(),
        '--proc',
        '/proc',
        '--dev',
        '/dev',
        '--tmpfs',
        '/tmp',
        '--ro-bind',
        folder,
        INSIDE.runtime,
        '--bind',
        `${folder}/compile-cache`,
        COMPILE_CACHE.NODE_COMPILE_CACHE,
        '--chdir',
        '/',
        '--',
        ...sidecarCommand(INSIDE.runtime),
      ]
    : sidecarCommand(folder)
  const quiet = () => {}
  const { home, workspace, spill, gatewayPort } = SIDECAR_ENV
  const cache = bubblewrap ? COMPILE_CACHE : { NODE_COMPILE_CACHE: `${folder}/compile-cache` }
  const env = {
    ...cache,
    CRAIK_WARM: '1',
    [home]: '/tmp',
    [workspace]: '/tmp',
    [spill]: '/tmp',
    [gatewayPort]: '0',
  }
  const options = { cwd: bubblewrap ? ownProcFolder() : '/', env, timeoutMs: TIMEOUT_MS, inputs: [] }
  await runChild({ argv, ...options, onStdout: quiet, onStderr: quiet })
}
