/** `craik supervisor`: shows or stops the process that runs the sandboxes. It starts and exits automatically. */
import { Command } from 'commander'
import { CraikError } from '../errors.ts'
import { formatDuration, parseDuration } from '../lib/duration.ts'
import { listMountedFolders } from '../store/mounted-folders.ts'
import type { CliContext, NounBuilder } from './context.ts'
import { formatOption, printable, printRecord } from './output.ts'

interface FormatFlags {
  readonly format?: string
}

const STOP_WAIT_MS = 20_000
const DEFAULT_LINES = '50'
const MAX_LINES = 10_000

export const supervisorCommand: NounBuilder = (context) =>
  new Command('supervisor')
    .addCommand(statusCommand(context))
    .addCommand(stopCommand(context))
    .addCommand(logsCommand(context))
    .addCommand(runCommand(context), { hidden: true })

function statusCommand(context: CliContext): Command {
  return new Command('status')
    .description('show whether the supervisor runs, and how many sandboxes it has')
    .addOption(formatOption())
    .addHelpText(
      'after',
      '\nThe supervisor is the background process of this Craik home, which runs the\nsandboxes and the gateway. This command does not start it.\n\nExample:\n  craik supervisor status --format json\n',
    )
    .action(async (flags: FormatFlags) => {
      const { findSupervisor } = await import('../supervisor/connect-or-start.ts')
      using client = await findSupervisor(context)
      if (client === undefined) {
        printRecord(
          context,
          flags,
          { running: false },
          () => '  not running: the first command that needs it starts it\n',
        )
        return
      }
      const status = await client.supervisor.status()
      printRecord(context, flags, { running: true, ...status }, () => {
        const up = formatDuration(Math.max(0, context.clock.nowMs() - status.started_at_ms))
        const memory = Math.round(status.memory_bytes / 1024 / 1024)
        const state = status.draining ? 'stopping' : status.ready ? 'running' : 'taking over'
        const held = status.sandboxes === 1 ? '1 sandbox' : `${status.sandboxes} sandboxes`
        const warm = status.warm > 0 ? ` · ${status.warm} warm` : ''
        const gone = status.program_gone
          ? '  its program was removed; stop it (sandboxes keep running):  craik supervisor stop\n'
          : ''
        return `  ${state}  pid ${status.pid} · craik ${status.version} · up ${up} · ${held}${warm} · ${memory} MB\n${gone}`
      })
    })
}

function stopCommand(context: CliContext): Command {
  return new Command('stop')
    .description('stop the supervisor; sandboxes keep running, and the next command restarts it')
    .addOption(formatOption())
    .addHelpText('after', '\nExample:\n  craik supervisor stop\n')
    .action(async (flags: FormatFlags) => {
      const { stopSupervisor } = await import('../supervisor/stop.ts')
      const stopped = await stopSupervisor(context, STOP_WAIT_MS)
      const record = stopped ?? { stopped: false, pid: null, sandboxes: 0 }
      printRecord(context, flags, { ...record }, () => {
        if (stopped === undefined) return '  not running\n'
        const left = stopped.sandboxes === 1 ? '1 sandbox keeps' : `${stopped.sandboxes} sandboxes keep`
        return `  stopped  pid ${stopped.pid}${stopped.sandboxes === 0 ? '' : ` · ${left} running`}\n`
      })
    })
}

function logsCommand(context: CliContext): Command {
  return new Command('logs')
    .description('print the log of the supervisor, one JSON object per line')
    .option('--lines <n>', 'number of last lines to print', DEFAULT_LINES)
    .option('--follow', 'print new lines until Ctrl-C')
    .addHelpText('after', '\nExample:\n  craik supervisor logs --lines 20\n')
    .action(async (flags: { readonly lines: string; readonly follow?: boolean }) => {
      const { followLines, lastLines } = await import('../supervisor/log-tail.ts')
      const { runFolder } = await import('../supervisor/run-folder.ts')
      const { log } = runFolder(context.home)
      const print = (line: string) => context.stdout.write(`${printable(line)}\n`)
      const count = lineCount(flags.lines)
      if (flags.follow) for await (const line of followLines(log, count, context.signal)) print(line)
      else for (const line of lastLines(log, count)) print(line)
    })
}

function runCommand(context: CliContext): Command {
  return new Command('run')
    .description('run the supervisor; commands that need it start it')
    .option('--idle <duration>', 'exit after this time without sandboxes', '60s')
    .option('--autosave <duration>', 'interval at which login sandboxes are saved', '5m')
    .action(async (flags: { readonly idle: string; readonly autosave: string }) => {
      const idleMs = parseDuration(flags.idle, '--idle')
      const autosaveMs = parseDuration(flags.autosave, '--autosave')
      const { detachFromStarter } = await import('../supervisor/start.ts')
      await detachFromStarter(() => listMountedFolders(context.home, context.store))
      const { runSupervisor } = await import('../supervisor/run-supervisor.ts')
      const { actingOperator } = await import('../run/agents/operator-login.ts')
      await runSupervisor({
        home: context.home,
        clock: context.clock,
        mainFile: context.mainFile,
        idleMs,
        autosaveMs,
        signal: context.signal,
        // Reads the operator for each request, because a login can begin or end while the supervisor runs.
        operator: () => actingOperator(context, context.localUser),
        openSandboxes: context.openSandboxes,
      })
    })
}

function lineCount(text: string): number {
  const count = Number(text)
  if (/^[0-9]{1,5}$/.test(text) && count <= MAX_LINES) return count
  throw new CraikError('usage', `--lines must be a number up to ${MAX_LINES.toLocaleString('en')}`)
}
