/** Starts the fixture's agent as a child process of the test, with its own home folder. */
import { type ChildProcess, spawn } from 'node:child_process'
import { Readable, Writable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { packageFile } from '../../lib/package-files.ts'
import type { AgentProcess } from './agent-process.ts'

export function localAgent(home: string, script?: string): AgentProcess & { readonly child: ChildProcess } {
  const agent = fileURLToPath(packageFile('image/harnesses/fixture/agent.mjs'))
  const args = script === undefined ? [agent] : ['--input-type=module', '-e', script]
  const child = spawn(process.execPath, args, { env: { HOME: home, PATH: process.env.PATH } })
  let complaint = ''
  child.stderr.on('data', (piece) => {
    complaint += piece
  })
  return {
    child,
    input: Writable.toWeb(child.stdin) as WritableStream<Uint8Array>,
    output: Readable.toWeb(child.stdout) as ReadableStream<Uint8Array>,
    ended: new Promise((end) =>
      child.once('close', (code, signal) =>
        end({
          endDescription: signal === null ? `exited with ${code}` : `was killed by ${signal}`,
          errorOutput: complaint,
        }),
      ),
    ),
    async kill() {
      child.kill('SIGKILL')
    },
  }
}
