/** The names under which the writer thread keeps places that wait for a sandbox. Each is one transaction. */
import type { SandboxId } from '../../lib/ids.ts'
import type { Owner } from '../../lib/owner.ts'
import { procedure } from '../../store/store.ts'
import type {
  BackendName,
  ContainerSpec,
  HostUser,
  HotMountFolders,
  Isolation,
  LimitSpec,
} from '../backend.ts'
import type { AdmissionLimits } from '../lifecycle/admission.ts'
import type { RecordedInstance } from '../lifecycle/sandbox-record.ts'
import type { WarmRecord } from './warm-record.ts'

export interface BeginWarmInput {
  readonly id: SandboxId
  readonly backend: BackendName
  readonly isolation: Isolation
  readonly limits: LimitSpec
  /** `allocate`: a user that no sandbox and no other place of this home has. */
  readonly hostUser: HostUser | 'allocate' | undefined
  readonly late?: HotMountFolders | null
  readonly container?: ContainerSpec | undefined
  readonly admission?: AdmissionLimits
  readonly owner: Owner
}

/** On record before anything is started. `limit_reached` when there is no room for one besides all sandboxes. */
export const beginWarm = procedure<BeginWarmInput, WarmRecord>('sandboxes.begin_warm')
/** It runs and is connected: from now on it may become a sandbox, which `beginCreate` does. */
export const readyWarm = procedure<
  { readonly id: SandboxId; readonly place: RecordedInstance; readonly owner: Owner },
  WarmRecord
>('sandboxes.ready_warm')
/**
 * `left`: it becomes no sandbox any more, and may be ended; without a record when that was changed outside Craik, so that
 * only its id is known. `gone`: it became one, or nothing is left of it. `held`: by another process that lives.
 */
export type LeaveWarmOutput =
  | { readonly effect: 'left'; readonly record: WarmRecord | undefined }
  | { readonly effect: 'gone' | 'held' }

export const leaveWarm = procedure<{ readonly id: SandboxId; readonly owner: Owner }, LeaveWarmOutput>(
  'sandboxes.leave_warm',
)
/** Nothing of it is left. */
export const dropWarm = procedure<{ readonly id: SandboxId }, void>('sandboxes.drop_warm')
