/** `receipts verify`: verifies the live log, an exported file or a proof. It works offline, with the public key. */
import { createHash, type Hash } from 'node:crypto'
import { addAbortSignal } from 'node:stream'
import { Command } from 'commander'
import { CraikError } from '../../errors.ts'
import type { RowCheck } from '../../providers/ledger/recorded-rows.ts'
import type { VerifierFinding, VerifierReport, VerifyOptions } from '../../receipts/verifier/report.ts'
import type { LogReplay } from '../../run/replay-log.ts'
import type { Tables } from '../../store/store.ts'
import type { CliContext } from '../context.ts'
import { formatOption, printRecord } from '../output.ts'
import { Progress } from '../progress.ts'
import { fileChunks, openRegularFile, readKeyFile, readSmallFile, readTrustedKeys } from './key-files.ts'
import {
  describeVerification,
  type Verification,
  verificationExitCode,
  verificationJson,
} from './verification.ts'
import { waitUntilSigned } from './wait-until-signed.ts'

interface Flags {
  readonly publicKey?: string
  readonly against?: string
  readonly replay?: boolean
  readonly sideLogs?: string
  readonly format?: string
}

export function verifyReceiptsCommand(context: CliContext): Command {
  return new Command('verify')
    .description('verify that no receipt was edited, reordered or removed from the middle')
    .argument('[file]', 'exported log or proof, or - for stdin (default: the live log)')
    .option('--public-key <file>', 'public key of the log; required for a file')
    .option(
      '--against <checkpoint>',
      'file with a checkpoint that you stored elsewhere, to detect a truncated or rewritten log',
    )
    .option('--replay', 'also recompute every decision and every budget from the receipts')
    .option(
      '--side-logs <folder>',
      'folder with the saved outputs of craik shell that the exported receipts name',
    )
    .addOption(formatOption())
    .addHelpText('after', HELP)
    .action(async (file: string | undefined, flags: Flags) => {
      const started = performance.now()
      const checked =
        file === undefined ? await verifyLive(context, flags) : await verifyFile(context, file, flags)
      const result = { ...checked, elapsedMs: Math.round(performance.now() - started) }
      printRecord(context, flags, verificationJson(result), () => describeVerification(result))
      context.setExitCode(verificationExitCode(result))
    })
}

async function verifyLive(context: CliContext, flags: Flags): Promise<Omit<Verification, 'elapsedMs'>> {
  const { LogVerifier } = await import('../../receipts/verifier/log-verifier.ts')
  const { exportLines } = await import('../../receipts/export-log.ts')
  const { SideLogChecker } = await import('../../run/side-log-check.ts')
  const { BoundaryReconciler } = await import('../../sandboxes/lifecycle/reconcile.ts')
  const { checkSandboxRows } = await import('./verify-sandboxes.ts')
  const { findEditedColumn } = await import('./columns.ts')
  const { vkeys, macKey } = await readTrustedKeys(context, flags.publicKey)
  const sideLogs = new SideLogChecker(flags.sideLogs ?? context.home.shellOutput)
  const boundaries = new BoundaryReconciler()
  const store = await context.store()
  await waitUntilSigned(store, context)
  return store.read(async (tables) => {
    const isEmpty = ((await tables.receipts.last()) ?? (await tables.tree.lastCheckpoint())) === undefined
    if (isEmpty && flags.against === undefined)
      return flags.replay ? { report: EMPTY, ...(await replayNothing(tables)) } : { report: EMPTY }
    if (isEmpty && vkeys.length === 0)
      throw new CraikError('usage', 'this Craik home has no log to compare the checkpoint with', {
        hint: 'set CRAIK_HOME to the home of that log, or verify an export of the log:  craik receipts verify --help',
      })
    using progress = new Progress(context, 'verifying')
    const onReceipt = (line: Buffer, seq: number) => {
      sideLogs.receipt(line)
      boundaries.receipt(line, seq)
    }
    const verifier = new LogVerifier(options(flags, vkeys, onReceipt, macKey))
    let lines = 0
    for await (const line of isEmpty ? [emptyLog(vkeys[0]!)] : exportLines(tables)) {
      verifier.line(Buffer.from(line))
      if (++lines % 1000 === 0) await progress.tick(lines)
    }
    let report = verifier.finish(Buffer.alloc(0))
    if (report.outcome === 'ok') {
      const finding = await findEditedColumn(tables, (n) => progress.tick(n))
      if (finding) report = withTamperFinding(report, finding)
    }
    const replayed =
      flags.replay && report.outcome !== 'tampered'
        ? await replayLines(exportLines(tables), report, progress)
        : { report }
    const rows = 'replay' in replayed && replayed.replay ? await rowsOf(tables, replayed.replay) : undefined
    for (const { sandboxId, epoch, counts } of await tables.boundaryEpochs.open())
      boundaries.recordCounts(sandboxId, epoch, counts)
    return {
      ...replayed,
      ...(rows && { rows }),
      boundaries: boundaries.finish(),
      // The public key alone cannot check seals.
      ...(macKey && { sandboxRows: await checkSandboxRows(tables, context.home) }),
      sideLogs: await sideLogs.finish((n) => progress.tick(n)),
    }
  })
}

/** Reads the rows of the same snapshot, because other processes may continue to write both. */
async function rowsOf(tables: Tables, { ledger }: LogReplay): Promise<RowCheck> {
  const { compareRows } = await import('../../providers/ledger/recorded-rows.ts')
  return compareRows(tables, ledger.book)
}

/** If there are no receipts, there must be no rows either. */
async function replayNothing(tables: Tables): Promise<{ replay: LogReplay; rows: RowCheck }> {
  const { replayLog } = await import('../../run/replay-log.ts')
  const replay = await replayLog((async function* () {})(), async () => {})
  return { replay, rows: await rowsOf(tables, replay) }
}

async function verifyFile(
  context: CliContext,
  file: string,
  flags: Flags,
): Promise<Omit<Verification, 'elapsedMs'>> {
  if (flags.publicKey === undefined) {
    throw new CraikError('usage', 'verifying a file needs the public key of its log', {
      hint: 'use --public-key craik.pub; on the machine of the log:  craik receipts key > craik.pub',
    })
  }
  if (flags.replay && file === '-')
    throw new CraikError('usage', '--replay reads the log twice, so it cannot read from stdin', {
      hint: 'save the log to a file:  craik receipts verify FILE --replay --public-key craik.pub',
    })
  const { isProof, verifyExport, verifyProof } = await import('../../receipts/verifier/verify-files.ts')
  const vkeys = readKeyFile(flags.publicKey)
  // Opens the file once, so that the replay reads the verified file even if its name leads elsewhere by then.
  await using opened = file === '-' ? undefined : await openRegularFile(file, 'the log')
  const { source, start } = await peek(opened ? fileChunks(opened) : stdinOf(context), context.signal)
  if (isProof(start)) {
    if (flags.against !== undefined || flags.replay || flags.sideLogs !== undefined)
      throw new CraikError('usage', '--against, --replay and --side-logs apply to a log, not to a proof', {
        hint: 'omit those options, or name the file of a log (craik receipts export)',
      })
    return { report: verifyProof(await readAll(source), { vkeys }), isProof: true }
  }
  const { SideLogChecker } = await import('../../run/side-log-check.ts')
  const { BoundaryReconciler } = await import('../../sandboxes/lifecycle/reconcile.ts')
  const boundaries = new BoundaryReconciler()
  const sideLogs = flags.sideLogs === undefined ? undefined : new SideLogChecker(flags.sideLogs)
  using progress = new Progress(context, 'verifying')
  const onReceipt = (line: Buffer, seq: number) => {
    sideLogs?.receipt(line)
    boundaries.receipt(line, seq)
    progress.set(seq)
  }
  const [verified, again] = [createHash('sha256'), createHash('sha256')]
  const bytes = flags.replay ? hashing(source, verified) : source
  const report = await verifyExport(progress.through(bytes), options(flags, vkeys, onReceipt))
  let replayed: Pick<Verification, 'report' | 'replay'> = { report }
  if (flags.replay && opened && report.outcome !== 'tampered') {
    const { readLines } = await import('../../receipts/read-lines.ts')
    replayed = await replayLines(readLines(hashing(fileChunks(opened), again)), report, progress)
    if (replayed.replay && !verified.digest().equals(again.digest()))
      replayed = { ...replayed, report: logChangedReport(report) }
  }
  return {
    ...replayed,
    boundaries: boundaries.finish(),
    ...(sideLogs && { sideLogs: await sideLogs.finish((n) => progress.tick(n)) }),
  }
}

function options(
  flags: Flags,
  vkeys: readonly string[],
  onReceipt: NonNullable<VerifyOptions['onReceipt']>,
  macKey?: VerifyOptions['macKey'],
): VerifyOptions {
  const against = flags.against === undefined ? undefined : readSmallFile(flags.against, 'the checkpoint')
  return { vkeys, onReceipt, ...(macKey && { macKey }), ...(against !== undefined && { against }) }
}

/**
 * Recomputes the decisions of a verified log. The receipts must be the same, otherwise the verification says nothing
 * about them.
 */
async function replayLines(
  lines: AsyncIterable<string>,
  report: VerifierReport,
  progress: Progress,
): Promise<{ report: VerifierReport; replay?: LogReplay }> {
  const { replayLog } = await import('../../run/replay-log.ts')
  let receipts = 0
  async function* countReceipts(): AsyncGenerator<string> {
    for await (const line of lines) {
      if (!line.startsWith('{"_')) receipts++
      yield line
    }
  }
  try {
    const replay = await replayLog(countReceipts(), (n) => progress.tick(n))
    return { report: receipts === report.receipts ? report : logChangedReport(report), replay }
  } catch (error) {
    // The verifier hashes receipts and does not parse them, so a receipt that no checkpoint covers may contain
    // anything.
    if (!(error instanceof SyntaxError)) throw error
    const detail = `receipt ${receipts - 1} is not a valid receipt, or changed while it was read`
    return { report: withTamperFinding(report, { problem: 'malformed', detail }) }
  }
}

function withTamperFinding(report: VerifierReport, finding: VerifierFinding): VerifierReport {
  return { ...report, outcome: 'tampered', finding }
}

function logChangedReport(report: VerifierReport): VerifierReport {
  const detail = 'the log changed while it was read: the replayed receipts are not the verified ones'
  return withTamperFinding({ ...report, intact: 0 }, { problem: 'edited', detail })
}

async function* hashing(source: AsyncIterable<Buffer>, hash: Hash): AsyncGenerator<Buffer> {
  for await (const chunk of source) {
    hash.update(chunk)
    yield chunk
  }
}

/** Ends on Ctrl-C, even while no input arrives. */
function stdinOf({ stdin, signal }: CliContext): AsyncIterable<Buffer> {
  return addAbortSignal(signal, stdin)
}

/** Reads the first bytes, which determine the kind of file, and loses nothing. */
async function peek(input: AsyncIterable<Buffer>, signal: AbortSignal) {
  const iterator = input[Symbol.asyncIterator]()
  const next = () =>
    iterator.next().catch((error) => {
      signal.throwIfAborted()
      throw error
    })
  const first = await next().catch((error: NodeJS.ErrnoException) => {
    if (error instanceof CraikError) throw error
    throw new CraikError('usage', `cannot read the file to verify (${error.code})`, {
      hint: 'check the file name',
      cause: error,
    })
  })
  async function* source(): AsyncGenerator<Buffer> {
    for (let step = first; !step.done; step = await next()) yield step.value
  }
  return { source: source(), start: first.done ? '' : first.value.toString('latin1', 0, 64) }
}

async function readAll(source: AsyncIterable<Buffer>): Promise<string> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of source) {
    size += chunk.length
    if (size > 4 << 20)
      throw new CraikError('too_large', 'the proof is larger than 4 MiB', { hint: 'check the file name' })
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString()
}

/** Returns the header of a log without receipts. A checkpoint from elsewhere may cover some. */
function emptyLog(vkey: string): string {
  const origin = vkey.slice(0, vkey.indexOf('+'))
  return JSON.stringify({ _craik: { format: 'craik.receipts.export', origin, size: 0, version: 1, vkey } })
}

const EMPTY: VerifierReport = { outcome: 'ok', receipts: 0, checkpoints: 0, intact: 0, missing: [] }

const HELP = `
To detect receipts removed at the end, store checkpoints (signed states of the
log) on another machine with craik receipts checkpoint export, and pass the
newest one with --against.

Exit code: 0 the log is intact; 1 it was tampered with; 2 no tampering found,
but parts are missing. Wrong usage also exits with 2, and prints no report.

Examples:
  craik receipts verify
  craik receipts verify audit.jsonl --public-key craik.pub --replay
`
