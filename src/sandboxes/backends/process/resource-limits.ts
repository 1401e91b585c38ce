/**
 * Plans which limits can be enforced for a sandbox on this host, and by what. Limits that cannot be enforced are
 * reported as such.
 */
import type { LimitReport, LimitSpec } from '../../backend.ts'

/** The features of this host that can enforce a limit. */
export interface LimitSupport {
  readonly cgroups: { readonly memory: boolean; readonly processes: boolean; readonly cpu: boolean }
  /** A separate file system of a fixed size. */
  readonly diskImage: boolean
}

/** Limits for each process, in bytes and numbers. A limit that a cgroup enforces is not repeated here. */
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
 * Counts as data of a process although it uses none of it: V8 reserves 512 MiB for code, and other runtimes as much.
 * With less than this added to the requested memory, neither the sidecar nor any Node program starts.
 */
const RESERVED_BYTES = 768 * 1024 * 1024

/** Without isolation, no limit is enforced. */
export function reportUnlimited(limits: LimitSpec): LimitReport {
  return {
    memory: 'not-enforced',
    processes: 'not-enforced',
    cpu: limits.cpuMillis === undefined ? 'not-asked' : 'not-enforced',
    disk: limits.diskBytes === undefined ? 'not-asked' : 'not-enforced',
  }
}

/** `beyondDisk`: the sandbox also writes to host folders, such as a workspace in place or volumes. */
export function planLimits(limits: LimitSpec, beyondDisk: boolean, limitSupport: LimitSupport): LimitPlan {
  const { cgroups, diskImage } = limitSupport
  const imageBytes = diskImage ? limits.diskBytes : undefined
  return {
    report: {
      ...reportUnlimited(limits),
      memory: cgroups.memory ? 'cgroup' : 'per-process',
      processes: cgroups.processes ? 'cgroup' : 'sandbox',
      ...(limits.cpuMillis !== undefined && cgroups.cpu && { cpu: 'cgroup' as const }),
      // Those folders are on the host's own file system, so the limit would cover only the rest of the home.
      ...(imageBytes !== undefined && !beyondDisk && { disk: 'filesystem' as const }),
    },
    resources: {
      ...(!cgroups.memory && { dataBytes: limits.memoryBytes + RESERVED_BYTES }),
      ...(!cgroups.processes && { processes: limits.processes }),
    },
    imageBytes,
  }
}

/** Returns arguments of `prlimit`. It disables core dumps, because they would contain the secrets of a program. */
export function resourceArguments({ dataBytes, processes }: ResourceLimits): string[] {
  return [
    '--core=0',
    ...(dataBytes === undefined ? [] : [`--data=${dataBytes}`]),
    ...(processes === undefined ? [] : [`--nproc=${processes}`]),
  ]
}
