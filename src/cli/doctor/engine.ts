/** Checks whether a container engine answers on this host and is safe to use. It starts no program. */
import { CraikError } from '../../errors.ts'
import type { Engine } from '../../sandboxes/backends/docker/engine/engine.ts'
import type { HealthRow } from './row.ts'

/** In older versions, a hostile image could write to files of the host (CVE-2025-31133, -52565 and -52881). */
const FIXED_RUNC: readonly (readonly [number, number, number])[] = [
  [1, 2, 8],
  [1, 3, 3],
  [1, 4, 0],
]

export async function engineHealth(environment: NodeJS.ProcessEnv): Promise<HealthRow> {
  const { openEngine } = await import('../../sandboxes/backends/docker/engine/engine.ts')
  try {
    return describe(await openEngine(environment))
  } catch (error) {
    if (!(error instanceof CraikError)) throw error
    return missing(error, Boolean(environment.CRAIK_ENGINE || environment.DOCKER_HOST))
  }
}

function describe(engine: Engine): HealthRow {
  const { product, version, runcVersion, cgroupVersion, isRootless, holds } = engine
  const unheld = Object.entries(holds).flatMap(([limit, held]) => (held ? [] : [limit]))
  const isOld = runcVersion !== undefined && isBefore(runcVersion)
  const detail = [
    engine.sharesFolders ? 'local engine' : 'remote engine',
    ...(isRootless ? ['rootless'] : []),
    ...(runcVersion === undefined ? [] : [`runc ${runcVersion}`]),
    `cgroup v${cgroupVersion}`,
    ...(engine.runtimes.includes('runsc') ? ['gVisor'] : []),
    ...(unheld.length > 0 ? [`does not limit ${unheld.join(', ')}`] : []),
    ...(engine.filtersCalls ? [] : ['does not filter system calls']),
    ...(isOld ? ['runc lacks the fixes of November 2025, unless your distribution backported them'] : []),
  ].join(', ')
  const row = { name: product, version, detail }
  if (isOld) return { ...row, state: 'warn', fix: 'sudo apt-get install --only-upgrade runc docker.io' }
  if (!engine.filtersCalls) return { ...row, state: 'none' }
  return { ...row, state: unheld.length > 0 ? 'warn' : 'ok' }
}

/** Compares the three numbers. A suffix that a distribution adds does not show which fixes the version contains. */
function isBefore(version: string): boolean {
  const [, major = 0, minor = 0, patch = 0] = (/^(\d+)\.(\d+)\.(\d+)/.exec(version) ?? []).map(Number)
  const same = FIXED_RUNC.find(([wanted, next]) => major === wanted && minor === next)
  if (same !== undefined) return patch < same[2]
  return major < 1 || (major === 1 && minor < FIXED_RUNC[0]![1])
}

function missing({ message, details, hint, code }: CraikError, isNamed: boolean): HealthRow {
  const name = 'docker'
  const systemCode = String(details?.code ?? '')
  if (systemCode === 'EACCES' || systemCode === 'EPERM')
    return {
      name,
      state: 'warn',
      detail: 'you may not open its socket (access to it equals root access)',
      fix: 'sudo usermod -aG docker "$USER"',
    }
  if (details?.none === true || systemCode === 'ENOENT')
    return {
      name,
      state: 'none',
      detail: isNamed
        ? 'no engine at the address in CRAIK_ENGINE or DOCKER_HOST'
        : 'no engine on this machine; process sandboxes need none',
      fix: isNamed ? 'unset CRAIK_ENGINE DOCKER_HOST' : 'sudo apt-get install docker.io',
    }
  if (code === 'usage') return { name, state: 'none', detail: message, fix: hint }
  const reason = systemCode === '' ? message : `does not answer (${systemCode})`
  return { name, state: 'warn', detail: reason, fix: 'sudo systemctl start docker' }
}
