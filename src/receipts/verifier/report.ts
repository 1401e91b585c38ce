/**
 * Verifies a Craik receipt log offline: every receipt whole, in its place, and covered by a signature.
 *
 * It needs a file, the log's public key and Node 20 or newer; it writes nothing and asks no network. In order:
 *   1. the Merkle tree (RFC 6962)   which receipts a root stands for
 *   2. signed notes (C2SP)          who vouches for a root
 *   3. one receipt line             where its number, its link and its key id stand
 *   4. the chain                    whether each receipt follows from the one before
 *   5. the log                      line by line, in constant memory: whether all is well
 *   6. the diagnosis                which receipt is bad, and how; it decides nothing, it only names
 *   7. files and proofs             where the bytes come from
 *   8. the command line             the question, and the answer in words
 */
import type { KeyObject } from 'node:crypto'

type OrderProblem = 'edited' | 'missing' | 'reordered' | 'duplicated' | 'inserted' | 'truncated'
export type NoteProblem = 'malformed' | 'foreign_key' | 'bad_checkpoint'
export type VerifierProblem = OrderProblem | NoteProblem | 'document_edited' | 'bad_hmac'

/** What is wrong. `seq` is where the log first goes wrong, when that can be told exactly. */
export interface VerifierFinding {
  problem: VerifierProblem
  detail: string
  seq?: number
  id?: string
}

/** `receipts` were read (fewer than there are once a finding is certain); the first `intact` of them are proven. */
export interface VerifierReport {
  outcome: 'ok' | 'tampered' | 'incomplete'
  receipts: number
  checkpoints: number
  intact: number
  firstAt?: string
  lastAt?: string
  finding?: VerifierFinding
  missing: string[]
  origin?: string
  lastCheckpoint?: { size: number; root: string }
}

export type MacKey = Buffer | KeyObject

export interface VerifyOptions {
  /** Trusted public keys; at least one. */
  vkeys: readonly string[]
  /** Checks each receipt's HMAC too. One key stands for every key id; a function may know several. */
  macKey?: MacKey | ((kid: string) => MacKey | undefined)
  /** A checkpoint of this log that was kept elsewhere: shows truncation, and rewriting by the log's own key. */
  against?: string
  /** Called in order with each receipt, before its checkpoint is reached; the buffer is only lent. */
  onReceipt?: (line: Buffer, seq: number) => void
}
