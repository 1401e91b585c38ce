/** Holds an engine for as long as somebody holds its stdin: however the tests end, nothing of the engine outlives them. */
import { TestEngine } from './engine.ts'

// A Ctrl-C reaches everyone at the terminal. The tests end first, and then this.
for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(name, () => {})

const engine = await TestEngine.start()
process.stdout.on('error', () => {})
process.stdout.write(`${engine.address}\n`)
for await (const _ of process.stdin);
await engine[Symbol.asyncDispose]()
