/** Runs before the container tests: starts an engine with the image, or reports why none is available. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline/promises'
import { openEngine } from '../src/sandboxes/backends/docker/engine/engine.ts'
import { whyNoOwnEngine } from './engine.ts'
import { NO_ENGINE } from './engine-here.ts'
import { prepareImage } from './engine-image.ts'
import { reportImage } from './engine-ready.ts'

/**
 * Building the image takes most of a minute. Tests of other projects run meanwhile, and test/engine-ready.ts waits for
 * it.
 */
export default async function setup(): Promise<() => Promise<void>> {
  const keeper = process.env.CRAIK_ENGINE || whyNoOwnEngine() ? undefined : await startKeeper()
  const engine = await openEngine(process.env).catch((error: Error) => error)
  if (engine instanceof Error) {
    await end(keeper)
    return noEngine(engine)
  }
  const prepared = prepareImage(engine).then(
    () => reportImage(''),
    (error: Error) => reportImage(error.stack ?? error.message),
  )
  return async () => {
    await prepared
    await end(keeper)
  }
}

/** Without an engine, container tests are skipped with the reason. With CI=true, the run fails. */
function noEngine(error: Error): () => Promise<void> {
  const own = whyNoOwnEngine()
  const reason = own === undefined ? error.message : `${error.message}; ${own}`
  if (process.env.CI === 'true') throw new Error(`the tests with containers cannot run: ${reason}`)
  process.env[NO_ENGINE] = reason
  process.stderr.write(`tests with containers are skipped: ${reason}\n`)
  return async () => {}
}

async function startKeeper(): Promise<ChildProcess> {
  const keeper = spawn(process.execPath, [join(import.meta.dirname, 'engine-keeper.ts')], {
    stdio: ['pipe', 'pipe', 'inherit'],
    // Uses a separate process group. A Ctrl-C then ends only the tests, and the keeper detects their end.
    detached: true,
  })
  const lines = createInterface({ input: keeper.stdout! })
  const [address] = (await Promise.race([
    once(lines, 'line'),
    once(keeper, 'exit').then(([code]) => {
      throw new Error(`the engine for the tests did not start (exit ${code})`)
    }),
  ])) as [string]
  process.env.CRAIK_ENGINE = address
  return keeper
}

async function end(keeper: ChildProcess | undefined): Promise<void> {
  if (keeper === undefined || keeper.exitCode !== null) return
  const exited = once(keeper, 'exit')
  keeper.stdin!.end()
  await exited
}
