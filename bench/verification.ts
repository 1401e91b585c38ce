/**
 * Times the verification of an export against `sha256sum` over the same bytes, and checks that its memory does not grow
 * with the log.
 */
import { spawnSync } from 'node:child_process'
import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { closeSync, openSync, statSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { newId, type ReceiptId } from '../src/lib/ids.ts'
import { checkpointText, formatVkey, signNote } from '../src/receipts/note.ts'
import { prepareReceipt } from '../src/receipts/prepare.ts'
import { CompactRange, leafHash } from '../src/receipts/verifier/merkle.ts'
import { median, type Row, TemporaryFolder, timeProcess } from './measure.ts'
import { POLICY_DIGEST, POLICY_TEXT, sample } from './receipts.ts'

const SMALL = 250_000
const LARGE = 1_000_000
const ROUNDS = 3
const ROOT = join(import.meta.dirname, '..')

export async function verificationRows(): Promise<Row[]> {
  using folder = new TemporaryFolder()
  const key = join(folder.path, 'craik.pub')
  const [small, large] = [join(folder.path, 'small.jsonl'), join(folder.path, 'large.jsonl')]
  writeLog(small, key, SMALL)
  const smallRun = verifierRun(small, key)
  writeLog(large, key, LARGE)
  const rounds = Array.from({ length: ROUNDS }, () => ({
    ours: verifierRun(large, key),
    sum: timeProcess('sha256sum', [large]),
  }))
  const theirs = median(rounds.map(({ sum }) => sum))
  const ours = median(rounds.map(({ ours }) => ours.elapsedMs))
  const megabytes = Math.round(statSync(large).size / 1e6)
  return [
    {
      what: `verify 1 M receipts (${megabytes} MB), public key only`,
      against: '`sha256sum` over the same file',
      ours: `${(ours / 1000).toFixed(2)} s`,
      theirs: `${(theirs / 1000).toFixed(2)} s`,
      ratio: median(rounds.map(({ ours: { elapsedMs }, sum }) => elapsedMs / sum)),
      bar: { atMost: 4 },
      command: 'npm run bench -- verification',
    },
    {
      what: 'verify: time per receipt, 1 M receipts',
      against: '250,000 receipts',
      ours: `${((ours * 1000) / LARGE).toFixed(2)} µs`,
      theirs: `${((smallRun.elapsedMs * 1000) / SMALL).toFixed(2)} µs`,
      ratio: ours / LARGE / (smallRun.elapsedMs / SMALL),
      bar: { atMost: 1.15 },
      command: 'npm run bench -- verification',
    },
    {
      what: 'verify: peak memory, 1 M receipts',
      against: '250,000 receipts',
      ours: `${Math.round(rounds[0]!.ours.maxRssKib / 1024)} MiB`,
      theirs: `${Math.round(smallRun.maxRssKib / 1024)} MiB`,
      ratio: rounds[0]!.ours.maxRssKib / smallRun.maxRssKib,
      bar: { atMost: 1.3 },
      command: 'npm run bench -- verification',
    },
  ]
}

/** Runs the standalone verifier in a separate process, which prints its peak memory when it exits. */
function verifierRun(file: string, key: string): { elapsedMs: number; maxRssKib: number } {
  const script = `process.on('exit', () => console.error('rss ' + process.resourceUsage().maxRSS))
    process.argv.splice(1, 1, ${JSON.stringify(join(ROOT, 'docs/verify/craik-verify.mjs'))})
    await import(process.argv[1])`
  const started = performance.now()
  const args = ['--input-type=module', '-e', script, '--', 'x', file, '--public-key', key]
  const { status, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' })
  const elapsedMs = performance.now() - started
  const rss = /rss (\d+)/.exec(stderr)
  if (status !== 0 || rss === null) throw new Error(`the verifier exited ${status}: ${stderr}`)
  return { elapsedMs, maxRssKib: Number(rss[1]) }
}

/** Writes an export in the format of the log, without a database. */
function writeLog(path: string, keyPath: string, size: number): void {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519')
  const origin = 'craik.local/bench'
  const vkey = formatVkey(origin, publicKey)
  writeFileSync(keyPath, `${vkey}\n`)
  const body = prepareReceipt(newId<ReceiptId>('rcpt', Date.now()), { ...sample(1), phase: 'point' }).body
  const file = openSync(path, 'w')
  const kid = randomBytes(8).toString('hex')
  const tree = new CompactRange()
  let [prev, pending, leaves] = ['0'.repeat(64), '', [] as Buffer[]]
  const header = { format: 'craik.receipts.export', kid, origin, size, version: 1, vkey }
  pending += `${JSON.stringify({ _craik: header })}\n`
  // The policy text of the sample decision.
  pending += `${JSON.stringify({ _document: { digest: POLICY_DIGEST, media_type: 'text/cedar', text: POLICY_TEXT } })}\n`
  for (let seq = 0; seq < size; seq++) {
    const seal = `{"at":"2026-11-15T09:12:44.123Z","kid":"${kid}","prev":"${prev}","receipt_hmac":"${'0'.repeat(64)}","seq":${seq}}`
    const line = `{"body":${body},"seal":${seal}}`
    const leaf = leafHash(Buffer.from(line))
    tree.append(leaf)
    leaves.push(leaf)
    prev = leaf.toString('hex')
    pending += `${line}\n`
    if ((seq + 1) % 256 !== 0 && seq + 1 !== size) continue
    const note = signNote(checkpointText(origin, seq + 1, tree.root()), origin, privateKey)
    pending += `${JSON.stringify({ _checkpoint: { leaves: Buffer.concat(leaves).toString('base64'), note } })}\n`
    leaves = []
    writeSync(file, pending)
    pending = ''
  }
  closeSync(file)
}
