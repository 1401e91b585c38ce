/**
 * Measures the claims of the README, each side by side with its reference in one run. `npm run bench -- receipts` runs
 * one part.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { cpus, totalmem } from 'node:os'
import { join } from 'node:path'
import { dockerRows } from './docker.ts'
import { gatewayRows } from './gateway.ts'
import { againstRows } from './gateway-against.ts'
import { harnessRows } from './harnesses.ts'
import { hostileRows } from './hostile.ts'
import { ledgerRows } from './ledger.ts'
import { isWithinLimit, type Row } from './measure.ts'
import { receiptRows } from './receipts.ts'
import { redactionRows } from './redaction.ts'
import { sandboxRows } from './sandboxes.ts'
import { startupRows } from './startup.ts'
import { verificationRows } from './verification.ts'

const PARTS: Record<string, () => Promise<Row[]>> = {
  receipts: receiptRows,
  ledger: ledgerRows,
  verification: verificationRows,
  redaction: redactionRows,
  startup: startupRows,
  sandboxes: sandboxRows,
  docker: dockerRows,
  gateway: gatewayRows,
  harnesses: harnessRows,
  hostile: hostileRows,
}

const wanted = process.argv.slice(2)
const [against] = wanted.includes('--against') ? wanted.splice(wanted.indexOf('--against'), 2).slice(1) : []
if (against !== undefined) PARTS.gateway = () => againstRows(against)
const unknown = wanted.filter((name) => !(name in PARTS))
if (unknown.length > 0) {
  console.error(`there is no part ${unknown.join(', ')}; there are: ${Object.keys(PARTS).join(', ')}`)
  process.exit(2)
}
const rows: Row[] = []
for (const name of wanted.length > 0 ? wanted : Object.keys(PARTS)) {
  console.error(`  measuring ${name} …`)
  rows.push(...(await PARTS[name]!()))
}

const bar = ({ bar }: Row) =>
  bar === undefined ? '–' : 'atLeast' in bar ? `≥ ${bar.atLeast}×` : `≤ ${bar.atMost}×`
const ratio = (row: Row) => (row.ratio === undefined ? '–' : `${row.ratio.toFixed(2)}×`)
const verdict = (row: Row) => ({ true: 'yes', false: 'no', undefined: '–' })[`${isWithinLimit(row)}`]
const lines = rows.map(
  (row) =>
    `| ${row.what} | ${row.against} | ${row.ours} | ${row.theirs} | ${ratio(row)} | ${bar(row)} | ${verdict(row)} | \`${row.command}\` |`,
)
const head =
  '| what | against | ours | theirs | ratio | bar | holds | again with |\n|---|---|---|---|---|---|---|---|'
console.log(`${head}\n${lines.join('\n')}`)
if (wanted.length === 0) {
  const machine = `${cpus().length} cores, ${Math.round(totalmem() / 2 ** 30)} GiB, Node ${process.versions.node}`
  const page = join(import.meta.dirname, 'RESULTS.md')
  const intro = readFileSync(page, 'utf8').split('<!-- results -->')[0]!
  writeFileSync(page, `${intro}<!-- results -->\n\n${machine}.\n\n${head}\n${lines.join('\n')}\n`)
}
process.exitCode = rows.some((row) => isWithinLimit(row) === false) ? 1 : 0
