/** Runs a program to its end and returns what it wrote. */
import { cleanEnvironment, type RunOptions, type RunResult, runChild } from './child.ts'

type Finished = RunResult & { readonly stdout: string; readonly stderr: string }

export async function collectOutput(
  cwd: string,
  argv: readonly string[],
  options: Partial<RunOptions> = {},
): Promise<Finished> {
  const stdout: Buffer[] = []
  const stderr: Buffer[] = []
  const result = await runChild({
    argv,
    cwd,
    env: cleanEnvironment(process.env),
    timeoutMs: 60_000,
    onStdout: (chunk) => void stdout.push(chunk),
    onStderr: (chunk) => void stderr.push(chunk),
    ...options,
  })
  return { ...result, stdout: Buffer.concat(stdout).toString(), stderr: Buffer.concat(stderr).toString() }
}
