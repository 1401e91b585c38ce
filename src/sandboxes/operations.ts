/** Every operation on a sandbox, with the capability that it needs. No other operation exists. */
import type { Capability } from '../policy/capabilities.ts'

interface OperationSpec {
  readonly capability: Capability
  /** The name in grants and receipts. */
  readonly operation: string
  /** The boundary counter that the operation increments. `undefined` when it never crosses the boundary. */
  readonly counted: 'jobs' | 'reads' | 'writes' | 'forwards' | 'looks' | 'signals' | undefined
}

export const OPERATIONS = {
  create: { capability: 'sandbox.create', operation: 'create', counted: undefined },
  stop: { capability: 'sandbox.stop', operation: 'stop', counted: undefined },
  pause: { capability: 'sandbox.stop', operation: 'pause', counted: undefined },
  resume: { capability: 'sandbox.resume', operation: 'resume', counted: undefined },
  snapshot: { capability: 'sandbox.snapshot', operation: 'snapshot', counted: undefined },
  restore: { capability: 'sandbox.restore', operation: 'restore', counted: undefined },
  delete: { capability: 'sandbox.delete', operation: 'delete', counted: undefined },
  exec: { capability: 'sandbox.exec', operation: 'exec', counted: 'jobs' },
  terminal: { capability: 'sandbox.terminal', operation: 'open', counted: 'jobs' },
  tar_in: { capability: 'sandbox.write', operation: 'unpack', counted: 'jobs' },
  tar_out: { capability: 'sandbox.read', operation: 'pack', counted: 'jobs' },
  file_read: { capability: 'sandbox.read', operation: 'read', counted: 'reads' },
  file_stat: { capability: 'sandbox.read', operation: 'stat', counted: 'looks' },
  file_list: { capability: 'sandbox.read', operation: 'list', counted: 'looks' },
  file_watch: { capability: 'sandbox.read', operation: 'watch', counted: 'reads' },
  file_write: { capability: 'sandbox.write', operation: 'write', counted: 'writes' },
  file_move: { capability: 'sandbox.write', operation: 'move', counted: 'writes' },
  file_remove: { capability: 'sandbox.write', operation: 'remove', counted: 'writes' },
  file_mkdir: { capability: 'sandbox.write', operation: 'mkdir', counted: 'writes' },
  forward: { capability: 'sandbox.forward', operation: 'connect', counted: 'forwards' },
  processes: { capability: 'sandbox.inspect', operation: 'processes', counted: 'looks' },
  metrics: { capability: 'sandbox.inspect', operation: 'metrics', counted: 'looks' },
  jobs: { capability: 'sandbox.inspect', operation: 'jobs', counted: 'looks' },
  put_logins: { capability: 'login.use', operation: 'install', counted: 'writes' },
  signal: { capability: 'sandbox.signal', operation: 'signal', counted: 'signals' },
} as const satisfies Record<string, OperationSpec>

/** The uses of a host folder that a new sandbox can request. Decided once, when the sandbox is created. */
export const FOLDER_USES = {
  write: { capability: 'sandbox.mount', operation: 'write' },
  read: { capability: 'sandbox.mount', operation: 'read' },
} as const satisfies Record<string, Omit<OperationSpec, 'counted'>>

/** The same for volumes, which outlive the sandboxes that use them. */
export const VOLUME_USES = {
  mount: { capability: 'sandbox.mount', operation: 'volume' },
  delete: { capability: 'sandbox.delete', operation: 'delete_volume' },
} as const satisfies Record<string, Omit<OperationSpec, 'counted'>>

/** The uses of the host's logins that a new sandbox can request. */
export const LOGIN_USES = {
  broker: { capability: 'login.use', operation: 'broker' },
  forward: { capability: 'login.use', operation: 'forward' },
} as const satisfies Record<string, Omit<OperationSpec, 'counted'>>

export type OperationName = keyof typeof OPERATIONS
