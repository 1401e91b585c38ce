/** The names under which the writer thread decides about snapshots and keeps them; each is one transaction. */
import type { Json } from '../../lib/canonical-json.ts'
import type { SandboxId, SnapshotId } from '../../lib/ids.ts'
import type { Owner } from '../../lib/owner.ts'
import type { ReceiptRef } from '../../receipts/receipt-writer.ts'
import type { Measure } from '../../receipts/schema.ts'
import { procedure } from '../../store/store.ts'
import type { Begun, Denied } from '../lifecycle/tokens.ts'
import type { SnapshotManifest } from './snapshot-manifest.ts'
import type { SnapshotRecord } from './snapshot-record.ts'

/** `use`: what is in it becomes the disk of a sandbox. */
export type SnapshotAction = 'use' | 'export' | 'delete'

export interface EndSnapshotInput {
  /** The sandbox that it is of, whose `snapshot` is in progress. */
  readonly id: SandboxId
  readonly manifest: SnapshotManifest
  readonly operator: string
  readonly measures?: Measure[]
}

export interface BeginSnapshotActionInput {
  readonly id: SnapshotId
  readonly action: SnapshotAction
  readonly operator: string
  readonly grantId?: string
  readonly owner: Owner
  /** The sandbox that it is for. */
  readonly sandboxId?: SandboxId
  /** Integers, booleans and references. */
  readonly metadata?: Readonly<Record<string, Json>>
}

export type BeginSnapshotActionOutput =
  | Denied
  | { readonly effect: 'allowed'; readonly record: SnapshotRecord; readonly begun: Begun }

export interface EndSnapshotActionInput {
  readonly id: SnapshotId
  readonly begun: Begun
  readonly action: SnapshotAction
  readonly status: 'passed' | 'failed' | 'indeterminate'
  readonly measures?: Measure[]
  readonly metadata?: Readonly<Record<string, Json>>
}

export type BeginDeleteDamagedSnapshotInput = Pick<
  BeginSnapshotActionInput,
  'id' | 'operator' | 'grantId' | 'owner'
>

export type BeginDeleteDamagedSnapshotOutput = Denied | { readonly effect: 'allowed'; readonly begun: Begun }

export interface EndDeleteDamagedSnapshotInput {
  readonly id: SnapshotId
  readonly begun: Begun
  readonly status: 'passed' | 'failed'
}

export interface BeginImportInput {
  readonly operator: string
  readonly grantId?: string
  readonly owner: Owner
}

export type BeginImportOutput = Denied | { readonly effect: 'allowed'; readonly begun: Begun }

export type EndImportInput = { readonly begun: Begun } & (
  | {
      readonly status: 'passed'
      readonly id: SnapshotId
      readonly name: string
      readonly manifest: SnapshotManifest
      readonly measures?: Measure[]
    }
  | {
      readonly status: 'failed' | 'indeterminate'
      readonly metadata?: Readonly<Record<string, Json>>
    }
)

/** The snapshot is whole and in its place: it is listed from now on, and the sandbox is as it was before. */
export const endSnapshot = procedure<EndSnapshotInput, SnapshotRecord>('snapshots.end_snapshot')
export const beginSnapshotAction = procedure<BeginSnapshotActionInput, BeginSnapshotActionOutput>(
  'snapshots.begin_action',
)
/** A `delete` that passed removes the record; call it when the files are gone. */
export const endSnapshotAction = procedure<EndSnapshotActionInput, ReceiptRef>('snapshots.end_action')
/** Only of one whose record is not as Craik wrote it. */
export const beginDeleteDamagedSnapshot = procedure<
  BeginDeleteDamagedSnapshotInput,
  BeginDeleteDamagedSnapshotOutput
>('snapshots.begin_delete_damaged')
/** One that passed removes the record; call it when the files are gone. */
export const endDeleteDamagedSnapshot = procedure<EndDeleteDamagedSnapshotInput, ReceiptRef>(
  'snapshots.end_delete_damaged',
)
export const beginImport = procedure<BeginImportInput, BeginImportOutput>('snapshots.begin_import')
export const endImport = procedure<EndImportInput, SnapshotRecord | undefined>('snapshots.end_import')
