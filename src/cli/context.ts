/** What every command gets: the home, the clock, the streams, and doors that open only when used. */
import type { Command } from 'commander'
import type { Clock } from '../lib/clock.ts'
import type { ReceiptLog } from '../receipts/receipt-log.ts'
import type { CommandBackend } from '../sandboxes/command-backend.ts'
import type { ManagerLogger } from '../sandboxes/manager/manager-options.ts'
import type { SupervisedSandboxes } from '../sandboxes/manager.ts'
import type { Home } from '../store/home.ts'
import type { Store } from '../store/store.ts'
import type { HealthRow } from './doctor/row.ts'

export interface CliContext {
  readonly home: Home
  readonly clock: Clock
  readonly environment: NodeJS.ProcessEnv
  readonly stdin: NodeJS.ReadStream
  readonly stdout: NodeJS.WriteStream
  readonly stderr: NodeJS.WriteStream
  /** Aborts on Ctrl-C and SIGTERM. */
  readonly signal: AbortSignal
  /** Aborts on the second of them: what still runs is ended by force. */
  readonly kill: AbortSignal
  /** Who acts: the subject of the active login, or `local-user:<name>`. */
  operator(): Promise<string>
  /** `local-user:<name>`, whoever is logged in. */
  readonly localUser: string
  /** Opened on first use, closed when the command ends. */
  store(): Promise<Store>
  log(): Promise<ReceiptLog>
  /** Where commands on this machine run. */
  processCommands(): Promise<CommandBackend>
  /** What each kind of place says of this machine. */
  instanceHealth(): Promise<readonly HealthRow[]>
  /** The program itself: the supervisor is another run of it. */
  readonly mainFile: string
  /** Sandboxes that outlive a command. Only the supervisor opens them; commands ask it. */
  openSandboxes(log: ManagerLogger): Promise<SupervisedSandboxes>
  /** The command's exit code when it is neither success nor an error, e.g. a child's own. */
  setExitCode(code: number): void
  /** Of a command whose reader's leaving is no success, as for any program that passes on another's output. */
  exitWhenUnread(code: number): void
}

/** A noun's file exports one of these. */
export type NounBuilder = (context: CliContext, verb?: string) => Command | Promise<Command>
