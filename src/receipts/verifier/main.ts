/** 8. The command line. Exit code 0: ok. 1: tampered. 2: incomplete, or a usage error. */
import { closeSync, constants, createReadStream, fstatSync, openSync, readSync } from 'node:fs'
import type { VerifierReport } from './report.ts'
import { isProof, verifyExport, verifyProof } from './verify-files.ts'

const USAGE = `usage: node craik-verify.mjs <export.jsonl | proof.json> --public-key <file> [--against <file>]

  --public-key  the log's public key, from its operator (one per line, if there are several)
  --against     a checkpoint of the log that you saved: detects a truncated or rewritten log

example: node craik-verify.mjs audit.jsonl --public-key craik.pub`

const MAX_SMALL_FILE_BYTES = 4 << 20

async function main(args: readonly string[]): Promise<number> {
  const provided = readArguments(args)
  if (!provided) return complain(USAGE)
  const started = performance.now()
  try {
    const vkeys = readSmallFile(openRegular(provided.publicKey))
      .split('\n')
      .filter((line) => line.trim() !== '')
    const fd = openRegular(provided.file)
    const proof = isProof(firstBytes(fd, 64))
    if (proof && provided.against) return complain('craik-verify: --against requires an export, not a proof')
    const against = provided.against ? { against: readSmallFile(openRegular(provided.against)) } : {}
    const report = proof
      ? verifyProof(readSmallFile(fd), { vkeys })
      : await verifyExport(createReadStream('', { fd, start: 0, highWaterMark: 1 << 20 }), {
          vkeys,
          ...against,
        })
    process.stdout.write(render(report, proof, (performance.now() - started) / 1000))
    return { ok: 0, tampered: 1, incomplete: 2 }[report.outcome]
  } catch (error) {
    return complain(`craik-verify: ${error instanceof Error ? error.message : error}`)
  }
}

function readArguments(args: readonly string[]) {
  const provided: { file?: string; publicKey?: string; against?: string } = {}
  for (let i = 0; i < args.length; i++) {
    if (args[i] === '--public-key') provided.publicKey = args[++i] ?? ''
    else if (args[i] === '--against') provided.against = args[++i] ?? ''
    else if (args[i]!.startsWith('-') || provided.file) return undefined
    else provided.file = args[i]!
  }
  const { file, publicKey, against } = provided
  return file && publicKey && against !== '' ? { file, publicKey, against } : undefined
}

function complain(text: string): number {
  process.stderr.write(`${text}\n`)
  return 2
}

/** A pipe or a device can be endless, or return different bytes when it is read again. */
function openRegular(path: string): number {
  const file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
  if (fstatSync(file).isFile()) return file
  closeSync(file)
  throw new Error(`${path} is not a regular file`)
}

function readSmallFile(file: number): string {
  const text = firstBytes(file, MAX_SMALL_FILE_BYTES + 1)
  closeSync(file)
  if (Buffer.byteLength(text) > MAX_SMALL_FILE_BYTES)
    throw new Error('a public key, a checkpoint or a proof can have at most 4 MiB')
  return text
}

function firstBytes(file: number, bytes: number): string {
  const buffer = Buffer.alloc(bytes)
  let length = 0
  for (let read = -1; read !== 0 && length < bytes; length += read)
    read = readSync(file, buffer, length, bytes - length, length)
  return buffer.toString('utf8', 0, length)
}

/** The result first, then what was read, what is intact and what is not. */
function render(report: VerifierReport, ofProof: boolean, seconds: number): string {
  const { receipts, checkpoints, firstAt, lastAt, intact, finding, missing, lastCheckpoint } = report
  const few = ['no receipt is proven intact', 'receipt 0 is intact']
  const proven = few[intact] ?? `receipts 0–${intact - 1} are intact`
  const follows = ofProof ? '' : `    ${proven}; nothing after can be trusted\n`
  if (finding) return `  ✗ ${finding.detail}\n${follows}`
  const days = firstAt && lastAt ? ` · ${firstAt.slice(0, 10)} → ${lastAt.slice(0, 10)}` : ''
  const summary = `  ${formatCount(receipts, 'receipt')}${days} · ${formatCount(checkpoints, 'checkpoint')}\n`
  if (missing.length > 0) return `${summary}${missing.map((line) => `  – ${line}\n`).join('')}    ${proven}\n`
  const passed = ofProof ? 'signatures ✓  proof ✓' : 'chain ✓  signatures ✓  tree ✓'
  const answer = `${summary}  ${passed}     ${seconds.toFixed(1)} s\n`
  if (!lastCheckpoint) return answer
  return `${answer}  root ${lastCheckpoint.root} at ${formatCount(lastCheckpoint.size, 'receipt')}\n`
}

function formatCount(count: number, noun: string): string {
  return `${count.toLocaleString('en-US')} ${noun}${count === 1 ? '' : 's'}`
}

process.exitCode = await main(process.argv.slice(2))
