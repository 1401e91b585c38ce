/** `craik doctor`: checks this host and prints a command that fixes each problem. */
import { Command } from 'commander'
import type { CliContext, NounBuilder } from './context.ts'
import { type HealthRow, withinTime } from './doctor/row.ts'
import { describeRows } from './doctor/table.ts'
import { formatOption, outputColumns, printRows, resolveFormat } from './output.ts'

/** No check takes longer than this. The checks run at the same time, so together they take as long as the slowest. */
const DEADLINE_MS = 4_000

/** Craik cannot run without these. Everything else is optional on a host. */
const REQUIRED: ReadonlySet<string> = new Set(['node', 'disk', 'store'])

export const doctorCommand: NounBuilder = (context) =>
  new Command('doctor')
    .addOption(formatOption())
    .addHelpText('after', HELP)
    .action(async (options: { readonly format?: string }) => {
      const rows = await runChecks(context)
      if (resolveFormat(context, options) === 'table')
        context.stdout.write(describeRows(rows, outputColumns(context, options)))
      else
        printRows(context, options, rows, [], ({ name, version, state, detail, fix, required }) => ({
          name,
          state,
          detail,
          required,
          version: version ?? null,
          fix: fix ?? null,
        }))
      if (rows.some(({ state, required }) => required && state === 'none')) context.setExitCode(1)
    })

interface PrintedRow extends HealthRow {
  readonly required: boolean
}

async function runChecks(context: CliContext): Promise<PrintedRow[]> {
  const [
    { diskHealth, nodeHealth, storeHealth },
    { engineHealth },
    { kvmHealth },
    { limitsHealth },
    { loginsHealth },
    { supervisorHealth },
  ] = await Promise.all([
    import('./doctor/home.ts'),
    import('./doctor/engine.ts'),
    import('./doctor/kvm.ts'),
    import('./doctor/limits.ts'),
    import('./doctor/logins.ts'),
    import('./doctor/supervisor.ts'),
  ])
  const checks: readonly (readonly [string, () => Promise<HealthRow | readonly HealthRow[]>])[] = [
    ['node', nodeHealth],
    ['sandbox', () => context.processHealth()],
    ['docker', () => engineHealth(context.environment)],
    ['kvm', () => kvmHealth()],
    ['disk', () => diskHealth(context)],
    ['store', () => storeHealth(context)],
    ['limits', () => limitsHealth(context)],
    ['logins', () => loginsHealth(context)],
    ['supervisor', () => supervisorHealth(context)],
  ]
  const found = await Promise.all(
    checks.map(async ([name, check]) => {
      const rows = [await withinTime(name, DEADLINE_MS, check)].flat()
      return rows.map((row) => ({ ...row, required: REQUIRED.has(name) }))
    }),
  )
  return found.flat()
}

const HELP = `
ok: works. warn: works with restrictions. off: missing or unusable (in JSON:
"none"). The last column is the command that fixes it.

Exit code: 1 if Craik itself cannot run here (node, disk, store), otherwise 0.

Example:
  craik doctor --format json
`
