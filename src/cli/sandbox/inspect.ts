/** `craik sandbox stats`, `ps`, `signal` and `logins`: what a sandbox uses, what runs in it, a word to it, and its logins. */
import { constants } from 'node:os'
import { Command } from 'commander'
import { CraikError } from '../../errors.ts'
import type { Json } from '../../lib/canonical-json.ts'
import { formatDuration } from '../../lib/duration.ts'
import type { ProcessBody } from '../../operator/api/bodies.ts'
import type { CliContext } from '../context.ts'
import { type Column, formatOption, printable, printRecord, printRows } from '../output.ts'
import { formatBytes, parseCount, shown } from './amounts.ts'
import { connect } from './connect.ts'
import { keysIn } from './offer-keys.ts'
import { describeStats } from './stats.ts'

interface FormatOptions {
  readonly format?: string
}

export function statsCommand(context: CliContext): Command {
  return new Command('stats')
    .description('what it uses: observed by the host, claimed by the inside, and its limits')
    .argument('<id>', 'id or name')
    .addOption(formatOption())
    .addHelpText(
      'after',
      '\nLimits go by observed figures only: memory with what the kernel keeps of files, processes with their threads.\n\nExample:\n  craik sandbox stats parser\n',
    )
    .action(async (id: string, options: FormatOptions) => {
      using client = await connect(context)
      const stats = await client.sandboxes.stats(id, { signal: context.signal })
      printRecord(context, options, stats as unknown as Json, () => describeStats(stats))
    })
}

const PROCESS_COLUMNS: readonly Column<ProcessBody>[] = [
  { title: 'pid', value: ({ pid }) => String(pid) },
  { title: 'parent', value: ({ parent }) => String(parent) },
  { title: 'state', value: ({ state }) => state },
  { title: 'cpu', value: ({ cpu_ms }) => formatDuration(cpu_ms) },
  { title: 'memory', value: ({ memory_bytes }) => formatBytes(memory_bytes) },
  { title: 'name', value: ({ name }) => name },
  { title: 'job', value: ({ job }) => job ?? '–' },
]

export function psCommand(context: CliContext): Command {
  return new Command('ps')
    .description('the processes inside, as the inside tells them')
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
    .description('bring its logins up to date: what it gets of those of this machine, as they are now')
    .argument('<id>', 'id or name')
    .addOption(formatOption())
    .addHelpText(
      'after',
      '\nA sandbox gets them when it starts. After a login or a logout on this machine this saves it a stop and resume.\nAPI keys in the environment of this command are offered with it, in place of those offered before. What there is:  craik accounts\n\nExample:\n  craik sandbox logins parser\n',
    )
    .action(async (id: string, options: FormatOptions) => {
      using client = await connect(context)
      // As they are now: keys that are in no variable any more end here too.
      const keys = keysIn(context.environment)
      await client.accounts.offer(keys, { signal: context.signal })
      const logins = await client.sandboxes.putLogins(id, { signal: context.signal })
      const { notice } = await client.sandboxes.get(id, { signal: context.signal })
      const names = Object.keys(keys)
      printRecord(context, options, { logins: [...logins], offered_keys: names, notice }, () =>
        [
          `  logins   ${logins.length === 0 ? 'none' : logins.join(' · ')}\n`,
          names.length === 0 ? '' : `  offered  ${names.join(' · ')}, where there is no login before them\n`,
          notice === null ? '' : `  notice   ${printable(notice)}\n`,
        ].join(''),
      )
    })
}

const PIDS = { least: 1, most: 2 ** 22 }

export function signalCommand(context: CliContext): Command {
  return new Command('signal')
    .description('send a signal to a process inside')
    .argument('<id>', 'id or name')
    .argument('<pid>', 'as `craik sandbox ps` shows it')
    .argument('[signal]', 'by name or number', 'TERM')
    .addOption(formatOption())
    .addHelpText('after', '\nExample:\n  craik sandbox signal parser 42 HUP\n')
    .action(async (id: string, pidText: string, signalText: string, options: FormatOptions) => {
      const pid = parseCount(pidText, 'the process number', PIDS)
      const signal = parseSignal(signalText)
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

/** `TERM`, `SIGTERM`, `term` or `15`. */
export function parseSignal(text: string): NodeJS.Signals {
  const named = `SIG${text.toUpperCase().replace(/^SIG/, '')}`
  for (const [name, number] of Object.entries(constants.signals))
    if (name === named || (/^\d{1,2}$/.test(text) && number === Number(text))) return name as NodeJS.Signals
  throw new CraikError('usage', `${shown(text)} is not a signal`, {
    hint: 'by name or number: TERM, KILL, HUP, 15',
  })
}
