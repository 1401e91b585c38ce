/** Sandboxes on this machine without a daemon: bubblewrap around a sidecar, or, when asked for by name, nothing around it. */
import { constants } from 'node:fs'
import { open } from 'node:fs/promises'
import { CraikError } from '../../../errors.ts'
import { ownerState } from '../../../lib/owner.ts'
import type { Availability, PlaceHandle, SandboxBackend, SandboxSpec } from '../../backend.ts'
import type { ProcessBackendOptions } from './command-backend.ts'
import { MIN_IMAGE_BYTES } from './disk-image.ts'
import { folderDisks } from './disks.ts'
import { makeFolders, placeFolders, stagedFolders } from './folders.ts'
import { parseHandle } from './handle.ts'
import { endOnHost, hostPlace, startOnHost } from './host-place.ts'
import { chooseHostUser } from './host-user.ts'
import { isolatedPlace, startIsolated, sweepIsolated } from './isolated-place.ts'
import { endLeftovers } from './leftovers.ts'
import { planLimits } from './limits.ts'
import { Machine } from './machine.ts'
import type { ReachedDisk } from './reach-disk.ts'

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

    disks: folderDisks({
      ownerOf: (spec) => (spec.isolation === 'none' ? undefined : chooseHostUser(spec)),
      async imageBytesOf({ isolation, limits, workspace }) {
        if (isolation === 'none') return undefined
        const means = await machine.limitMeans(limits.diskBytes !== undefined)
        return planLimits(limits, workspace.mode === 'in-place', means).imageBytes
      },
      reachRunning: reachStaged,
    }),
  }
}

/** Where root mounted it for bubblewrap: seen through bubblewrap's own process, which nothing inside can reach. */
async function reachStaged(spec: SandboxSpec, running: PlaceHandle): Promise<ReachedDisk> {
  const { outer } = parseHandle(running)
  const { data } = stagedFolders(placeFolders(spec.folder).staged)
  // Held by a descriptor of its own before it is looked at whose it is: a number may be somebody else's by then.
  const folder = await open(`/proc/${outer.pid}/root${data}`, constants.O_RDONLY | constants.O_DIRECTORY)
  if (ownerState(outer) === 'alive')
    return { path: `/proc/self/fd/${folder.fd}`, close: () => folder.close() }
  await folder.close()
  throw new CraikError('unavailable', 'the sandbox ended while its disk was looked for')
}

function requirePossible({ isolation, limits }: SandboxSpec): void {
  if (isolation !== 'process' && isolation !== 'none')
    throw new CraikError('unavailable', `a local process cannot be isolated as ${isolation}`)
  if (limits.diskBytes !== undefined && limits.diskBytes < MIN_IMAGE_BYTES)
    throw new CraikError('usage', `the disk of a sandbox has at least ${MIN_IMAGE_BYTES} bytes`)
}
