/** Before the tests with containers: an engine for them, with the image in it, or the reason why there is none. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline/promises'
import { openEngine } from '../src/sandboxes/backends/docker/engine/engine.ts'
import { whyNoOwnEngine } from './engine.ts'
import { NO_ENGINE } from './engine-here.ts'
import { prepareImage } from './engine-image.ts'
import { reportImage } from './engine-ready.ts'

/** The image takes most of a minute to build: tests of other projects run meanwhile, and test/engine-ready.ts waits for it. */
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

/** On a laptop the tests that need one are skipped, and say why; on a machine that is to prove something they fail. */
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
    // In a group of its own: a Ctrl-C is for the tests, whose end it notices.
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
