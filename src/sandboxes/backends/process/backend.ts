/**
 * Runs sandboxes on this host without a daemon: bubblewrap around a sidecar, or, if requested by name, the sidecar
 * alone.
 */
import { constants, existsSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { CraikError } from '../../../errors.ts'
import { type Owner, ownerState } from '../../../lib/owner.ts'
import type { Availability, InstanceHandle, OtherHome, SandboxBackend, SandboxSpec } from '../../backend.ts'
import { findOtherHome, isOrphan, otherHomeError, otherHomeOf } from './another-home.ts'
import type { AttachedDisk } from './attach-disk.ts'
import type { ProcessBackendOptions } from './command-backend.ts'
import { MIN_IMAGE_BYTES } from './disk-image.ts'
import { folderDisks } from './folder-disks.ts'
import { parseProcessHandle } from './handle.ts'
import { endOnHost, hostInstance, startOnHost } from './host-instance.ts'
import { chooseHostUser } from './host-user.ts'
import { instanceFolders, makeFolders, stagingFolders } from './instance-folders.ts'
import { isolatedInstance, startIsolated, sweepIsolated } from './isolated-instance.ts'
import { endLeftovers } from './leftovers.ts'
import { HostFeatures } from './machine.ts'
import { planLimits } from './resource-limits.ts'

export function processBackend(options: ProcessBackendOptions): SandboxBackend {
  const machine = new HostFeatures(options.craikHome, options.environment)

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
      const found = await machine.probe()
      return 'bubblewrap' in found
        ? { isolation: 'process', version: `bubblewrap ${found.bubblewrap.version}` }
        : ({ isolation: 'none', reason: found.reason, fix: found.fix } satisfies Availability)
    },

    async create(spec) {
      requirePossible(spec)
      await requireNowhereElse(spec)
      try {
        return await start(spec)
      } catch (error) {
        await sweep(spec)
        throw error
      }
    },

    async recover(handle, spec) {
      const known = parseProcessHandle(handle)
      if (ownerState(known.inner) !== 'alive' || isOrphan(known.inner.pid)) return undefined
      if (otherHome(known.inner, spec)) return undefined
      return spec.isolation === 'none' ? hostInstance(known, spec) : isolatedInstance(known, spec, machine)
    },

    async locateOtherHome(handle, spec) {
      return otherHome(parseProcessHandle(handle).inner, spec)
    },

    sweep,
    endLeftovers: () => endLeftovers(options.environment),

    disks: folderDisks({
      ownerOf: (spec) => (spec.isolation === 'none' ? undefined : chooseHostUser(spec)),
      async imageBytesOf({ isolation, limits, workspace }) {
        if (isolation === 'none') return undefined
        const limitSupport = await machine.readLimitSupport(limits.diskBytes !== undefined)
        return planLimits(limits, workspace.mode === 'in-place', limitSupport).imageBytes
      },
      reachRunning: reachStaged,
    }),
  }
}

function otherHome(first: Owner, spec: SandboxSpec): OtherHome | undefined {
  const found = otherHomeOf(first.pid, spec)
  // Checks this after the search, because another process can have the pid by then.
  return ownerState(first) === 'alive' ? found : undefined
}

/**
 * Two sandboxes with the same id would share a control group. A sandbox without a disk is new, so no other home can
 * have its id.
 */
async function requireNowhereElse(spec: SandboxSpec): Promise<void> {
  const { data, image } = instanceFolders(spec.folder)
  if (!existsSync(data) && !existsSync(image)) return
  const other = await findOtherHome(spec)
  if (other !== undefined) throw otherHomeError(spec, other)
}

/**
 * Returns the disk where root mounted it for bubblewrap. It is read through bubblewrap's own process, which nothing in
 * the sandbox can reach.
 */
async function reachStaged(spec: SandboxSpec, running: InstanceHandle): Promise<AttachedDisk> {
  const { outer } = parseProcessHandle(running)
  const { data } = stagingFolders(instanceFolders(spec.folder).staged)
  // Opens the folder before it checks the owner of the pid, because another process can have the pid by then.
  const folder = await open(`/proc/${outer.pid}/root${data}`, constants.O_RDONLY | constants.O_DIRECTORY)
  if (ownerState(outer) === 'alive')
    return { path: `/proc/self/fd/${folder.fd}`, close: () => folder.close() }
  await folder.close()
  throw new CraikError('unavailable', 'the sandbox stopped while Craik opened its disk', {
    hint: 'try again',
  })
}

function requirePossible({ isolation, limits }: SandboxSpec): void {
  if (isolation !== 'process' && isolation !== 'none')
    throw new CraikError('unavailable', `the process backend does not support isolation ${isolation}`, {
      hint: 'omit --isolation, or use  --backend docker',
    })
  if (limits.diskBytes !== undefined && limits.diskBytes < MIN_IMAGE_BYTES)
    throw new CraikError('usage', `the disk of a sandbox must have at least ${MIN_IMAGE_BYTES} bytes`, {
      hint: 'use a larger disk:  --disk 16m',
    })
}
