/** `receipts prove`, `consistency`, `export`, `checkpoint` and `key`: print what an auditor needs. */
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { finished } from 'node:stream/promises'
import { Command } from 'commander'
import { CraikError } from '../../errors.ts'
import type { Tables } from '../../store/store.ts'
import type { CliContext } from '../context.ts'
import { Progress } from '../progress.ts'
import { readSmallFile, readTrustedKeys } from './key-files.ts'
import { findReceipt } from './list.ts'
import { cannotWrite, existsError, writeNewFile } from './new-file.ts'
import { waitUntilSigned } from './wait-until-signed.ts'

export function proveCommand(context: CliContext): Command {
  return new Command('prove')
    .description('print a proof that a receipt is in the log')
    .argument('<id>', 'id of the receipt, or its number (column # of craik receipts list)')
    .addHelpText('after', '\nExample:\n  craik receipts prove 0 > proof.json\n')
    .action(async (id: string) => {
      const { inclusionProof } = await import('../../receipts/tree.ts')
      const store = await context.store()
      await waitUntilSigned(store, context, (tables) => findReceipt(tables.receipts, id))
      const proof = await store.read(async (tables) => {
        const row = await findReceipt(tables.receipts, id)
        const checkpoint = await newestCheckpoint(tables)
        if (checkpoint.size <= row.seq) {
          throw new CraikError('unavailable', `receipt ${row.seq} is newer than the newest checkpoint`, {
            hint: 'try again in a second: a checkpoint follows every receipt',
          })
        }
        const hashes = await inclusionProof(tables.tree, row.seq, checkpoint.size)
        return { checkpoint: checkpoint.note, hashes: hashes.map(base64), index: row.seq, receipt: row.line }
      })
      context.stdout.write(`${JSON.stringify({ _proof: proof })}\n`)
    })
}

export function consistencyCommand(context: CliContext): Command {
  return new Command('consistency')
    .description('print a proof that a newer checkpoint extends an older one')
    .argument('<old>', 'file with the older checkpoint')
    .argument('[new]', 'file with the newer checkpoint (default: the newest of this log)')
    .addHelpText(
      'after',
      '\nA checkpoint is the signed state of the log at one time.\n\nExample:\n  craik receipts consistency monday.txt > proof.json\n',
    )
    .action(async (oldFile: string, newFile: string | undefined) => {
      const { consistencyProof } = await import('../../receipts/tree.ts')
      const { verifyProof } = await import('../../receipts/verifier/verify-files.ts')
      const older = readSmallFile(oldFile, 'the older checkpoint')
      const { vkeys } = await readTrustedKeys(context, undefined)
      const store = await context.store()
      if (newFile === undefined) await waitUntilSigned(store, context)
      const proof = await store.read(async (tables) => {
        const newest = await newestCheckpoint(tables)
        const newer = newFile === undefined ? newest.note : readSmallFile(newFile, 'the newer checkpoint')
        const [from, to] = [await sizeOf(older, vkeys), await sizeOf(newer, vkeys)]
        if (Math.max(from, to) > newest.size) {
          throw new CraikError(
            'tampered',
            `the log has ${newest.size} receipts, but a checkpoint covers ${Math.max(from, to)}`,
            {
              hint: 'keep the checkpoint and the log as evidence: the log was truncated',
            },
          )
        }
        if (from > to)
          throw new CraikError('usage', `the older checkpoint covers ${from} receipts, the newer one ${to}`, {
            hint: 'name the older checkpoint first',
          })
        const hashes = await consistencyProof(tables.tree, from, to)
        return JSON.stringify({ _consistency: { hashes: hashes.map(base64), new: newer, old: older } })
      })
      const report = verifyProof(proof, { vkeys })
      if (report.outcome === 'tampered') throw new CraikError('tampered', report.finding!.detail)
      context.stdout.write(`${proof}\n`)
    })
}

export function exportReceiptsCommand(context: CliContext): Command {
  return new Command('export')
    .description('export the whole log with its policies, for an auditor')
    .option('-o, --output <file>', 'write to this new file instead of stdout')
    .addHelpText(
      'after',
      '\nExample:\n  craik receipts export -o audit.jsonl && craik receipts key > craik.pub\n',
    )
    .action(async ({ output }: { readonly output?: string }) => {
      const { exportLines } = await import('../../receipts/export-log.ts')
      if (output !== undefined && existsSync(output)) throw existsError(output)
      const store = await context.store()
      await waitUntilSigned(store, context)
      await store.read(async (tables) => {
        using progress = new Progress(context, 'exporting')
        const lines = countLines(exportLines(tables), progress)
        await (output === undefined ? writeToStdout(context, lines) : writeNewFile(output, lines))
      })
    })
}

async function* countLines(lines: AsyncIterable<string>, progress: Progress): AsyncGenerator<string> {
  let count = 0
  for await (const line of lines) {
    yield `${line}\n`
    if (++count % 1000 === 0) await progress.tick(count)
  }
}

async function writeToStdout({ stdout }: CliContext, lines: AsyncIterable<string>): Promise<void> {
  const ended = finished(stdout).catch((error) => Promise.reject(cannotWrite(undefined, error)))
  // Prevents an unhandled rejection if this fails before it is awaited.
  ended.catch(() => {})
  for await (const line of lines)
    if (!stdout.write(line)) await Promise.race([once(stdout, 'drain').catch(() => ended), ended])
}

export function checkpointCommand(context: CliContext): Command {
  const checkpoint = new Command('checkpoint')
    .description('export the signed state of the log, to store on another machine')
    .addHelpText('after', '\nExample:\n  craik receipts checkpoint export > checkpoint.txt\n')
  checkpoint
    .command('export')
    .description('print the newest checkpoint, the signed state of the log')
    .addHelpText('after', '\nExample:\n  craik receipts checkpoint export > checkpoint.txt\n')
    .action(async () => {
      const store = await context.store()
      await waitUntilSigned(store, context)
      context.stdout.write((await store.read(newestCheckpoint)).note)
    })
  return checkpoint
}

export function keyCommand(context: CliContext): Command {
  return new Command('key')
    .description('print the public keys of the log, oldest first, one per line')
    .option('--rotate', 'seal and sign with new keys from now on; writes a receipt')
    .addHelpText('after', '\nExample:\n  craik receipts key > craik.pub\n')
    .action(async ({ rotate }: { readonly rotate?: boolean }) => {
      const store = await context.store()
      if (rotate) {
        const { rotateKey } = await import('../../receipts/receipt-log.ts')
        const ref = await store.write(rotateKey, await context.operator())
        context.stderr.write(
          `  rotated · receipt ${ref.id}\n  the first key still verifies the whole log; the receipt names the new one\n`,
        )
      }
      const { vkeys } = await readTrustedKeys(context, undefined)
      if (vkeys.length === 0)
        throw new CraikError('not_found', 'the log has no key yet', {
          hint: 'run a command that writes a receipt: the first one creates the key',
        })
      context.stdout.write(`${vkeys.join('\n')}\n`)
    })
}

async function newestCheckpoint(tables: Tables) {
  const checkpoint = await tables.tree.lastCheckpoint()
  if (checkpoint !== undefined) return checkpoint
  throw new CraikError('not_found', 'the log has no checkpoint yet', {
    hint: 'run a command that writes a receipt: the first one creates a checkpoint',
  })
}

async function sizeOf(note: string, vkeys: readonly string[]): Promise<number> {
  const { openNote, parseVkey } = await import('../../receipts/verifier/signed-notes.ts')
  const opened = openNote(
    note,
    vkeys.map((vkey) => parseVkey(vkey)!),
  )
  if (opened.ok) return opened.size
  throw new CraikError(opened.problem === 'malformed' ? 'usage' : 'tampered', `the checkpoint ${opened.why}`)
}

const base64 = (hash: Uint8Array) => Buffer.from(hash).toString('base64')
