/** A separate home and the real command line, for tests that use Craik like a user. */
import { spawn } from 'node:child_process'
import { chownSync, existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { getCompileCacheDir } from 'node:module'
import { tmpdir } from 'node:os'
import { basename, dirname, join, resolve } from 'node:path'
import { builtFolder } from './built-craik.ts'

export const ROOT = resolve(import.meta.dirname, '..')
export const NODE = process.execPath

export interface CommandResult {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

export interface RunOptions {
  readonly input?: string | Buffer
  readonly env?: Readonly<Record<string, string>>
  readonly cwd?: string
  /** Options of node itself, such as a preloaded module. */
  readonly nodeArguments?: readonly string[]
  /** The user to run as (default: the user who runs the tests). */
  readonly uid?: number
  readonly gid?: number
  /** The process is killed after this time. Its code is then null. */
  readonly timeoutMs?: number
}

/** Returns the main file that a user's `craik` runs. */
export function builtMain(): string {
  return join(builtFolder(), 'src/main.cjs')
}

export class TestHome implements Disposable {
  readonly folder = mkdtempSync(join(tmpdir(), 'craik-test-'))
  readonly home = join(this.folder, 'home')

  /** Runs `craik …` and waits until it exits. */
  run(args: readonly string[], options: RunOptions = {}): Promise<CommandResult> {
    return run(NODE, [...(options.nodeArguments ?? []), builtMain(), ...args], {
      cwd: this.folder,
      ...options,
      env: { ...environmentOf(this), ...options.env },
    })
  }

  /** Runs the command, expects success, and parses its output. */
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

/** Returns the environment that `craik` gets, for tests that start it themselves. */
export function environmentOf(test: { readonly folder: string; readonly home: string }) {
  const { PATH = '', NODE_COMPILE_CACHE = '' } = process.env
  return { PATH, NODE_COMPILE_CACHE, HOME: test.folder, CRAIK_HOME: test.home }
}

/** Links the compile cache of the tests into the user's cache, because supervisors use no other one. */
export function linkCompileCache(home: string, uid = process.getuid!()): void {
  const cache = getCompileCacheDir()
  if (cache === undefined) return
  // Node has a cache per version and user. The name ends with the user id.
  const name = basename(cache).replace(/\d+$/, `${uid}`)
  const shared = join(dirname(cache), name)
  const compiled = join(dirname(home), '.cache/craik/compile')
  const folders = [home, join(compiled, '../..'), join(compiled, '..'), compiled, shared]
  for (const folder of folders) {
    if (existsSync(folder)) continue
    mkdirSync(folder, { mode: 0o700 })
    chownSync(folder, uid, uid)
  }
  const link = join(compiled, name)
  if (!existsSync(link)) symlinkSync(shared, link)
}

export function run(file: string, args: readonly string[], options: RunOptions = {}): Promise<CommandResult> {
  return new Promise((done, fail) => {
    const child = spawn(file, args, {
      cwd: options.cwd,
      env: options.env as NodeJS.ProcessEnv,
      stdio: 'pipe',
      ...(options.uid !== undefined && { uid: options.uid }),
      ...(options.gid !== undefined && { gid: options.gid }),
      ...(options.timeoutMs !== undefined && { timeout: options.timeoutMs, killSignal: 'SIGKILL' }),
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
