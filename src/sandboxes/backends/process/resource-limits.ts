/** Which limits hold for a sandbox on this machine, and by what. What cannot be held is said, never implied. */
import type { LimitReport, LimitSpec } from '../../backend.ts'

/** What of this machine can hold a limit. */
export interface LimitSupport {
  readonly cgroups: { readonly memory: boolean; readonly processes: boolean; readonly cpu: boolean }
  /** A file system of its own, of a fixed size. */
  readonly diskImage: boolean
}

/** For each process, in bytes and numbers; what a cgroup holds is not held twice. */
export interface ResourceLimits {
  readonly dataBytes?: number
  readonly processes?: number
}

export interface LimitPlan {
  readonly report: LimitReport
  readonly resources: ResourceLimits
  readonly imageBytes: number | undefined
}

/**
 * Counted as data of a process although it uses none of it: V8 reserves 512 MiB for code, other runtimes as much. With
 * less than that besides the memory asked for, neither the sidecar nor any Node program starts.
 */
const RESERVED_BYTES = 768 * 1024 * 1024

/** Nothing holds anything where there is no isolation. */
export function reportUnlimited(limits: LimitSpec): LimitReport {
  return {
    memory: 'not-enforced',
    processes: 'not-enforced',
    cpu: limits.cpuMillis === undefined ? 'not-asked' : 'not-enforced',
    disk: limits.diskBytes === undefined ? 'not-asked' : 'not-enforced',
  }
}

/** `beyondDisk`: it writes to folders of the host too, a workspace in place or volumes. */
export function planLimits(limits: LimitSpec, beyondDisk: boolean, limitSupport: LimitSupport): LimitPlan {
  const { cgroups, diskImage } = limitSupport
  const imageBytes = diskImage ? limits.diskBytes : undefined
  return {
    report: {
      ...reportUnlimited(limits),
      memory: cgroups.memory ? 'cgroup' : 'per-process',
      processes: cgroups.processes ? 'cgroup' : 'sandbox',
      ...(limits.cpuMillis !== undefined && cgroups.cpu && { cpu: 'cgroup' as const }),
      // Those are on the host's own file system, so only the rest of the home is held then.
      ...(imageBytes !== undefined && !beyondDisk && { disk: 'filesystem' as const }),
    },
    resources: {
      ...(!cgroups.memory && { dataBytes: limits.memoryBytes + RESERVED_BYTES }),
      ...(!cgroups.processes && { processes: limits.processes }),
    },
    imageBytes,
  }
}

/** As arguments of `prlimit`. No core dumps: they would hold what a program knew. */
export function resourceArguments({ dataBytes, processes }: ResourceLimits): string[] {
  return [
    '--core=0',
    ...(dataBytes === undefined ? [] : [`--data=${dataBytes}`]),
    ...(processes === undefined ? [] : [`--nproc=${processes}`]),
  ]
}
