/** `egress watch`: what is reached and what is refused, as it happens. */
import { setTimeout as sleep } from 'node:timers/promises'
import { Command } from 'commander'
import type { Receipt } from '../../receipts/schema.ts'
import { getSandbox } from '../../sandboxes/lifecycle/read-records.ts'
import type { ReceiptRow } from '../../store/store.ts'
import type { CliContext } from '../context.ts'
import { formatOption, printable, resolveFormat } from '../output.ts'

const POLL_MS = 200
const PAGE = 500

export function watchCommand(context: CliContext): Command {
  return new Command('watch')
    .description('show connections and denials as they happen, until Ctrl-C')
    .option('--sandbox <id>', 'only this sandbox; id or name')
    .addOption(formatOption())
    .addHelpText('after', '\nExample:\n  craik egress watch --sandbox parser\n')
    .action(async (flags: { readonly sandbox?: string; readonly format?: string }) => {
      const store = await context.store()
      const id =
        flags.sandbox === undefined
          ? undefined
          : (await getSandbox({ store, home: context.home }, flags.sandbox)).id
      const isTable = resolveFormat(context, flags) === 'table'
      let next = ((await store.read(({ receipts }) => receipts.last()))?.seq ?? -1) + 1
      while (!context.signal.aborted) {
        const rows = await store.read(({ receipts }) => receipts.scan(next, PAGE))
        for (const row of rows) {
          next = row.seq + 1
          const { body } = JSON.parse(row.line) as Receipt
          if (body.capability !== 'network.egress' || (id !== undefined && body.links.sandbox_id !== id))
            continue
          context.stdout.write(isTable ? line(row, body) : `${row.line}\n`)
        }
        if (rows.length < PAGE) await sleep(POLL_MS, undefined, { signal: context.signal }).catch(() => {})
      }
    })
}

/** `12:00:01  denied    sbx_01…  allowed.example:443  egress.no_rule` */
function line(row: ReceiptRow, body: Receipt['body']): string {
  const cells = [
    new Date(row.atMs).toISOString().slice(11, 19),
    (row.status ?? 'begun').padEnd(8),
    (body.links.sandbox_id ?? 'all').padEnd(30),
    whereTo(body).padEnd(36),
    howItWent(body),
  ]
  return `  ${cells.map(printable).join('  ').trimEnd()}\n`
}

function whereTo({ kind, target, metadata = {} }: Receipt['body']): string {
  const { host, port } = metadata
  if (kind === 'denial' || host === undefined) return target ?? '–'
  return port === undefined ? String(host) : `${host}:${port}`
}

function howItWent({
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
    return `${metadata.outcome ?? metadata.refused_by} · ${up} bytes up, ${down} down, ${measured.get('duration_ms') ?? 0} ms`
  }
  if (phase === 'point' && kind === 'egress') return `rule: ${operation}`
  const times = Number(metadata.count ?? 1)
  return `${decision?.rule ?? '–'}${times > 1 ? ` · ${times} times` : ''}`
}
