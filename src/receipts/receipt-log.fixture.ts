/** Small synthetic logs for tests, benchmarks and the published vectors. The same input produces the same bytes. */
import { createHash, createHmac, createPrivateKey, createPublicKey, type KeyObject } from 'node:crypto'
import { canonicalJson, type Json } from '../lib/canonical-json.ts'
import { newId } from '../lib/ids.ts'
import { checkpointText, formatVkey, signNote } from './note.ts'
import { CompactRange, leafHash } from './verifier/merkle.ts'

export const TEST_ORIGIN = 'craik.local/5eed5eed5eed5eed'
const START_MS = Date.UTC(2026, 10, 15, 9, 0, 0)
const PKCS8_ED25519 = Buffer.from('302e020100300506032b657004220420', 'hex')

export interface TestKeys {
  readonly kid: string
  readonly vkey: string
  readonly macKey: Buffer
  readonly signingKey: KeyObject
}

export interface TestLog {
  /** Header, documents, receipts and checkpoints, without newlines. */
  readonly lines: string[]
  /** The keys in the order of their use. The log announces all but the first. */
  readonly keys: TestKeys[]
  readonly notes: string[]
  readonly leaves: Buffer[]
}

export interface TestLogOptions {
  readonly receipts: number
  /** Sizes at which a checkpoint is signed, ascending. */
  readonly checkpoints: readonly number[]
  /** The numbers of the receipts that announce the next key. A checkpoint should follow each. */
  readonly rotations?: readonly number[]
  readonly documents?: readonly string[]
  readonly targetBytes?: number
  readonly seed?: string
}

export function testKeys(seed: string): TestKeys {
  const raw = createHash('sha256').update(`signing ${seed}`).digest()
  const key = Buffer.concat([PKCS8_ED25519, raw])
  const signingKey = createPrivateKey({ key, format: 'der', type: 'pkcs8' })
  const macKey = createHash('sha256').update(`mac ${seed}`).digest()
  const kid = createHash('sha256').update(macKey).digest('hex').slice(0, 16)
  return { kid, macKey, signingKey, vkey: formatVkey(TEST_ORIGIN, createPublicKey(signingKey)) }
}

/** Returns one sealed line. As in the log, the HMAC covers the line without its own member. */
export function sealLine(
  body: Json,
  seq: number,
  prev: string,
  keys: Pick<TestKeys, 'kid' | 'macKey'>,
): string {
  const at = new Date(START_MS + seq * 1250).toISOString()
  const seal = { at, kid: keys.kid, prev, seq }
  const unsealed = canonicalJson({ body, seal })
  const hmac = createHmac('sha256', keys.macKey).update(unsealed).digest('hex')
  return canonicalJson({ body, seal: { ...seal, receipt_hmac: hmac } })
}

export function receiptBody(seq: number, targetBytes = 0): Record<string, Json> {
  const random = createHash('sha256').update(`receipt ${seq}`).digest()
  return {
    capability: 'tool.exec',
    id: newId('rcpt', START_MS + seq * 1250, random.subarray(0, 10)),
    kind: seq % 5 === 4 ? 'denial' : 'sandbox_action',
    links: { run_id: 'run_2m8q', session_id: 'ses_01' },
    measures: [{ name: 'bytes', source: 'observed', value: seq * 17 }],
    operator: 'octo',
    phase: 'point',
    schema: 'craik.receipt/1',
    status: seq % 5 === 4 ? 'denied' : 'passed',
    target: `host-${seq}.example:443`,
    ...(targetBytes > 0 && {
      digests: { sandbox: `sha256:${random.toString('hex').repeat(targetBytes / 64)}` },
    }),
  }
}

export function buildLog(options: TestLogOptions): TestLog {
  const { receipts, checkpoints, rotations = [], documents = [], targetBytes, seed = 'test' } = options
  const keys = [testKeys(`${seed} 0`)]
  let signer = keys[0]!
  const { kid, vkey } = signer
  const header = {
    format: 'craik.receipts.export',
    kid,
    origin: TEST_ORIGIN,
    size: receipts,
    version: 1,
    vkey,
  }
  const lines = [canonicalJson({ _craik: header })]
  for (const text of documents) {
    const digest = `sha256:${createHash('sha256').update(text).digest('hex')}`
    lines.push(canonicalJson({ _document: { digest, media_type: 'text/vnd.cedar', text } }))
  }
  const notes: string[] = []
  const leaves: Buffer[] = []
  const tree = new CompactRange()
  const due = new Set(checkpoints)
  const rotating = new Set(rotations)
  let covered = 0
  let prev = '0'.repeat(64)
  const sign = () => {
    const note = signNote(checkpointText(TEST_ORIGIN, tree.size, tree.root()), TEST_ORIGIN, signer.signingKey)
    const list = Buffer.concat(leaves.slice(covered)).toString('base64')
    covered = tree.size
    signer = keys.at(-1)!
    notes.push(note)
    lines.push(canonicalJson({ _checkpoint: { leaves: list, note } }))
  }
  for (let seq = 0; seq < receipts; seq++) {
    const body = receiptBody(seq, targetBytes)
    const current = keys.at(-1)!
    if (rotating.has(seq)) {
      const next = testKeys(`${seed} ${keys.length}`)
      keys.push(next)
      body.key = { next_kid: next.kid, next_vkey: next.vkey }
    }
    const line = sealLine(body, seq, prev, current)
    const leaf = leafHash(Buffer.from(line))
    lines.push(line)
    leaves.push(leaf)
    tree.append(leaf)
    prev = leaf.toString('hex')
    if (due.has(seq + 1)) sign()
  }
  return { lines, keys, notes, leaves }
}
