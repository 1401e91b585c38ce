/** Prints a sandbox that was just created. */
import { formatDuration } from '../../lib/duration.ts'
import type { SandboxBody } from '../../operator/api/bodies.ts'
import type { CliContext } from '../context.ts'
import { printable, printRecord } from '../output.ts'
import { formatFileCount } from './amounts.ts'
import type { FolderCopy } from './copy-in.ts'
import { beginningLines, describeIsolation, listUnenforcedLimits } from './describe-sandbox.ts'

export function printCreated(
  context: CliContext,
  options: { readonly format?: string },
  sandbox: SandboxBody,
  createdMs: number,
  copied: FolderCopy | undefined,
): void {
  const record = {
    ...sandbox,
    create_ms: Math.round(createdMs),
    copied:
      copied === undefined
        ? null
        : { files: copied.files, bytes: copied.bytes, skipped: [...copied.skipped] },
  }
  printRecord(context, options, record as unknown as Parameters<typeof printRecord>[2], () => {
    const facts = [
      printable(sandbox.name),
      describeIsolation(sandbox),
      formatDuration(createdMs),
      ...(copied === undefined ? [] : [`copied ${formatFileCount(copied.files)}`]),
      ...(sandbox.workspace.mode === 'in-place' ? ['workspace in place'] : []),
      ...(sandbox.harnesses.length === 0 ? [] : [sandbox.harnesses.map(({ name }) => name).join(', ')]),
    ]
    const weak = listUnenforcedLimits(sandbox.limits, sandbox.enforced)
    return [
      `  sandbox  ${facts.join(' · ')}\n`,
      weak.length === 0 ? '' : `  limits   ${weak.join(' · ')}\n`,
      formatSkipped(copied),
      beginningLines(sandbox),
      `  next     craik sandbox shell ${sandbox.name}\n`,
    ].join('')
  })
}

/** A line shows this many names. */
const SHOWN = 3

function formatSkipped(copied: FolderCopy | undefined): string {
  if (copied === undefined || copied.skippedCount === 0) return ''
  const names = copied.skipped.slice(0, SHOWN).map(printable).join(', ')
  return `  skipped  ${copied.skippedCount.toLocaleString('en')}: ${names}${copied.skippedCount > SHOWN ? ' …' : ''}\n`
}
