/** `receipts prove`, `consistency`, `export`, `checkpoint` and `key`: what is handed to an auditor. */
import { once } from 'node:events'
import { createWriteStream, existsSync } from 'node:fs'
import { finished } from 'node:stream/promises'
import { Command } from 'commander'
import { CraikError } from '../../errors.ts'
import type { Tables } from '../../store/store.ts'
import type { CliContext } from '../context.ts'
import { Progress } from '../progress.ts'
import { readSmallFile, trustedKeys } from './files.ts'
import { findReceipt } from './list.ts'

export function proveCommand(context: CliContext): Command {
  return new Command('prove')
    .description('a small file that proves one receipt is in the log')
    .argument('<id>', 'a receipt id, or its number in the log')
    .addHelpText('after', '\nExample:\n  craik receipts prove 0 > proof.json\n')
    .action(async (id: string) => {
      const { inclusionProof } = await import('../../receipts/tree.ts')
      const store = await context.store()
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
    .description('prove that the log of a newer checkpoint continues the log of an older one')
    .argument('<old>', 'the older checkpoint, as exported')
    .argument('[new]', 'the newer one; without it, the newest of this log')
    .addHelpText('after', '\nExample:\n  craik receipts consistency monday.txt > proof.json\n')
    .action(async (oldFile: string, newFile: string | undefined) => {
      const { consistencyProof } = await import('../../receipts/tree.ts')
      const { verifyProof } = await import('../../receipts/verifier/files.ts')
      const older = readSmallFile(oldFile, 'the older checkpoint')
      const { vkeys } = await trustedKeys(context, undefined)
      const store = await context.store()
      const proof = await store.read(async (tables) => {
        const newest = await newestCheckpoint(tables)
        const newer = newFile === undefined ? newest.note : readSmallFile(newFile, 'the newer checkpoint')
        const [from, to] = [await sizeOf(older, vkeys), await sizeOf(newer, vkeys)]
        if (Math.max(from, to) > newest.size) {
          throw new CraikError(
            'tampered',
            `the log has ${newest.size} receipts, but a checkpoint covers ${Math.max(from, to)}`,
            {
              hint: 'this log was cut back: keep the checkpoint and the log as evidence',
            },
          )
        }
        if (from > to)
          throw new CraikError('usage', `the older checkpoint covers ${from} receipts, the newer one ${to}`, {
            hint: 'give the older one first',
          })
        const hashes = await consistencyProof(tables.tree, from, to)
        return JSON.stringify({ _consistency: { hashes: hashes.map(base64), new: newer, old: older } })
      })
      const report = verifyProof(proof, { vkeys })
      if (report.outcome === 'tampered') throw new CraikError('tampered', report.finding!.detail)
      context.stdout.write(`${proof}\n`)
    })
}

export function exportCommand(context: CliContext): Command {
  return new Command('export')
    .description('the whole log, with the policies it was decided by, for an auditor')
    .option('-o, --output <file>', 'write here instead of stdout; an existing file is refused')
    .addHelpText(
      'after',
      '\nExample:\n  craik receipts export -o audit.jsonl && craik receipts key > craik.pub\n',
    )
    .action(async ({ output }: { readonly output?: string }) => {
      const { exportLines } = await import('../../receipts/export.ts')
      if (output !== undefined && existsSync(output))
        throw new CraikError('conflict', `${output} exists already`)
      const store = await context.store()
      await store.read(async (tables) => {
        using progress = new Progress(context, 'exporting')
        // The file appears only if there is something to write into it.
        const lines = exportLines(tables)
        let line = await lines.next()
        const sink =
          output === undefined ? context.stdout : createWriteStream(output, { flags: 'wx', mode: 0o600 })
        const ended = finished(sink).catch((error) => Promise.reject(cannotWrite(output, error)))
        // Until it is waited for, a failure is nobody's.
        ended.catch(() => {})
        for (let count = 0; !line.done; line = await lines.next()) {
          if (!sink.write(`${line.value}\n`))
            await Promise.race([once(sink, 'drain').catch(() => ended), ended])
          if (++count % 1000 === 0) await progress.tick(count)
        }
        if (sink === context.stdout) return
        sink.end()
        await ended
      })
    })
}

export function checkpointCommand(context: CliContext): Command {
  const checkpoint = new Command('checkpoint')
    .description('the log’s signed state, to be kept where nobody here can write')
    .addHelpText('after', '\nExample:\n  craik receipts checkpoint export > checkpoint.txt\n')
  checkpoint
    .command('export')
    .description('print the newest checkpoint')
    .addHelpText('after', '\nExample:\n  craik receipts checkpoint export > checkpoint.txt\n')
    .action(async () => {
      const store = await context.store()
      context.stdout.write((await store.read(newestCheckpoint)).note)
    })
  return checkpoint
}

export function keyCommand(context: CliContext): Command {
  return new Command('key')
    .description('print the log’s public key, and after it those that followed, one a line')
    .option('--rotate', 'from now on, seal and sign with new keys; the change is itself a receipt')
    .addHelpText('after', '\nExample:\n  craik receipts key > craik.pub\n')
    .action(async ({ rotate }: { readonly rotate?: boolean }) => {
      const store = await context.store()
      if (rotate) {
        const { rotateKey } = await import('../../receipts/log.ts')
        const ref = await store.write(rotateKey, await context.operator())
        context.stderr.write(
          `  rotated · receipt ${ref.id}\n  the first key still verifies the whole log; the new one is named in that receipt\n`,
        )
      }
      const { vkeys } = await trustedKeys(context, undefined)
      if (vkeys.length === 0)
        throw new CraikError('not_found', 'the log has no key yet', {
          hint: 'it gets one with its first receipt',
        })
      context.stdout.write(`${vkeys.join('\n')}\n`)
    })
}

function cannotWrite(path: string | undefined, error: NodeJS.ErrnoException): CraikError {
  if (error.code === 'ENOSPC')
    return new CraikError('disk_full', 'the disk is full: the export is not whole', { cause: error })
  return new CraikError('usage', `${path ?? 'the output'} cannot be written (${error.code})`, {
    hint: 'check the name and mode of its folder',
    cause: error,
  })
}

async function newestCheckpoint(tables: Tables) {
  const checkpoint = await tables.tree.lastCheckpoint()
  if (checkpoint !== undefined) return checkpoint
  throw new CraikError('not_found', 'the log has no checkpoint yet', {
    hint: 'it gets one with its first receipt',
  })
}

async function sizeOf(note: string, vkeys: readonly string[]): Promise<number> {
  const { openNote, parseVkey } = await import('../../receipts/verifier/notes.ts')
  const opened = openNote(
    note,
    vkeys.map((vkey) => parseVkey(vkey)!),
  )
  if (opened.ok) return opened.size
  throw new CraikError(opened.problem === 'malformed' ? 'usage' : 'tampered', `the checkpoint ${opened.why}`)
}

const base64 = (hash: Uint8Array) => Buffer.from(hash).toString('base64')
