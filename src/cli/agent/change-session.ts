/** `agent rename`, `stop`, `restart` and `recover`: each writes a receipt together with the record that it changes. */
import { Command } from 'commander'
import type { Json } from '../../lib/canonical-json.ts'
import type { SessionAction } from '../../run/agents/tokens.ts'
import type { CliContext } from '../context.ts'
import { formatOption, printable, printRecord } from '../output.ts'

interface ChangeFlags {
  readonly reason?: string
  readonly format?: string
}

export function renameCommand(context: CliContext): Command {
  return new Command('rename')
    .description('rename a session')
    .argument('<session>', 'id of the session')
    .argument('<name>', 'new name')
    .addOption(formatOption())
    .addHelpText('after', '\nExample:\n  craik agent rename agent_shop_openai_20261115091244 "parser work"\n')
    .action((id: string, name: string, flags: ChangeFlags) => change(context, 'rename', id, flags, name))
}

const VERBS = {
  stop: 'stop a session and ask its active run to stop',
  restart: 'make a stopped or failed session ready again',
  recover: 'correct the status of a session and its run after a crash',
} as const

const EXAMPLE_REASONS = {
  stop: 'done for today',
  restart: 'new API key',
  recover: 'power cut',
} as const

export function changeCommand(context: CliContext, verb: keyof typeof VERBS): Command {
  return new Command(verb)
    .description(VERBS[verb])
    .argument('<session>', 'id of the session')
    .option('--reason <text>', 'reason, which Craik records with secrets masked; at most 300 characters')
    .addOption(formatOption())
    .addHelpText(
      'after',
      `\nExample:\n  craik agent ${verb} agent_shop_openai_20261115091244 --reason "${EXAMPLE_REASONS[verb]}"\n`,
    )
    .action((id: string, flags: ChangeFlags) => change(context, verb, id, flags))
}

async function change(
  context: CliContext,
  action: SessionAction,
  id: string,
  { reason, format }: ChangeFlags,
  name?: string,
): Promise<void> {
  const store = await context.store()
  const { requireLogin } = await import('../../run/agents/operator-login.ts')
  const { subject: operator } = await requireLogin(store)
  const { changeSession } = await import('../../run/agents/tokens.ts')
  const { sessionName } = await import('../../run/agents/launch-agent.ts')
  const result = await store.write(changeSession, {
    id,
    operator,
    action,
    ...(reason !== undefined && { reason }),
    ...(name !== undefined && { name: sessionName(name) }),
  })
  if (result.outcome === 'refused') {
    const { recordRefusalError } = await import('../../run/agents/record-refusal.ts')
    throw recordRefusalError(result)
  }
  const { session, seal, receipt, ended, signal, leftRunId } = result
  const { askToStop } = await import('../../run/agents/stop-run.ts')
  const signalled = signal !== undefined && askToStop(signal, context.home.database)
  const record = {
    action,
    session: { ...session, receipt_hmac: seal },
    receipt_id: receipt.id,
    ended_run:
      ended === undefined
        ? null
        : { run_id: ended.run.id, status: ended.run.status, handoff_id: ended.handoff.id },
    signalled_pid: signalled ? signal.pid : null,
    left_run_id: leftRunId ?? null,
  }
  printRecord(context, format === undefined ? {} : { format }, record as unknown as Json, () =>
    [
      `  ${id} · ${session.status}${action === 'rename' ? ` · ${printable(session.display_name)}` : ''}\n`,
      signal === undefined
        ? ''
        : `  ${stopping(session.active_run_id, signalled ? signal.pid : undefined)}\n`,
      leftRunId === undefined ? '' : `  ${leftRunId} was changed outside Craik: its record stays as it is\n`,
      ended === undefined ? '' : `  ${ended.run.id} · ${ended.run.status} (${ended.run.stop_reason})\n`,
      ended === undefined ? '' : `  show its handoff:  craik handoff show ${ended.handoff.id}\n`,
      `  receipt ${receipt.id}\n`,
    ].join(''),
  )
}

function stopping(runId: string | null, pid: number | undefined): string {
  return pid === undefined
    ? `${runId} ends when it writes its next step`
    : `asked process ${pid} to end ${runId}`
}
