/** Sandboxes on this machine without a daemon: bubblewrap around a sidecar, or, when asked for by name, nothing around it. */
import { CraikError } from '../../../errors.ts'
import { ownerState } from '../../../lib/owner.ts'
import type { Availability, SandboxBackend, SandboxSpec } from '../../backend.ts'
import type { ProcessBackendOptions } from './command-backend.ts'
import { MIN_IMAGE_BYTES } from './disk-image.ts'
import { refuseSteering } from './environment.ts'
import { makeFolders } from './folders.ts'
import { parseHandle } from './handle.ts'
import { endOnHost, hostPlace, startOnHost } from './host-place.ts'
import { isolatedPlace, startIsolated, sweepIsolated } from './isolated-place.ts'
import { endLeftovers } from './leftovers.ts'
import { Machine } from './machine.ts'

export function processBackend(options: ProcessBackendOptions): SandboxBackend {
  const machine = new Machine(options.craikHome, options.environment)

  const sweep = (spec: SandboxSpec) =>
    spec.isolation === 'none' ? endOnHost(spec, undefined) : sweepIsolated(spec, machine)

  const start = async (spec: SandboxSpec) => {
    if (spec.isolation === 'process') return startIsolated(spec, machine, options)
    const runtime = await machine.runtimeFor(spec.folder)
    const folders = await makeFolders(spec.folder, undefined, undefined)
    return startOnHost(spec, folders, runtime.folder, options.environment)
  }

  return {
    kind: 'local_process',

    async probe() {
      const found = await machine.look()
      return 'bubblewrap' in found
        ? { isolation: 'process', version: `bubblewrap ${found.bubblewrap.version}` }
        : ({ isolation: 'none', reason: found.reason, fix: found.fix } satisfies Availability)
    },

    async create(spec) {
      requirePossible(spec)
      try {
        return await start(spec)
      } catch (error) {
        await sweep(spec)
        throw error
      }
    },

    async recover(handle, spec) {
      const known = parseHandle(handle)
      if (ownerState(known.inner) !== 'alive') return undefined
      return spec.isolation === 'none' ? hostPlace(known, spec) : isolatedPlace(known, spec, machine)
    },

    sweep,
    endLeftovers: () => endLeftovers(options.environment),
  }
}

function requirePossible({ isolation, environment, limits }: SandboxSpec): void {
  if (isolation !== 'process' && isolation !== 'none')
    throw new CraikError('unavailable', `a local process cannot be isolated as ${isolation}`)
  refuseSteering(environment)
  if (limits.diskBytes !== undefined && limits.diskBytes < MIN_IMAGE_BYTES)
    throw new CraikError('usage', `the disk of a sandbox has at least ${MIN_IMAGE_BYTES} bytes`)
}
