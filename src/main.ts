/** The composition root: the only file that names the concrete store, and the entry point of every command. */
import { writeSync } from 'node:fs'
import { enableCompileCache } from 'node:module'
import { homedir, userInfo } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { CliContext } from './cli/context.ts'
import { NOUNS } from './cli/nouns.ts'
import { CraikError, ERRORS } from './errors.ts'
import { systemClock } from './lib/clock.ts'
import { exitWithin } from './lib/exit-within.ts'
import { ensureUserCache } from './lib/user-cache.ts'
import type { ReceiptLog } from './receipts/receipt-log.ts'
import { homeAt } from './store/home.ts'
import type { Store } from './store/store.ts'

/** After a stop signal, a command has this long to end its child process and write its receipt. */
const INTERRUPT_TIMEOUT_MS = 10_000
/** How long open resources may delay the exit after all work is done and all output is written. */
const EXIT_DELAY_MS = 1_000

const home = homeAt()
useCompileCache()

const interrupted = new AbortController()
const killed = new AbortController()
let opened: Promise<Store> | undefined
let log: Promise<ReceiptLog> | undefined
let operator: Promise<string> | undefined
let exitCode = 0
let readerLeft = false
let unreadExitCode = 0
let outputFailure: NodeJS.ErrnoException | undefined
let failed = false
let settled = false

const writerModule = new URL(
  import.meta.url.endsWith('.ts') ? './writer.ts' : './writer.cjs',
  import.meta.url,
)
const context: CliContext = {
  home,
  clock: systemClock,
  environment: process.env,
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  signal: interrupted.signal,
  kill: killed.signal,
  operator() {
    operator ??= import('./run/agents/operator-login.ts').then(({ actingOperator }) =>
      actingOperator(context, context.localUser),
    )
    return operator
  },
  localUser: `local-user:${userName()}`,
  store() {
    opened ??= import('./store/sqlite/sqlite-store.ts').then(({ openSqliteStore }) =>
      openSqliteStore(home, writerModule),
    )
    return opened
  },
  log() {
    log ??= Promise.all([import('./receipts/receipt-log.ts'), context.store()]).then(
      ([{ createReceiptLog }, store]) => createReceiptLog(store, systemClock),
    )
    return log
  },
  processCommands: async () =>
    (await import('./sandboxes/backends/process/command-backend.ts')).processCommands({
      craikHome: home.root,
      environment: process.env,
    }),
  processHealth: async () =>
    (await import('./sandboxes/backends/process/process-health.ts')).processHealth(process.env),
  mainFile: fileURLToPath(import.meta.url),
  async openSandboxes(logger) {
    const [{ createSandboxManager }, { processBackend }, { dockerBackend }, store, receipts, limits] =
      await Promise.all([
        import('./sandboxes/manager.ts'),
        import('./sandboxes/backends/process/backend.ts'),
        import('./sandboxes/backends/docker/backend.ts'),
        context.store(),
        context.log(),
        import('./cli/limits-file.ts').then(({ LimitsFile }) => LimitsFile.open(home, logger)),
      ])
    const deps = { craikHome: home.root, environment: process.env }
    const [{ openHostGateway }, { gatewayFor }, { harnessStore }, { prepareProcedure }] = await Promise.all([
      import('./supervisor/host-gateway.ts'),
      import('./supervisor/sandbox-gateway.ts'),
      import('./harnesses/packages/harness-store.ts'),
      import('./policy/tokens.ts'),
    ])
    const [gateway] = await Promise.all([
      openHostGateway({
        store,
        log: receipts,
        clock: systemClock,
        home,
        environment: process.env,
        logger,
        userHome: homedir(),
        operator: context.localUser,
      }),
      // An update can remove the policy engine's files while this process runs, so the writer loads the engine now.
      store.write(prepareProcedure, null),
    ])
    return createSandboxManager({
      ...gatewayFor(gateway, { store, clock: systemClock }),
      store,
      log: receipts,
      clock: systemClock,
      home,
      backends: { process: processBackend(deps), docker: dockerBackend(deps) },
      logger,
      harnesses: harnessStore,
      environment: process.env,
      admission: async () => (await limits.current()).admission,
      warmPlaces: (await limits.current()).warmPlaces,
      async readSecret(name, until) {
        const { resolveSecret } = await import('./secrets/resolve.ts')
        return resolveSecret(store, home, process.env, name, until)
      },
    })
  },
  setExitCode(code) {
    exitCode = code
  },
  exitWhenUnread(code) {
    unreadExitCode = code
  },
}

for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.on(name, () => {
    // The first signal asks the command to stop. The second kills the child process, and the receipt is still written.
    // The third exits at once.
    if (killed.signal.aborted) process.exit(130)
    if (interrupted.signal.aborted) killed.abort()
    interrupted.abort(new CraikError('interrupted', 'interrupted'))
    setTimeout(() => process.exit(130), INTERRUPT_TIMEOUT_MS).unref()
  })
}
for (const stream of [process.stdout, process.stderr]) {
  // The reader of a pipe may exit early (`craik receipts list | head`). That is not an error, but the command stops:
  // its child process ends and gets its receipt, as after Ctrl-C. Any other failure is reported, because output was
  // lost.
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') readerLeft = true
    else outputFailure ??= error
    interrupted.abort(new CraikError('interrupted', 'the reader of the output closed it', { cause: error }))
  })
}
// When nothing is left that could wake it, Node exits in the middle of a command, and usually reports success.
process.on('exit', (code) => {
  if (settled || code !== 0) return
  process.exitCode = ERRORS.internal.exit
  writeSync(2, `craik: internal error: the command stopped before it finished\n  ${ERRORS.internal.hint}\n`)
})

void start()

async function start(): Promise<void> {
  try {
    const { runCommand } = await import('./cli/run-command.ts')
    await runCommand(context, NOUNS, process.argv.slice(2))
  } catch (error) {
    failed = true
    await report(error)
  } finally {
    await closeStore()
  }
  if (!failed) await report(undefined)
  settled = true
  process.exitCode = readerLeft ? unreadExitCode : exitCode
  exitWithin(EXIT_DELAY_MS, (leftOpen) => writeSync(2, `craik: still open at exit: ${leftOpen.join(', ')}\n`))
}

/** Reports the error of the command, if there is one, and also a failure to write its output. */
async function report(thrown: unknown): Promise<void> {
  await Promise.all([process.stdout, process.stderr].map(flushStream))
  if (readerLeft) return
  const stopped = thrown === undefined || (thrown instanceof CraikError && thrown.code === 'interrupted')
  const error = outputFailure !== undefined && stopped ? unwritable(outputFailure) : thrown
  if (error === undefined) return
  const { reportError } = await import('./cli/report-error.ts')
  exitCode = await reportError(context, error)
}

/** Settles when all earlier output was written, or could not be. */
async function flushStream(stream: NodeJS.WriteStream): Promise<void> {
  await new Promise<void>((done) => {
    stream.write('', () => done())
  })
  // Node emits the error of a write after the callback of that write.
  await new Promise((done) => setImmediate(done))
}

function unwritable(cause: NodeJS.ErrnoException): CraikError {
  if (cause.code === 'ENOSPC' || cause.code === 'EDQUOT' || cause.code === 'EFBIG')
    return new CraikError('disk_full', `the output is incomplete: no space left (${cause.code})`, {
      cause,
    })
  return new CraikError('disk_full', `the output is incomplete: cannot write it (${cause.code})`, {
    hint: 'check where the output goes',
    cause,
  })
}

/**
 * Closes the store, which signs the newest receipts. If that fails, the receipts are recorded all the same, so the exit
 * code stays.
 */
async function closeStore(): Promise<void> {
  try {
    await (await opened?.catch(() => undefined))?.close()
  } catch (error) {
    if (failed) return
    const { reportError } = await import('./cli/report-error.ts')
    await reportError(context, error instanceof CraikError ? uncoveredError(error) : error)
  }
}

function uncoveredError(cause: CraikError): CraikError {
  const message = `recorded, but not yet covered by a signed checkpoint: ${cause.message}`
  return new CraikError(cause.code, message, { hint: cause.hint, cause })
}

/**
 * Enables Node's compile cache. Compiled code runs on the host, so it is stored in the user's own cache, never in a
 * home. No other user may be able to write there. `receipts verify` runs nothing but the package itself. Without a
 * cache, a command only starts more slowly.
 */
function useCompileCache(): void {
  if (process.argv.includes('verify')) return
  try {
    enableCompileCache(join(ensureUserCache(process.env), 'compile'))
  } catch (error) {
    if (!(error instanceof CraikError)) throw error
  }
}

function userName(): string {
  try {
    return userInfo().username.replace(/[^A-Za-z0-9._-]/g, '-')
  } catch {
    return `uid-${process.getuid?.() ?? 'unknown'}`
  }
}
