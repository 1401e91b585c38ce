/**
 * Writes docs/verify/vectors: one small log with fixed keys, ways to tamper with it, and the expected result of a
 * verifier. The bytes are the same on every machine. With `--check`, it writes nothing and fails if a file differs.
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { canonicalJson } from '../src/lib/canonical-json.ts'
import { checkpointText, signNote } from '../src/receipts/note.ts'
import {
  buildLog,
  receiptBody,
  sealLine,
  TEST_ORIGIN,
  testKeys,
} from '../src/receipts/receipt-log.fixture.ts'
import { consistencyProof, inclusionProof } from '../src/receipts/tree.ts'
import { CompactRange, leafHash } from '../src/receipts/verifier/merkle.ts'
import type { VerifierProblem, VerifierReport } from '../src/receipts/verifier/report.ts'

const folder = new URL('../docs/verify/vectors/', import.meta.url)
const SIZE = 20
const log = buildLog({
  receipts: SIZE,
  checkpoints: [6, 13, SIZE],
  rotations: [12],
  documents: ['permit (principal, action == Action::"exec", resource);\n'],
  seed: 'vectors',
})
const { lines, notes, leaves, keys } = log
const vkeys = [keys[0]!.vkey]
const reader = { leaves: (from: number, to: number) => leaves.slice(from, to), node: () => undefined }
const encode = (hashes: Buffer[]) => hashes.map((hash) => hash.toString('base64'))

const isReceipt = (line: string) => line.startsWith('{"body"')
const lineOf = (seq: number) => lines.findIndex((line) => line.endsWith(`"seq":${seq}}}`))
const checkpointLine = (number: number) =>
  lines.findIndex((line) => line.includes(JSON.stringify(notes[number]).slice(1, -1)))
const put = (at: number, remove: number, ...add: string[]) => lines.toSpliced(at, remove, ...add)
const editedFive = lines[lineOf(5)]!.replace('host-5.example', 'host-6.example')

/** Recomputes the links after an edit, as a forger without the keys can do. */
function relinkLines(from: string[]): string[] {
  let prev = '0'.repeat(64)
  return from.map((line) => {
    if (!isReceipt(line)) return line
    const fixed = line.replace(/"prev":"\w{64}"/, `"prev":"${prev}"`)
    prev = leafHash(Buffer.from(fixed)).toString('hex')
    return fixed
  })
}

function foreignCheckpoint(): string {
  const tree = new CompactRange()
  for (const leaf of leaves) tree.append(leaf)
  const note = signNote(
    checkpointText(TEST_ORIGIN, SIZE, tree.root()),
    TEST_ORIGIN,
    testKeys('stranger').signingKey,
  )
  return canonicalJson({ _checkpoint: { leaves: Buffer.concat(leaves.slice(13)).toString('base64'), note } })
}

const inserted = sealLine(receiptBody(99), 10, leaves[9]!.toString('hex'), {
  kid: keys[0]!.kid,
  macKey: Buffer.alloc(32),
})
const smallHeader = lines[0]!.replace(`"size":${SIZE}`, '"size":13')
const proof = {
  checkpoint: notes[1]!,
  hashes: encode(await inclusionProof(reader, 5, 13)),
  index: 5,
  receipt: lines[lineOf(5)]!,
}
const consistency = { hashes: encode(await consistencyProof(reader, 6, 13)), new: notes[1]!, old: notes[0]! }

const NEWEST = 'newest-checkpoint.txt'
const exports = {
  'ok.jsonl': lines,
  'edited.jsonl': put(lineOf(5), 1, editedFive),
  'edited-relinked.jsonl': relinkLines(put(lineOf(5), 1, editedFive)),
  'missing.jsonl': put(lineOf(9), 1),
  'reordered.jsonl': put(lineOf(14), 3, lines[lineOf(16)]!, lines[lineOf(15)]!, lines[lineOf(14)]!),
  'duplicated.jsonl': put(lineOf(11), 0, lines[lineOf(3)]!),
  'inserted.jsonl': put(lineOf(10), 0, inserted),
  'truncated.jsonl': lines.slice(0, lineOf(17)),
  'foreign-key.jsonl': put(checkpointLine(2), 1, foreignCheckpoint()),
  'bad-checkpoint.jsonl': put(
    checkpointLine(1),
    1,
    lines[checkpointLine(1)]!.replace('\\n13\\n', '\\n14\\n'),
  ),
  'document-edited.jsonl': put(1, 1, lines[1]!.replace('permit', 'forbid')),
  'malformed.jsonl': lines.slice(1),
  'unsigned-tail.jsonl': lines.slice(0, -1),
  'cut-back.jsonl': [smallHeader, ...lines.slice(1, checkpointLine(1) + 1)],
}
const proofs = {
  'proof.json': JSON.stringify({ _proof: proof }, null, 2),
  'proof-edited.json': JSON.stringify({ _proof: { ...proof, receipt: editedFive } }, null, 2),
  'consistency.json': JSON.stringify({ _consistency: consistency }, null, 2),
}

interface Expectation {
  readonly file: keyof typeof exports | keyof typeof proofs
  readonly against?: typeof NEWEST
  readonly outcome: VerifierReport['outcome']
  readonly problem?: VerifierProblem
  readonly seq?: number
  /** The number of receipts from the first on that are still proven. */
  readonly intact: number
}

// Written by hand: the result that every verifier must report, Craik's included.
const expected: readonly Expectation[] = [
  { file: 'ok.jsonl', outcome: 'ok', intact: 20 },
  { file: 'ok.jsonl', against: NEWEST, outcome: 'ok', intact: 20 },
  { file: 'edited.jsonl', outcome: 'tampered', problem: 'edited', seq: 5, intact: 5 },
  { file: 'edited-relinked.jsonl', outcome: 'tampered', problem: 'edited', seq: 5, intact: 5 },
  { file: 'missing.jsonl', outcome: 'tampered', problem: 'missing', seq: 9, intact: 9 },
  { file: 'reordered.jsonl', outcome: 'tampered', problem: 'reordered', seq: 14, intact: 14 },
  { file: 'duplicated.jsonl', outcome: 'tampered', problem: 'duplicated', seq: 3, intact: 11 },
  { file: 'inserted.jsonl', outcome: 'tampered', problem: 'inserted', seq: 10, intact: 10 },
  { file: 'truncated.jsonl', outcome: 'tampered', problem: 'truncated', seq: 17, intact: 13 },
  { file: 'foreign-key.jsonl', outcome: 'tampered', problem: 'foreign_key', intact: 13 },
  { file: 'bad-checkpoint.jsonl', outcome: 'tampered', problem: 'bad_checkpoint', intact: 6 },
  { file: 'document-edited.jsonl', outcome: 'tampered', problem: 'document_edited', intact: 0 },
  { file: 'malformed.jsonl', outcome: 'tampered', problem: 'malformed', intact: 0 },
  { file: 'unsigned-tail.jsonl', outcome: 'incomplete', intact: 13 },
  { file: 'cut-back.jsonl', outcome: 'ok', intact: 13 },
  { file: 'cut-back.jsonl', against: NEWEST, outcome: 'tampered', problem: 'truncated', seq: 13, intact: 13 },
  { file: 'proof.json', outcome: 'ok', intact: 1 },
  { file: 'proof-edited.json', outcome: 'tampered', problem: 'edited', seq: 5, intact: 0 },
  { file: 'consistency.json', outcome: 'ok', intact: 6 },
]

const files: Record<string, string> = {
  'craik.pub': `${vkeys[0]}\n`,
  [NEWEST]: notes[2]!,
  ...Object.fromEntries(Object.entries(exports).map(([file, content]) => [file, `${content.join('\n')}\n`])),
  ...Object.fromEntries(Object.entries(proofs).map(([file, content]) => [file, `${content}\n`])),
  'expected.json': `${JSON.stringify(expected, null, 2)}\n`,
}

mkdirSync(folder, { recursive: true })
for (const [name, content] of Object.entries(files)) {
  const path = new URL(name, folder)
  if (!process.argv.includes('--check')) writeFileSync(path, content)
  else if (!existsSync(path) || readFileSync(path, 'utf8') !== content) {
    console.error(
      `docs/verify/vectors/${name} is not what its source gives: run node scripts/build-vectors.ts`,
    )
    process.exitCode = 1
  }
}
