/** The procedures of the writer thread for sandboxes. */
import type { Clock } from '../../lib/clock.ts'
import type { Procedure, Procedures, Tables } from '../../store/store.ts'
import * as pool from '../pool/pool-procedures.ts'
import * as poolTokens from '../pool/tokens.ts'
import {
  beginDeleteDamagedSnapshot,
  endDeleteDamagedSnapshot,
} from '../snapshots/damaged-snapshot-procedures.ts'
import * as snapshots from '../snapshots/snapshot-procedures.ts'
import * as snapshotTokens from '../snapshots/tokens.ts'
import * as volumeTokens from '../volumes/tokens.ts'
import * as volumes from '../volumes/volume-procedures.ts'
import {
  closeEpoch,
  closeLeftEpochs,
  noteInbound,
  refuseInbound,
  refuseSurplus,
  saveCounts,
} from './count-procedures.ts'
import { beginCreate, endCreate } from './create-procedures.ts'
import { beginDeleteDamaged, endDeleteDamaged } from './damaged-sandbox-procedures.ts'
import { beginDelete, changeSandbox, endDelete } from './delete-procedures.ts'
import { forgetJobs } from './forget-jobs.ts'
import { requireJobOwner } from './job-owner.ts'
import { beginOperation, checkOperation, endOperation, restartJob } from './operation-procedures.ts'
import { adoptJobs, closeOrphans } from './recovery-procedures.ts'
import { SandboxRecords, type SandboxSealer } from './sandbox-records.ts'
import { recheck } from './still-authorized.ts'
import * as tokens from './tokens.ts'
import { beginTransition, endTransition } from './transition-procedures.ts'

export function lifecycleProcedures(sealer: SandboxSealer, clock: Clock): Procedures {
  const recordProcedure = <Input, Output>(
    { name }: Procedure<Input, Output>,
    body: (records: SandboxRecords, input: Input) => Promise<Output>,
  ): Procedures => ({
    [name]: (tables: Tables, input: Input) => body(new SandboxRecords(tables, sealer, clock), input),
  })
  return {
    ...recordProcedure(tokens.beginCreate, beginCreate),
    ...recordProcedure(tokens.endCreate, endCreate),
    ...recordProcedure(tokens.beginOperation, beginOperation),
    ...recordProcedure(tokens.checkOperation, checkOperation),
    ...recordProcedure(tokens.endOperation, endOperation),
    ...recordProcedure(tokens.restartJob, restartJob),
    ...recordProcedure(tokens.requireJobOwner, requireJobOwner),
    ...recordProcedure(tokens.recheck, recheck),
    ...recordProcedure(tokens.beginTransition, beginTransition),
    ...recordProcedure(tokens.endTransition, endTransition),
    ...recordProcedure(tokens.beginDelete, beginDelete),
    ...recordProcedure(tokens.endDelete, endDelete),
    ...recordProcedure(tokens.beginDeleteDamaged, beginDeleteDamaged),
    ...recordProcedure(tokens.endDeleteDamaged, endDeleteDamaged),
    ...recordProcedure(tokens.changeSandbox, changeSandbox),
    ...recordProcedure(tokens.adoptJobs, adoptJobs),
    ...recordProcedure(tokens.closeOrphans, closeOrphans),
    ...recordProcedure(tokens.forgetJobs, forgetJobs),
    ...recordProcedure(tokens.saveCounts, saveCounts),
    ...recordProcedure(tokens.closeEpoch, closeEpoch),
    ...recordProcedure(tokens.closeLeftEpochs, closeLeftEpochs),
    ...recordProcedure(tokens.refuseInbound, refuseInbound),
    ...recordProcedure(tokens.refuseSurplus, refuseSurplus),
    ...recordProcedure(tokens.noteInbound, noteInbound),
    ...recordProcedure(snapshotTokens.endSnapshot, snapshots.endSnapshot),
    ...recordProcedure(snapshotTokens.beginSnapshotAction, snapshots.beginSnapshotAction),
    ...recordProcedure(snapshotTokens.endSnapshotAction, snapshots.endSnapshotAction),
    ...recordProcedure(snapshotTokens.beginDeleteDamagedSnapshot, beginDeleteDamagedSnapshot),
    ...recordProcedure(snapshotTokens.endDeleteDamagedSnapshot, endDeleteDamagedSnapshot),
    ...recordProcedure(snapshotTokens.beginImport, snapshots.beginImport),
    ...recordProcedure(snapshotTokens.endImport, snapshots.endImport),
    ...recordProcedure(volumeTokens.beginDeleteVolume, volumes.beginDeleteVolume),
    ...recordProcedure(volumeTokens.endDeleteVolume, volumes.endDeleteVolume),
    ...recordProcedure(poolTokens.beginWarm, pool.beginWarm),
    ...recordProcedure(poolTokens.readyWarm, pool.readyWarm),
    ...recordProcedure(poolTokens.leaveWarm, pool.releaseWarm),
    ...recordProcedure(poolTokens.dropWarm, pool.dropWarm),
  }
}
