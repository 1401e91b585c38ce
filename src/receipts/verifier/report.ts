/**
 * Verifies a Craik receipt log offline: every receipt is complete, at its position and covered by a signature.
 *
 * It needs a file, the log's public key and Node 20 or newer. It writes nothing and uses no network. In order:
 *   1. the Merkle tree (RFC 6962)   which receipts a root covers
 *   2. signed notes (C2SP)          who signed a root
 *   3. one receipt line             the position of its number, link and key id
 *   4. the chain                    whether each receipt follows from the previous one
 *   5. the log                      line by line, in constant memory: whether it is intact
 *   6. the diagnosis                which receipt is bad, and how; it decides nothing and only names
 *   7. files and proofs             where the bytes come from
 *   8. the command line             the question, and the answer in words
 */
import type { KeyObject } from 'node:crypto'

type OrderProblem = 'edited' | 'missing' | 'reordered' | 'duplicated' | 'inserted' | 'truncated'
export type NoteProblem = 'malformed' | 'foreign_key' | 'bad_checkpoint'
export type VerifierProblem = OrderProblem | NoteProblem | 'document_edited' | 'bad_hmac'

/** The problem. `seq` is where the log first differs, if that is known exactly. */
export interface VerifierFinding {
  problem: VerifierProblem
  detail: string
  seq?: number
  id?: string
}

/**
 * `receipts` is the number of receipts read, which can be fewer than all after a final finding. The first `intact` of
 * them are proven.
 */
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
  /** The trusted public keys, at least one. */
  vkeys: readonly string[]
  /** Also checks each receipt's HMAC. A single key applies to every key id. A function can return several. */
  macKey?: MacKey | ((kid: string) => MacKey | undefined)
  /** A checkpoint of this log from elsewhere. It shows truncation, and rewriting with the log's own key. */
  against?: string
  /** Called in order with each receipt before its checkpoint is reached. The buffer is valid only during the call. */
  onReceipt?: (line: Buffer, seq: number) => void
}
