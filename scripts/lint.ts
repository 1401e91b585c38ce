/** Runs every check of the sources at once, and prints the output of those that fail. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'

const CHECKS = [
  'tsc --noEmit',
  'biome check .',
  'knip',
  'node scripts/check-public.ts',
  'node scripts/check-words.ts',
  'node scripts/check-links.ts',
  'node scripts/generate-docs.ts --check',
  'node --disable-warning=ExperimentalWarning scripts/build-verifier.ts --check',
]

const failed = (await Promise.all(CHECKS.map(passes))).includes(false)
if (failed) process.exitCode = 1

async function passes(command: string): Promise<boolean> {
  const [program, ...args] = command.split(' ')
  const child = spawn(program!, args, { stdio: ['ignore', 'pipe', 'pipe'] })
  const output: Buffer[] = []
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (piece: Buffer) => output.push(piece))
  const [code, signal] = await once(child, 'close')
  if (code === 0) return true
  process.stderr.write(`\n${command}: ${signal ?? `exit ${code}`}\n${Buffer.concat(output)}`)
  return false
}
