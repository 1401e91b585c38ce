/** `agent launch`: starts a session that the operator can prompt repeatedly. */
import { Command } from 'commander'
import type { Json } from '../../lib/canonical-json.ts'
import type { CliContext } from '../context.ts'
import { formatOption, printable, printRecord } from '../output.ts'
import { openRunDeps } from './open-run-deps.ts'
import { addRouting, type RoutingFlags, routingOf } from './run-options.ts'

interface LaunchFlags extends RoutingFlags {
  readonly sessionId?: string
  readonly name?: string
  readonly format?: string
}

const LAUNCH_HELP = `
A session keeps its provider and its policy. Give it tasks with craik agent
prompt. The session belongs to you as the operator, the user whom craik login
records on this machine: run craik login first.

Examples:
  craik agent launch --provider-id provider_openai
  craik agent launch --provider-id provider_openai --fixture     for a test
`

export function launchAgentCommand(context: CliContext): Command {
  return addRouting(new Command('launch').description('start a session of Craik’s own agent'))
    .option('--session-id <id>', 'session id (default: agent_<project>_<provider>_<time>)')
    .option('--name <name>', 'session name')
    .addOption(formatOption())
    .addHelpText('after', LAUNCH_HELP)
    .action(async (flags: LaunchFlags) => {
      const { requireLogin } = await import('../../run/agents/operator-login.ts')
      const { subject, issuer } = await requireLogin(await context.store())
      const { launchAgent } = await import('../../run/agents/launch-agent.ts')
      const { session, seal, availability } = await launchAgent(await openRunDeps(context), {
        ...routingOf(flags),
        operator: subject,
        issuer,
        sessionId: flags.sessionId,
        name: flags.name,
      })
      const { id, provider_id, transport, policy_envelope_id, backend_id, isolation, receipt_ids } = session
      const boundary = {
        backend_id,
        isolation,
        policy_envelope_id,
        provider_id,
        transport,
        capabilities_conferred: [],
        fix: isolation === 'none' ? (availability.fix ?? null) : null,
      }
      const record = { launched: true, boundary, session: { ...session, receipt_hmac: seal } }
      printRecord(context, flags, record as unknown as Json, () =>
        [
          `  ${id} · ${transport === 'fixture' ? `${provider_id} (fixture)` : provider_id} · isolation ${isolation}\n`,
          isolation === 'none' && availability.fix
            ? `  commands run directly on the host: ${printable(availability.reason ?? '')}; fix it:  ${availability.fix}\n`
            : '',
          `  policy   ${policy_envelope_id}\n`,
          `  receipt  ${receipt_ids[0]}\n`,
          `  prompt it:  craik agent prompt ${id} "<what to do>"\n`,
        ].join(''),
      )
    })
}
