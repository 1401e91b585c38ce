/** The context of every command: the home, the clock, the streams, and resources that open on first use. */
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
  /** Aborts on the second of these signals. Craik then kills what still runs. */
  readonly kill: AbortSignal
  /** Returns the current operator: the subject of the active login, or `local-user:<name>`. */
  operator(): Promise<string>
  /** `local-user:<name>`, even if a login is active. */
  readonly localUser: string
  /** Opens the store on first use. Craik closes it when the command ends. */
  store(): Promise<Store>
  log(): Promise<ReceiptLog>
  /** Returns the backend that runs commands on this host. */
  processCommands(): Promise<CommandBackend>
  /** Checks whether this host can run process sandboxes. */
  processHealth(): Promise<readonly HealthRow[]>
  /** The file of the program itself, which Craik also runs as the supervisor. */
  readonly mainFile: string
  /**
   * Opens the sandboxes that outlive a command. Only the supervisor calls this; commands send requests to the
   * supervisor.
   */
  openSandboxes(log: ManagerLogger): Promise<SupervisedSandboxes>
  /** Sets the exit code of the command when it is neither success nor an error, such as the code of a child process. */
  setExitCode(code: number): void
  /**
   * Sets the exit code for the case that the reader of the output exits. Commands that forward another program's output
   * use it, because for them that is not a success.
   */
  exitWhenUnread(code: number): void
}

/** Each noun's file exports a function of this type. */
export type NounBuilder = (context: CliContext, verb?: string) => Command | Promise<Command>
