/** A person who uses `craik`: commands that run on meanwhile, and a terminal to type at. */
import { spawn } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import * as pty from '@lydell/node-pty'
import { builtMain, environmentOf, NODE, type Ran, type TestHome } from '../craik.ts'

export interface Running {
  readonly child: ReturnType<typeof spawn>
  readonly ended: Promise<Ran>
  stdout(): string
  /** Waits until it has printed that. */
  says(text: string): Promise<void>
}

/** A command that runs on while the test goes on. */
export function startCraik(
  home: TestHome,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Running {
  const child = spawn(NODE, [builtMain(), ...args], {
    cwd: home.folder,
    env: { ...environmentOf(home), ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let stdout = ''
  let stderr = ''
  child.stdout.on('data', (chunk) => {
    stdout += chunk
  })
  child.stderr.on('data', (chunk) => {
    stderr += chunk
  })
  const ended = new Promise<Ran>((done) => child.once('close', (code) => done({ code, stdout, stderr })))
  return {
    child,
    ended,
    stdout: () => stdout,
    async says(text) {
      while (!stdout.includes(text)) {
        if (child.exitCode !== null) throw new Error(`it ended without saying ${text}: ${stdout}${stderr}`)
        await sleep(20)
      }
    },
  }
}

/** Where a person sits: a home, and whom they are and what they run when that is not as in the tests. */
interface UserHome {
  readonly folder: string
  readonly home: string
  readonly program?: { readonly node: string; readonly main: string }
  readonly user?: { readonly uid?: number; readonly gid?: number }
  /** What `craik` is given of the environment, when that is more than its home. */
  readonly environment?: Readonly<Record<string, string>>
}

/** A person at a terminal. */
export class Terminal implements Disposable {
  readonly #pty: pty.IPty
  readonly exited: Promise<number>
  screen = ''

  /** With a script, `craik …` is its `"$0" "$@"`. */
  constructor(
    home: UserHome,
    args: readonly string[],
    cols: number,
    rows: number,
    script = 'exec "$0" "$@"',
  ) {
    const { node, main } = home.program ?? { node: NODE, main: builtMain() }
    this.#pty = pty.spawn('/bin/sh', ['-c', script, node, main, ...args], {
      cols,
      rows,
      cwd: home.folder,
      ...home.user,
      env: { ...(home.environment ?? environmentOf(home)), TERM: 'xterm-256color' },
    })
    this.#pty.onData((data) => {
      this.screen += data
    })
    this.exited = new Promise((done) => this.#pty.onExit(({ exitCode }) => done(exitCode)))
  }

  types(text: string): void {
    this.#pty.write(text)
  }

  resize(cols: number, rows: number): void {
    this.#pty.resize(cols, rows)
  }

  async says(text: string, timeoutMs = 60_000, read = (screen: string) => screen): Promise<void> {
    const until = performance.now() + timeoutMs
    while (!read(this.screen).includes(text)) {
      if (performance.now() > until) throw new Error(`the terminal never said ${text}:\n${this.screen}`)
      await sleep(20)
    }
  }

  /** A new size takes a moment to arrive: asks again until it is there. */
  async until(work: () => Promise<void>): Promise<void> {
    for (let tries = 0; ; tries++) {
      try {
        return await work()
      } catch (error) {
        if (tries > 20) throw error
      }
    }
  }

  [Symbol.dispose](): void {
    this.#pty.kill('SIGKILL')
  }
}
