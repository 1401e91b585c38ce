/** `agent audit`: prints the checks of a session, one per line. */
import { Command } from 'commander'
import type { Json } from '../../lib/canonical-json.ts'
import type { CliContext } from '../context.ts'
import { formatOption, printable, printRecord } from '../output.ts'
import { recordDeps } from './open-run-deps.ts'
import { requireOwnRecord, resolveOperator } from './own-records.ts'

export function auditCommand(context: CliContext): Command {
  return new Command('audit')
    .description('check one of your sessions against its receipts')
    .argument('<session>', 'id of the session')
    .addOption(formatOption())
    .addHelpText(
      'after',
      `
Exit code: 0 all checks passed, 1 a check failed.

Example:
  craik agent audit agent_shop_openai_20261115091244
`,
    )
    .action(async (id: string, flags: { readonly format?: string }) => {
      const operator = await resolveOperator(context, 'agent')
      const { getSession } = await import('../../run/agents/read-agent-records.ts')
      const deps = await recordDeps(context)
      await requireOwnRecord(context, operator, 'audit', 'session', await getSession(deps, id))
      const { auditSession } = await import('../../run/agents/audit.ts')
      const audit = await auditSession(deps, id)
      printRecord(context, flags, audit as unknown as Json, () => {
        const width = Math.max(...audit.checks.map(({ name }) => name.length))
        const rows = audit.checks.map(
          ({ passed, name, looked_at, problems }) =>
            `  ${passed ? '✓' : '✗'} ${printable(name).padEnd(width)}  ${printable(looked_at)}\n${problems
              .map((problem) => `      ${printable(problem)}\n`)
              .join('')}`,
        )
        const failed = audit.checks.filter(({ passed }) => !passed).length
        const sum =
          failed === 0 ? `all ${audit.checks.length} passed` : `${failed} of ${audit.checks.length} failed`
        return `${rows.join('')}  ${id}: ${sum}   verify the whole log:  craik receipts verify\n`
      })
      if (!audit.passed) context.setExitCode(1)
    })
}
