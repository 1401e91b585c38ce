/** `craik doctor`: what this machine offers, and the one command that mends each thing that is missing. */
import { Command } from 'commander'
import type { CliContext, NounBuilder } from './context.ts'
import { type HealthRow, within } from './doctor/row.ts'
import { chosenFormat, formatOption, printable, printRows } from './output.ts'

/** A row never takes longer. Together they take as long as the slowest. */
const DEADLINE_MS = 4_000

/** Without these nothing works; everything else is an option that a machine may lack. */
const REQUIRED: ReadonlySet<string> = new Set(['node', 'disk', 'store'])

export const doctorCommand: NounBuilder = (context) =>
  new Command('doctor')
    .addOption(formatOption())
    .addHelpText('after', HELP)
    .action(async (options: { readonly format?: string }) => {
      const rows = await examine(context)
      if (chosenFormat(context, options) === 'table') context.stdout.write(describe(rows))
      else
        printRows(context, options, rows, [], ({ name, version, state, detail, fix, required }) => ({
          ...{ name, state, detail, required },
          version: version ?? null,
          fix: fix ?? null,
        }))
      if (rows.some(({ state, required }) => required && state === 'none')) context.setExitCode(1)
    })

interface ShownRow extends HealthRow {
  readonly required: boolean
}

async function examine(context: CliContext): Promise<ShownRow[]> {
  const [{ diskHealth, nodeHealth, storeHealth }, { engineHealth }, { kvmHealth }, { supervisorHealth }] =
    await Promise.all([
      import('./doctor/home.ts'),
      import('./doctor/engine.ts'),
      import('./doctor/kvm.ts'),
      import('./doctor/supervisor.ts'),
    ])
  const checks: readonly (readonly [string, () => Promise<HealthRow | readonly HealthRow[]>])[] = [
    ['node', nodeHealth],
    ['sandbox', () => context.placeHealth()],
    ['docker', () => engineHealth(context.environment)],
    ['kvm', () => kvmHealth()],
    ['disk', () => diskHealth(context)],
    ['store', () => storeHealth(context)],
    ['supervisor', () => supervisorHealth(context)],
  ]
  const found = await Promise.all(
    checks.map(async ([name, check]) => {
      const rows = [await within(name, DEADLINE_MS, check)].flat()
      return rows.map((row) => ({ ...row, required: REQUIRED.has(name) }))
    }),
  )
  return found.flat()
}

/** The answer first, then the thing, how it is, and what to type. */
function describe(rows: readonly ShownRow[]): string {
  const nameOf = ({ name, version }: ShownRow) =>
    printable(version === undefined ? name : `${name} ${version}`)
  const name = Math.max(...rows.map((row) => nameOf(row).length))
  const detail = Math.max(...rows.filter((row) => row.fix).map((row) => row.detail.length), 0)
  const lines = rows.map((row) => {
    const fix = row.fix === undefined ? '' : `  ${printable(row.fix)}`
    return `  ${row.state.padEnd(4)}  ${nameOf(row).padEnd(name)}  ${printable(row.detail).padEnd(detail)}${fix}`
  })
  return `${lines.map((line) => line.trimEnd()).join('\n')}\n`
}

const HELP = `
ok: works. warn: works less well than it could. none: is not there. A line's last column is the command that mends it.
Exits 1 when Craik itself cannot work here (node, disk, store), otherwise 0.

Example:
  craik doctor --format json
`
