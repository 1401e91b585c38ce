/** `egress watch`: prints connections and denials as they happen. */
import { setTimeout as sleep } from 'node:timers/promises'
import { Command } from 'commander'
import { formatDuration } from '../../lib/duration.ts'
import type { Receipt } from '../../receipts/schema.ts'
import { getSandbox } from '../../sandboxes/lifecycle/read-records.ts'
import type { ReceiptRow } from '../../store/store.ts'
import type { CliContext } from '../context.ts'
import { wrapWords } from '../fit-lines.ts'
import { formatOption, outputColumns, printable, printNote, resolveFormat, shortenCell } from '../output.ts'
import { formatBytes } from '../sandbox/amounts.ts'
import { countCells } from '../terminal-rows.ts'
import { readSandboxNames } from './sandbox-names.ts'

const POLL_MS = 200
const PAGE = 500

export function watchCommand(context: CliContext): Command {
  return new Command('watch')
    .description('show allowed and denied connections as they happen, until Ctrl-C')
    .option('--sandbox <id>', 'only this sandbox, by id or name (default: all)')
    .addOption(formatOption())
    .addHelpText('after', '\nExample:\n  craik egress watch --sandbox parser\n')
    .action(async (flags: { readonly sandbox?: string; readonly format?: string }) => {
      const store = await context.store()
      const watched =
        flags.sandbox === undefined
          ? undefined
          : await getSandbox({ store, home: context.home }, flags.sandbox)
      const print =
        resolveFormat(context, flags) === 'table' ? tablePrinter(context, flags, watched) : undefined
      let next = ((await store.read(({ receipts }) => receipts.last()))?.seq ?? -1) + 1
      while (!context.signal.aborted) {
        const rows = await store.read(({ receipts }) => receipts.scan(next, PAGE))
        for (const row of rows) {
          next = row.seq + 1
          const { body } = JSON.parse(row.line) as Receipt
          const isOther = watched !== undefined && body.links.sandbox_id !== watched.id
          if (body.capability !== 'network.egress' || isOther) continue
          if (print === undefined) context.stdout.write(`${row.line}\n`)
          else await print(row, body)
        }
        if (rows.length < PAGE) await sleep(POLL_MS, undefined, { signal: context.signal }).catch(() => {})
      }
    })
}

/** Craik prints each line at once, so a column cannot have the width of its widest cell. */
const SANDBOX_WIDTH = 14
const TARGET_WIDTH = 24

/** With `watched`, all lines are about one sandbox and omit its name. */
function tablePrinter(
  context: CliContext,
  flags: { readonly sandbox?: string; readonly format?: string },
  watched: { readonly name: string } | undefined,
): (row: ReceiptRow, body: Receipt['body']) => Promise<void> {
  const columns = outputColumns(context, flags)
  const advised = new Set<string>()
  let names: ReadonlyMap<string, string> = new Map()
  printNote(context, `  watching ${watched === undefined ? 'all sandboxes' : watched.name}; Ctrl-C to stop\n`)
  return async (row, body) => {
    const id = body.links.sandbox_id
    if (watched === undefined && id !== undefined && !names.has(id)) names = await readSandboxNames(context)
    const name = watched?.name ?? (id === undefined ? 'all' : (names.get(id) ?? id))
    const lead = [
      new Date(row.atMs).toISOString().slice(11, 19),
      (row.status ?? 'begun').padEnd(7),
      ...(watched === undefined ? [formatSandbox(name, columns)] : []),
    ].join('  ')
    const target = printable(formatTarget(body)).padEnd(TARGET_WIDTH)
    const line = `  ${lead}  ${target}  ${printable(describeOutcome(body))}`
    context.stdout.write(`${fitResult(line.trimEnd(), lead.length + 4, columns)}\n`)
    const advice = suggestAllow(body, name)
    if (advice === undefined || advised.has(advice)) return
    advised.add(advice)
    context.stdout.write(`            allow it:  ${advice}\n`)
  }
}

function formatSandbox(name: string, columns: number): string {
  return (Number.isFinite(columns) ? shortenCell(name, SANDBOX_WIDTH) : name).padEnd(SANDBOX_WIDTH)
}

/** Moves the result below the target if both do not fit on one line. */
function fitResult(line: string, indent: number, columns: number): string {
  if (countCells(line) <= columns) return line
  const at = line.indexOf('  ', indent)
  const result = line.slice(at).trimStart()
  return `${line.slice(0, at)}\n${wrapWords(result, columns - indent)
    .map((each) => ' '.repeat(indent) + each)
    .join('\n')}`
}

/** Returns a command only if policy denied the host because no rule names it, and a shell takes the host literally. */
function suggestAllow(
  { decision, metadata = {}, ...body }: Receipt['body'],
  sandbox: string,
): string | undefined {
  const to = formatTarget({ ...body, metadata } as Receipt['body']).replace(/:443$/, '')
  if (decision?.rule !== 'egress.no_rule' || body.phase === 'end' || !/^[\w.:-]+$/.test(to)) return undefined
  return `craik egress allow ${to} --sandbox ${sandbox}`
}

function formatTarget({ kind, target, metadata = {} }: Receipt['body']): string {
  const { host, port } = metadata
  if (kind === 'denial' || host === undefined) return target ?? '–'
  return port === undefined ? String(host) : `${host}:${port}`
}

function describeOutcome({
  phase,
  kind,
  operation,
  measures = [],
  metadata = {},
  decision,
}: Receipt['body']): string {
  if (phase === 'end') {
    const measured = new Map(measures.map(({ name, value }) => [name, value]))
    const [up, down] = [measured.get('bytes_up') ?? 0, measured.get('bytes_down') ?? 0]
    const took = formatDuration(measured.get('duration_ms') ?? 0)
    return `${metadata.outcome ?? metadata.refused_by} · ${formatBytes(up)} up, ${formatBytes(down)} down · ${took}`
  }
  if (phase === 'point' && kind === 'egress') return `rule: ${operation}`
  const times = Number(metadata.count ?? 1)
  return `${decision?.rule ?? '–'}${times > 1 ? ` · ${times} times` : ''}`
}
