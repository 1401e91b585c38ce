/** Runs an engine until its stdin closes, so that nothing of the engine is left however the tests end. */
import { TestEngine } from './engine.ts'

// A Ctrl-C reaches every process at the terminal. The tests must end before this process.
for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(name, () => {})

const engine = await TestEngine.start()
process.stdout.on('error', () => {})
process.stdout.write(`${engine.address}\n`)
for await (const _ of process.stdin);
await engine[Symbol.asyncDispose]()
