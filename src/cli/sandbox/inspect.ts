/**
 * `craik sandbox stats`, `ps`, `signal` and `logins`: show what a sandbox uses and which processes run in it, send a
 * signal, and update its logins.
 */
import { constants } from 'node:os'
import { Command } from 'commander'
import { CraikError } from '../../errors.ts'
import type { Json } from '../../lib/canonical-json.ts'
import { formatDuration } from '../../lib/duration.ts'
import type { ProcessBody } from '../../operator/api/bodies.ts'
import type { CliContext } from '../context.ts'
import { type Column, formatOption, printable, printRecord, printRows } from '../output.ts'
import { formatBytes, parseCount, quoteText } from './amounts.ts'
import { connect } from './connect-supervisor.ts'
import { keysIn } from './environment-keys.ts'
import { describeStats } from './stats.ts'

interface FormatOptions {
  readonly format?: string
}

export function statsCommand(context: CliContext): Command {
  return new Command('stats')
    .description('show resource use: observed by the host, claimed by the sandbox, and the limits')
    .argument('<id>', 'id or name')
    .addOption(formatOption())
    .addHelpText(
      'after',
      '\nLimits apply to the observed figures. Observed memory includes the kernel’s file\ncache; observed processes include threads.\n\nExample:\n  craik sandbox stats parser\n',
    )
    .action(async (id: string, options: FormatOptions) => {
      using client = await connect(context)
      const stats = await client.sandboxes.stats(id, { signal: context.signal })
      printRecord(context, options, stats as unknown as Json, () => describeStats(stats))
    })
}

const PROCESS_COLUMNS: readonly Column<ProcessBody>[] = [
  { title: 'pid', value: ({ pid }) => String(pid) },
  { title: 'parent', value: ({ parent }) => String(parent), dropOrder: 1 },
  { title: 'state', value: ({ state }) => state, dropOrder: 2 },
  { title: 'cpu', value: ({ cpu_ms }) => formatDuration(cpu_ms) },
  { title: 'memory', value: ({ memory_bytes }) => formatBytes(memory_bytes) },
  { title: 'name', value: ({ name }) => name },
  { title: 'job', value: ({ job }) => job ?? '–', dropOrder: 3 },
]

export function psCommand(context: CliContext): Command {
  return new Command('ps')
    .description('list the processes of a sandbox, as the sandbox reports them')
    .argument('<id>', 'id or name')
    .addOption(formatOption())
    .addHelpText('after', '\nExample:\n  craik sandbox ps parser\n')
    .action(async (id: string, options: FormatOptions) => {
      using client = await connect(context)
      const processes = await client.sandboxes.processes(id, { signal: context.signal })
      printRows(context, options, processes, PROCESS_COLUMNS, (row) => row as unknown as Json)
    })
}

export function loginsCommand(context: CliContext): Command {
  return new Command('logins')
    .description('update the logins of a sandbox from those of this machine')
    .argument('<id>', 'id or name')
    .addOption(formatOption())
    .addHelpText(
      'after',
      '\nA sandbox gets its logins when it starts. Run this after you log in or out on\nthis machine, instead of a stop and resume. It also offers the API keys in the\nenvironment of this command, which replace those offered before. To list the\nlogins, run craik accounts.\n\nExample:\n  craik sandbox logins parser\n',
    )
    .action(async (id: string, options: FormatOptions) => {
      using client = await connect(context)
      // Sends all present keys, so that keys that are no longer in a variable end here too.
      const keys = keysIn(context.environment)
      await client.accounts.offer(keys, { signal: context.signal })
      const logins = await client.sandboxes.putLogins(id, { signal: context.signal })
      const { notice } = await client.sandboxes.get(id, { signal: context.signal })
      const names = Object.keys(keys)
      printRecord(context, options, { logins: [...logins], offered_keys: names, notice }, () =>
        [
          `  logins   ${logins.length === 0 ? 'none' : logins.join(' · ')}\n`,
          names.length === 0 ? '' : `  offered  ${names.join(' · ')}, used if no login comes first\n`,
          notice === null ? '' : `  notice   ${printable(notice)}\n`,
        ].join(''),
      )
    })
}

const PIDS = { least: 1, most: 2 ** 22 }

export function signalCommand(context: CliContext): Command {
  return new Command('signal')
    .description('send a signal to a process in a sandbox')
    .argument('<id>', 'id or name')
    .argument('<pid>', 'process id, as in craik sandbox ps')
    .argument('[signal]', 'name or number of the signal', 'TERM')
    .addOption(formatOption())
    .addHelpText('after', '\nExample:\n  craik sandbox signal parser 42 HUP\n')
    .action(async (id: string, pidText: string, signalText: string, options: FormatOptions) => {
      const pid = parseCount(pidText, 'the process id', PIDS)
      const signal = parseSignalName(signalText)
      using client = await connect(context)
      await client.sandboxes.signalProcess(id, pid, signal, { signal: context.signal })
      printRecord(
        context,
        options,
        { sandbox: id, pid, signal, sent: true },
        () => `  sent  ${signal} to ${pid}\n`,
      )
    })
}

/** Parses `TERM`, `SIGTERM`, `term` or `15`. */
export function parseSignalName(text: string): NodeJS.Signals {
  const named = `SIG${text.toUpperCase().replace(/^SIG/, '')}`
  for (const [name, number] of Object.entries(constants.signals))
    if (name === named || (/^\d{1,2}$/.test(text) && number === Number(text))) return name as NodeJS.Signals
  throw new CraikError('usage', `${quoteText(text)} is not a signal`, {
    hint: 'use a name or number: TERM, KILL, HUP, 15',
  })
}
