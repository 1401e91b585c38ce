/** A home of its own and the real command line, for tests that use Craik as a person would. */
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'

export const ROOT = resolve(import.meta.dirname, '..')
export const NODE = process.execPath

export interface Ran {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

export interface RunOptions {
  readonly input?: string | Buffer
  readonly env?: Readonly<Record<string, string>>
  readonly cwd?: string
  /** Before the arguments of node itself, e.g. a preloaded module. */
  readonly nodeArguments?: readonly string[]
  /** Whom it runs as, when that is not who runs the tests. */
  readonly uid?: number
  readonly gid?: number
}

export class TestHome implements Disposable {
  readonly folder = mkdtempSync(join(tmpdir(), 'craik-test-'))
  readonly home = join(this.folder, 'home')

  /** Runs `craik …` to its end. */
  run(args: readonly string[], options: RunOptions = {}): Promise<Ran> {
    return run(NODE, [...(options.nodeArguments ?? []), join(ROOT, 'src/main.ts'), ...args], {
      cwd: this.folder,
      ...options,
      env: { PATH: process.env.PATH!, HOME: this.folder, CRAIK_HOME: this.home, ...options.env },
    })
  }

  /** Runs it, expects success, and parses what it printed. */
  async json<T>(args: readonly string[], options: RunOptions = {}): Promise<T> {
    const { code, stdout, stderr } = await this.run(args, options)
    if (code !== 0) throw new Error(`craik ${args.join(' ')} exited ${code}: ${stderr}`)
    return JSON.parse(stdout) as T
  }

  path(...names: readonly string[]): string {
    return join(this.folder, ...names)
  }

  [Symbol.dispose](): void {
    rmSync(this.folder, { recursive: true, force: true })
  }
}

export function run(file: string, args: readonly string[], options: RunOptions = {}): Promise<Ran> {
  return new Promise((done, fail) => {
    const child = spawn(file, args, {
      cwd: options.cwd,
      env: options.env as NodeJS.ProcessEnv,
      stdio: 'pipe',
      ...(options.uid !== undefined && { uid: options.uid }),
      ...(options.gid !== undefined && { gid: options.gid }),
    })
    const out: Buffer[] = []
    const err: Buffer[] = []
    child.stdout.on('data', (chunk) => out.push(chunk))
    child.stderr.on('data', (chunk) => err.push(chunk))
    child.on('error', fail)
    child.on('close', (code) =>
      done({ code, stdout: Buffer.concat(out).toString(), stderr: Buffer.concat(err).toString() }),
    )
    child.stdin.on('error', () => {})
    child.stdin.end(options.input ?? '')
  })
}
