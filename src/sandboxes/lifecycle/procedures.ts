/** What the writer thread can do for sandboxes. */
import type { Clock } from '../../lib/clock.ts'
import type { Procedure, Procedures, Tables } from '../../store/store.ts'
import * as pool from '../pool/procedures.ts'
import * as poolTokens from '../pool/tokens.ts'
import * as snapshots from '../snapshots/procedures.ts'
import { beginDeleteDamagedSnapshot, endDeleteDamagedSnapshot } from '../snapshots/procedures-damaged.ts'
import * as snapshotTokens from '../snapshots/tokens.ts'
import * as volumes from '../volumes/procedures.ts'
import * as volumeTokens from '../volumes/tokens.ts'
import { forgetJobs } from './forget-jobs.ts'
import { requireJobOwner } from './job-owner.ts'
import {
  closeEpoch,
  closeLeftEpochs,
  noteInbound,
  refuseInbound,
  refuseSurplus,
  saveCounts,
} from './procedures-counts.ts'
import { beginCreate, endCreate } from './procedures-create.ts'
import { beginDeleteDamaged, endDeleteDamaged } from './procedures-damaged.ts'
import { beginDelete, changeSandbox, endDelete } from './procedures-delete.ts'
import { beginOperation, checkOperation, endOperation, restartJob } from './procedures-operation.ts'
import { adoptJobs, closeOrphans } from './procedures-recovery.ts'
import { beginTransition, endTransition } from './procedures-transition.ts'
import { SandboxRecords, type SandboxSealer } from './sandbox-records.ts'
import { recheck } from './still-authorized.ts'
import * as tokens from './tokens.ts'

export function lifecycleProcedures(sealer: SandboxSealer, clock: Clock): Procedures {
  const kept = <Input, Output>(
    { name }: Procedure<Input, Output>,
    body: (keeper: SandboxRecords, input: Input) => Promise<Output>,
  ): Procedures => ({
    [name]: (tables: Tables, input: Input) => body(new SandboxRecords(tables, sealer, clock), input),
  })
  return {
    ...kept(tokens.beginCreate, beginCreate),
    ...kept(tokens.endCreate, endCreate),
    ...kept(tokens.beginOperation, beginOperation),
    ...kept(tokens.checkOperation, checkOperation),
    ...kept(tokens.endOperation, endOperation),
    ...kept(tokens.restartJob, restartJob),
    ...kept(tokens.requireJobOwner, requireJobOwner),
    ...kept(tokens.recheck, recheck),
    ...kept(tokens.beginTransition, beginTransition),
    ...kept(tokens.endTransition, endTransition),
    ...kept(tokens.beginDelete, beginDelete),
    ...kept(tokens.endDelete, endDelete),
    ...kept(tokens.beginDeleteDamaged, beginDeleteDamaged),
    ...kept(tokens.endDeleteDamaged, endDeleteDamaged),
    ...kept(tokens.changeSandbox, changeSandbox),
    ...kept(tokens.adoptJobs, adoptJobs),
    ...kept(tokens.closeOrphans, closeOrphans),
    ...kept(tokens.forgetJobs, forgetJobs),
    ...kept(tokens.saveCounts, saveCounts),
    ...kept(tokens.closeEpoch, closeEpoch),
    ...kept(tokens.closeLeftEpochs, closeLeftEpochs),
    ...kept(tokens.refuseInbound, refuseInbound),
    ...kept(tokens.refuseSurplus, refuseSurplus),
    ...kept(tokens.noteInbound, noteInbound),
    ...kept(snapshotTokens.endSnapshot, snapshots.endSnapshot),
    ...kept(snapshotTokens.beginSnapshotAction, snapshots.beginSnapshotAction),
    ...kept(snapshotTokens.endSnapshotAction, snapshots.endSnapshotAction),
    ...kept(snapshotTokens.beginDeleteDamagedSnapshot, beginDeleteDamagedSnapshot),
    ...kept(snapshotTokens.endDeleteDamagedSnapshot, endDeleteDamagedSnapshot),
    ...kept(snapshotTokens.beginImport, snapshots.beginImport),
    ...kept(snapshotTokens.endImport, snapshots.endImport),
    ...kept(volumeTokens.beginDeleteVolume, volumes.beginDeleteVolume),
    ...kept(volumeTokens.endDeleteVolume, volumes.endDeleteVolume),
    ...kept(poolTokens.beginWarm, pool.beginWarm),
    ...kept(poolTokens.readyWarm, pool.readyWarm),
    ...kept(poolTokens.leaveWarm, pool.leaveWarm),
    ...kept(poolTokens.dropWarm, pool.dropWarm),
  }
}
